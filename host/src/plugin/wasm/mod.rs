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
    fmt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use budget::State;
use cache::Cache;
use compile::Failed;
pub use compile::{Compiler, compile_as_child, compile_in_child_processes};
use contract::Contract;
use instance::{WasmInstance, WasmPlugin};
use wasmtime::{Engine, component::Component};

use super::{
    Description, Plugin, PluginError,
    distribution::{self, Artifact, Distribution},
};
use crate::config::{self, Config};

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
    distribution: Distribution,
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
        let distribution = Distribution::new(cache);
        let cache = cache.and_then(|folder| match Cache::open(folder, &engine) {
            Ok(cache) => Some(cache),
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "compiled plugins are not kept on disk");
                None
            }
        });
        let (compiled, compiling) = (Mutex::default(), Mutex::default());
        Ok(Self { engine, compiled, compiling, compiler: compile::default(), cache, distribution })
    }

    /// The same with what a configuration says of plugins.
    ///
    /// # Errors
    /// As [`Runtime::new`].
    pub fn of(config: &Config) -> Result<Self, PluginError> {
        Ok(Self { distribution: Distribution::of(config), ..Self::new(config.plugins.cache.as_deref())? })
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
        // Settings that are refused are found now, not at the first batch.
        self.unconfigured(plugin)?.with_settings(&plugin.settings)
    }

    /// The same without trying the settings: for who gives it others, by [`Plugin::with_settings`].
    ///
    /// # Errors
    /// As [`Runtime::load`], but for the settings.
    pub fn unconfigured(&self, plugin: &config::Plugin) -> Result<Arc<dyn Plugin>, PluginError> {
        let file = Loading { path: plugin.origin.to_string() };
        let Artifact { content, digest } = self.distribution.artifact(plugin)?;
        let (compiled, description) = self.described(&file, &content, digest, plugin.limits)?;
        let (engine, limits, settings) = (self.engine.clone(), plugin.limits, instance::settings(&plugin.settings));
        Ok(Arc::new(WasmPlugin { engine, compiled, digest, description, limits, settings }))
    }

    /// What a plugin says of itself, and its digest; without settings.
    ///
    /// # Errors
    /// As [`Runtime::load`], but for the settings.
    pub fn inspect(&self, path: &Path) -> Result<(Description, [u8; 32]), PluginError> {
        let file = Loading { path: path.display().to_string() };
        let Artifact { content, digest } = distribution::read_file(path).map_err(|why| file.refuse(why))?;
        let (_, description) = self.described(&file, &content, digest, config::PluginLimits::default())?;
        Ok((description, digest))
    }

    fn described(
        &self,
        file: &Loading,
        content: &[u8],
        digest: [u8; 32],
        limits: config::PluginLimits,
    ) -> Result<(bindings::PluginPre<State>, Description), PluginError> {
        let compiled = self.compiled(file, content, digest)?;
        let state = State::new(Arc::from(file.path.as_str()), limits, 0, 0);
        let mut instance = WasmInstance::new(&self.engine, &compiled, state)?;
        let description = file.description(&instance.describe()?)?;
        Ok((compiled, description))
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
