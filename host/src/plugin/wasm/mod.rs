//! Plugins as sandboxed WebAssembly components: the product's implementation of [`Plugin`].
//!
//! One [`Runtime`] per process: one engine, each file compiled once. A plugin gets nothing but its messages
//! and settings, and is held to its budgets at every entry (Invariant 7).

#[allow(missing_docs, unreachable_pub, reason = "generated from the WIT")]
mod bindings;
mod budget;
mod cache;
pub(super) mod component;
mod convert;
mod cpu;
mod engine;
mod imports;
mod instance;
pub(super) mod private;
mod wasi;

use std::{
    collections::HashMap,
    fmt, fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use budget::State;
use cache::Cache;
use instance::{WasmInstance, WasmPlugin};
use sha2::{Digest, Sha256};
use wasmtime::{Engine, component::Component};

use super::{Description, FILE_LIMIT, Plugin, PluginError, distribution};
use crate::{config, panics};

/// Compiles and keeps plugins.
pub struct Runtime {
    engine: Engine,
    compiled: Mutex<HashMap<[u8; 32], bindings::PluginPre<State>>>,
    cache: Option<Cache>,
    /// Where plugins of registries are kept, and compiled code.
    folder: Option<PathBuf>,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("cached_on_disk", &self.cache.is_some()).finish_non_exhaustive()
    }
}

impl Runtime {
    /// Starts the engine and its clock. `cache` is a private folder for compiled code: it is made with mode 0700, and
    /// not used where others have access to it.
    ///
    /// # Errors
    /// [`PluginError::Host`] where this machine cannot run the engine.
    pub fn new(cache: Option<&Path>) -> Result<Self, PluginError> {
        let host = |error: wasmtime::Error| PluginError::Host { message: format!("the plugin engine: {error:#}") };
        let engine = engine::engine().map_err(host)?;
        let folder = cache.map(Path::to_owned);
        let cache = cache.and_then(|folder| match Cache::open(folder, &engine) {
            Ok(cache) => Some(cache),
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "compiled plugins are not kept on disk");
                None
            }
        });
        Ok(Self { engine, compiled: Mutex::default(), cache, folder })
    }

    /// Reads, checks, compiles and configures a plugin. Takes long where it has to be compiled (a Rust plugin 0.2 s, an
    /// interpreter 20 s): not for an async worker.
    ///
    /// # Errors
    /// [`PluginError::Load`] where the file is not the pinned one, is no plugin, or wants what it is not given;
    /// otherwise what its `describe` or `configure` does wrong.
    pub fn load(&self, plugin: &config::Plugin) -> Result<Arc<dyn Plugin>, PluginError> {
        let file = Loading { path: plugin.path.display().to_string() };
        let local = distribution::local(plugin, self.folder.as_deref())?;
        let bytes = file.read(&local.file)?;
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        // Of what was read, and not of the file, which may be another one by now.
        local.check(&digest).map_err(|why| file.refuse(why))?;
        file.check_pin(&digest, plugin.sha256.as_ref())?;
        let compiled = self.compiled(&file, &bytes, digest)?;

        let name = Arc::from(file.path.as_str());
        let mut instance = WasmInstance::new(&self.engine, &compiled, name, plugin.limits, 0)?;
        let description = file.description(&instance.describe()?)?;
        drop(instance);
        let settings = match &plugin.settings {
            serde_json::Value::Null => "{}".to_owned(),
            settings => settings.to_string(),
        };
        let limits = plugin.limits;
        let plugin = WasmPlugin { engine: self.engine.clone(), compiled, digest, description, limits, settings };
        // Settings that are refused are found now, not at the first batch.
        plugin.instance(0)?;
        Ok(Arc::new(plugin))
    }

    /// What a plugin says of itself, and its digest; without settings.
    ///
    /// # Errors
    /// As [`Runtime::load`], but for the settings.
    pub fn inspect(&self, path: &Path) -> Result<(Description, [u8; 32]), PluginError> {
        let file = Loading { path: path.display().to_string() };
        let bytes = file.read(path)?;
        let digest = Sha256::digest(&bytes).into();
        let compiled = self.compiled(&file, &bytes, digest)?;
        let limits = config::PluginLimits::default();
        let mut instance = WasmInstance::new(&self.engine, &compiled, Arc::from(file.path.as_str()), limits, 0)?;
        Ok((file.description(&instance.describe()?)?, digest))
    }

    /// The plugin of this digest, from memory, from disk, or compiled now.
    fn compiled(
        &self,
        file: &Loading,
        bytes: &[u8],
        digest: [u8; 32],
    ) -> Result<bindings::PluginPre<State>, PluginError> {
        let mut known = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = known.get(&digest) {
            return Ok(compiled.clone());
        }
        let component = match self.cache.as_ref().and_then(|cache| cache.get(&self.engine, &digest)) {
            Some(component) => component,
            None => self.compile(file, bytes, &digest)?,
        };
        let linker = imports::link(&self.engine, &component).map_err(|message| file.refuse(message))?;
        let linked = linker.instantiate_pre(&component).and_then(bindings::PluginPre::new);
        let compiled = linked.map_err(|error| file.refuse(format!("does not fit the contract: {error:#}")))?;
        known.insert(digest, compiled.clone());
        Ok(compiled)
    }

    fn compile(&self, file: &Loading, bytes: &[u8], digest: &[u8; 32]) -> Result<Component, PluginError> {
        let component = component::component_in(bytes).map_err(|message| file.refuse(message))?;
        // The compiler is large and its input is not trusted: a panic of its must not end the host.
        let compiled = catch_unwind(AssertUnwindSafe(|| Component::new(&self.engine, &component)));
        let compiled = match compiled {
            Ok(Ok(compiled)) => compiled,
            Ok(Err(error)) => return Err(file.refuse(format!("cannot be compiled: {error:#}"))),
            Err(panic) => return Err(file.refuse(format!("broke the compiler: {}", panics::words(panic.as_ref())))),
        };
        if let Some(cache) = &self.cache
            && let Err(error) = cache.put(digest, &compiled)
        {
            tracing::warn!(plugin = %file.path, %error, "the compiled plugin could not be kept on disk");
        }
        Ok(compiled)
    }
}

/// A file on its way to become a plugin.
struct Loading {
    path: String,
}

impl Loading {
    fn refuse(&self, message: impl Into<String>) -> PluginError {
        PluginError::Load { path: self.path.clone(), message: message.into() }
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, PluginError> {
        let unreadable = |error: std::io::Error| self.refuse(format!("cannot be read: {error}"));
        let size = fs::metadata(path).map_err(unreadable)?.len();
        if size > FILE_LIMIT {
            return Err(self.refuse(format!("has {size} bytes; the most is {FILE_LIMIT}")));
        }
        fs::read(path).map_err(unreadable)
    }

    fn check_pin(&self, digest: &[u8; 32], pin: Option<&[u8; 32]>) -> Result<(), PluginError> {
        let hex = |bytes: &[u8; 32]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        match pin {
            Some(pin) if pin != digest => Err(self.refuse(format!(
                "has the SHA-256 {}, but {} is pinned: deploy the pinned file, or change [consumer.plugin] sha256",
                hex(digest),
                hex(pin)
            ))),
            _ => Ok(()),
        }
    }

    fn description(&self, json: &str) -> Result<Description, PluginError> {
        let description: Description = serde_json::from_str(json)
            .map_err(|error| self.refuse(format!("describes itself in JSON that cannot be read: {error}")))?;
        let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let name = &description.name;
        if name.is_empty() || name.len() > 64 || !name.chars().all(fine) {
            return Err(
                self.refuse("describes itself under a name that is not 1 to 64 letters, digits, '-', '_' or '.'")
            );
        }
        Ok(description)
    }
}

#[cfg(test)]
mod tests;
