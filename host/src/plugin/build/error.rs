//! Why nothing was built.

use std::{io, path::PathBuf};

use super::rust::TARGET;

/// Why nothing was built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Nothing there that says which language it is.
    #[error(
        "{0} is no plugin's folder: it has none of Cargo.toml (Rust), go.mod (Go), pyproject.toml or app.py (Python), \
         package.json (JavaScript, or TypeScript where there is a tsconfig.json), or *.c (C)"
    )]
    NoPlugin(PathBuf),
    /// A tool that cannot be run, or a file that cannot be written.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What came of it.
        source: io::Error,
    },
    /// A tool that a person has to install.
    #[error("{tool} is not installed, and {what} need it: {way}")]
    NoTool {
        /// The tool.
        tool: &'static str,
        /// What cannot be done.
        what: &'static str,
        /// What to do.
        way: &'static str,
    },
    /// The standard library for WebAssembly is missing.
    #[error("the Rust target {TARGET} is not installed: run `rustup target add {TARGET}`")]
    NoTarget,
    /// The crate gives no WebAssembly.
    #[error("{package} is no cdylib: add `crate-type = [\"cdylib\", \"lib\"]` to [lib] in {manifest}")]
    NoCdylib {
        /// The package.
        package: String,
        /// Its manifest.
        manifest: PathBuf,
    },
    /// A tool has said what is wrong, on stderr.
    #[error("{0}")]
    Tool(String),
    /// What was built makes no component.
    #[error("{package} {message}")]
    NoComponent {
        /// The plugin.
        package: String,
        /// Why.
        message: String,
    },
}

pub(super) fn failed(what: &str, source: io::Error) -> BuildError {
    BuildError::Io { what: what.to_owned(), source }
}
