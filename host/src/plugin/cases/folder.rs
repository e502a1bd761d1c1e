//! A folder of cases on disk.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{Answer, Case, parse, render_answer};
use crate::{atomic_file, regular_file};

/// Why a folder's cases cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CasesError {
    /// The file system said no.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What came of it.
        source: io::Error,
    },
    /// A file that is no case.
    #[error("{path}: {message}", path = path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what is allowed.
        message: String,
    },
}

/// Reads every `*.toml` of a folder (not of its folders), by name.
///
/// # Errors
/// Of the first file that cannot be read.
pub fn read_folder(folder: &Path) -> Result<Vec<(PathBuf, Case)>, CasesError> {
    let failed = |source| CasesError::Io { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !hidden && path.extension().is_some_and(|extension| extension == "toml") && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    paths.into_iter().map(|path| read(&path).map(|case| (path, case))).collect()
}

fn read(path: &Path) -> Result<Case, CasesError> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let text = regular_file::read_text(path).map_err(|source| CasesError::Io { path: path.to_owned(), source })?;
    parse(&name, &text).map_err(|message| CasesError::Bad { path: path.to_owned(), message })
}

/// The cases that belong to a built plugin: `NAME.cases/` beside `NAME.wasm`, where there is such a folder.
#[must_use]
pub fn beside(plugin: &Path) -> Option<PathBuf> {
    let folder = plugin.with_extension("cases");
    folder.is_dir().then_some(folder)
}

/// Writes an answer into a case's file as what is expected from now on. The input stands as it was, with its comments.
///
/// # Errors
/// Where the file cannot be read or written.
pub fn update(path: &Path, answer: &Answer) -> Result<(), CasesError> {
    let failed = |source| CasesError::Io { path: path.to_owned(), source };
    let text = regular_file::read_text(path).map_err(failed)?;
    let text = with_answer(&text, answer).map_err(|message| CasesError::Bad { path: path.to_owned(), message })?;
    // Whole or not at all: somebody may be reading the folder.
    atomic_file::write(path, text.as_bytes()).map_err(failed)
}

/// A case's text with another answer.
pub(super) fn with_answer(text: &str, answer: &Answer) -> Result<String, String> {
    let mut document: toml_edit::DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    for key in ["identity", "change", "skip", "reject"] {
        document.remove(key);
    }
    Ok(format!("{}\n\n{}", document.to_string().trim_end(), render_answer(answer)))
}
