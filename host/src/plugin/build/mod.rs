//! `tidegate plugin build FOLDER`: from a plugin's source, in whatever language, to a component.
//!
//! The language is told by what is in the folder. Each has a file here that makes a core module or a component of it; what
//! they share is here: finding the tools ([`toolchain`]), knowing that nothing changed ([`inputs`]), and making a component
//! of a core module ([`component`]).

mod c;
mod component;
mod error;
mod go;
mod go_clock;
mod go_toolchain;
mod inputs;
mod javascript;
mod language;
mod python;
mod rust;
#[cfg(test)]
mod tests;
mod tool;
mod toolchain;

use std::{
    fs,
    path::{Path, PathBuf},
};

pub use error::BuildError;
use error::failed;
pub use go_toolchain::VERSION as GO;
use inputs::Inputs;
pub(crate) use inputs::MADE_BY_TOOLS;
pub use language::Language;
use sha2::{Digest, Sha256};
use toolchain::Toolchains;

use crate::atomic_file;

/// The contract, as the tools of other languages want it.
const WIT: &str = include_str!("../../../../guest-sdk/wit/plugin.wit");

/// A component that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Where it is.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: usize,
    /// For `[consumer.plugin] sha256`.
    pub sha256: [u8; 32],
}

/// Builds the plugin in `dir` and writes the component to `output`; by default to `target/plugins/NAME.wasm`, where NAME is
/// the plugin's name in snake case without a leading `plugin`, in the folder (Rust: in cargo's target folder). What the
/// tools say goes to stderr. Where neither source nor tools have changed since, nothing is built: interpreted
/// languages take up to 20 s, and give other bytes each time.
///
/// # Errors
/// See [`BuildError`].
pub fn build(dir: &Path, output: Option<&Path>) -> Result<Built, BuildError> {
    let language = Language::of(dir)?;
    if language == Language::Rust {
        // Cargo knows best what has changed, and where its target folder is.
        let (component, default) = rust::build(dir)?;
        return written(output.unwrap_or(&default), &component);
    }
    let default = dir.join("target/plugins").join(format!("{}.wasm", plugin_name(&folder_name(dir)?)));
    let path = output.unwrap_or(&default);
    let inputs = Inputs::of(dir, language).map_err(|source| failed("reading the plugin's source", source))?;
    if let Some(built) = inputs.built(path) {
        return Ok(built);
    }
    let toolchains = Toolchains::find()?;
    let component = match language {
        Language::Rust => unreachable!("built above"),
        Language::JavaScript | Language::TypeScript => javascript::build(dir, language, &toolchains)?,
        Language::Python => python::build(dir, &toolchains)?,
        Language::Go => go::build(dir, &toolchains)?,
        Language::C => c::build(dir, &toolchains)?,
    };
    let built = written(path, &component)?;
    inputs.remember(&built).map_err(|source| failed("noting what was built", source))?;
    Ok(built)
}

fn written(path: &Path, component: &[u8]) -> Result<Built, BuildError> {
    let write = || {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        // Whole or not at all: a host may be watching the file.
        atomic_file::write(path, component)
    };
    write().map_err(|source| failed(&format!("writing {}", path.display()), source))?;
    Ok(Built { path: path.to_owned(), size: component.len(), sha256: Sha256::digest(component).into() })
}

fn folder_name(dir: &Path) -> Result<String, BuildError> {
    let whole = dir.canonicalize().map_err(|source| failed(&format!("finding {}", dir.display()), source))?;
    Ok(whole.file_name().map_or_else(|| "plugin".to_owned(), |name| name.to_string_lossy().into_owned()))
}

/// What the file is called: `plugin-order-summary` gives `order_summary`.
fn plugin_name(name: &str) -> String {
    let name = name.replace('-', "_");
    name.strip_prefix("plugin_").map_or(name.clone(), str::to_owned)
}
