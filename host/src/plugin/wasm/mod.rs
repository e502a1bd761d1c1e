//! Plugins as sandboxed WebAssembly components: the product's implementation of [`Plugin`].
//!
//! One [`Runtime`] per process: one engine, each file compiled once. A plugin gets nothing but its messages
//! and settings, and is held to its budgets at every entry (Invariant 7).

#[allow(missing_docs, unreachable_pub, reason = "generated from the WIT")]
mod bindings;
mod budget;
mod cache;
mod compile;
pub(super) mod component;
mod contract;
mod convert;
mod cpu;
mod engine;
mod imports;
mod instance;
pub(super) mod private;
mod wasi;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use budget::State;
use cache::Cache;
use compile::Failed;
pub use compile::{Compiler, compile_as_child, compile_in_child_processes};
use contract::Contract;
use instance::{WasmInstance, WasmPlugin};
use sha2::{Digest, Sha256};
use wasmtime::{Engine, component::Component};

use super::{Description, FILE_LIMIT, Plugin, PluginError, distribution};
use crate::config;

/// Compiled plugins that are kept in memory for whoever loads them next.
const KNOWN: usize = 16;

/// Compiles and keeps plugins.
pub struct Runtime {
    engine: Engine,
    /// The last used last.
    compiled: Mutex<Vec<([u8; 32], bindings::PluginPre<State>)>>,
    /// Held while something is compiled.
    compiling: Mutex<()>,
    compiler: Option<Compiler>,
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
        let (compiled, compiling) = (Mutex::default(), Mutex::default());
        Ok(Self { engine, compiled, compiling, compiler: compile::default(), cache, folder })
    }

    /// Compiles by this program in a child process, whatever [`compile_in_child_processes`] says.
    #[must_use]
    pub fn compiling_by(mut self, compiler: Compiler) -> Self {
        self.compiler = Some(compiler);
        self
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

        let state = State::new(Arc::from(file.path.as_str()), plugin.limits, 0, 0);
        let mut instance = WasmInstance::new(&self.engine, &compiled, state)?;
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
        let state = State::new(Arc::from(file.path.as_str()), config::PluginLimits::default(), 0, 0);
        let mut instance = WasmInstance::new(&self.engine, &compiled, state)?;
        Ok((file.description(&instance.describe()?)?, digest))
    }

    /// The plugin of this digest, from memory, from disk, or compiled now.
    fn compiled(
        &self,
        file: &Loading,
        bytes: &[u8],
        digest: [u8; 32],
    ) -> Result<bindings::PluginPre<State>, PluginError> {
        if let Some(known) = self.known(&digest) {
            return Ok(known);
        }
        // One at a time, since it takes much memory; who waits for the same file finds it then.
        let _alone = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = self.known(&digest) {
            return Ok(known);
        }
        let component = match self.cache.as_ref().and_then(|cache| cache.get(&self.engine, &digest)) {
            Some(component) => component,
            None => self.compile(file, bytes, &digest)?,
        };
        let (contract, linker) = imports::link(&self.engine, &component).map_err(|message| file.refuse(message))?;
        let linked = match contract {
            Contract::V0_1_0 => linker.instantiate_pre(&component).and_then(bindings::PluginPre::new),
        };
        let compiled = linked.map_err(|error| file.refuse(format!("does not fit the contract: {error:#}")))?;
        let mut known = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN {
            known.remove(0);
        }
        known.push((digest, compiled.clone()));
        Ok(compiled)
    }

    fn known(&self, digest: &[u8; 32]) -> Option<bindings::PluginPre<State>> {
        let mut known = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.iter().position(|(other, _)| other == digest)?;
        let found = known.remove(place);
        let compiled = found.1.clone();
        known.push(found);
        Some(compiled)
    }

    #[allow(unsafe_code, reason = "picking up code that this program's own compiler gave just now")]
    fn compile(&self, file: &Loading, bytes: &[u8], digest: &[u8; 32]) -> Result<Component, PluginError> {
        let code = match &self.compiler {
            None => compile::here(&self.engine, bytes).map_err(|reason| file.refuse(reason))?,
            Some(compiler) => compiler.compile(bytes).map_err(|failed| match failed {
                Failed::Refused(reason) => file.refuse(reason),
                Failed::Start(error) => PluginError::Host { message: format!("the compiler: {error}") },
            })?,
        };
        if let Some(cache) = &self.cache
            && let Err(error) = cache.put(digest, &code)
        {
            tracing::warn!(plugin = %file.path, %error, "the compiled plugin could not be kept on disk");
        }
        // SAFETY: `code` came out of this engine's compiler, in this process or in a child that runs the same program, over a
        // pipe that nobody else has. It says itself whether it fits this engine.
        let component = unsafe { Component::deserialize(&self.engine, &code) };
        component.map_err(|error| file.refuse(format!("cannot be compiled: {error:#}")))
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
        match pin {
            Some(pin) if pin != digest => Err(self.refuse(format!(
                "has the SHA-256 {}, but {} is pinned: deploy the pinned file, or change [consumer.plugin] sha256",
                hex::encode(digest),
                hex::encode(pin)
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
