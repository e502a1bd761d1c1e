//! What `path` of a plugin says.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::Reference;

/// Where a plugin comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A file on this machine.
    File(PathBuf),
    /// A registry.
    Registry(Reference),
}

impl Origin {
    /// Reads what was written; `file` says where a file of this name is.
    ///
    /// # Errors
    /// What is wrong with a reference.
    pub fn parse(text: &str, file: impl FnOnce(&str) -> PathBuf) -> Result<Self, String> {
        Ok(Reference::parse(text)?.map_or_else(|| Self::File(file(text)), Self::Registry))
    }

    /// The file, where it is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Registry(_) => None,
        }
    }

    /// The reference, where it is in a registry.
    #[must_use]
    pub fn reference(&self) -> Option<&Reference> {
        match self {
            Self::File(_) => None,
            Self::Registry(reference) => Some(reference),
        }
    }
}

impl<P: Into<PathBuf>> From<P> for Origin {
    fn from(path: P) -> Self {
        Self::File(path.into())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Registry(reference) => reference.fmt(f),
        }
    }
}
