//! Builds of the plugin in `guests/rules`: one from source, the others by replacing bytes of its constant, or
//! by adding some that mean nothing.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::services::checkout;

/// The same component with a custom section behind it: another digest, nothing else.
#[must_use]
pub fn another_build(component: &[u8], number: usize) -> Vec<u8> {
    let (name, content) = (b"build", format!("{number:08}"));
    let length = u8::try_from(1 + name.len() + content.len()).unwrap_or(u8::MAX);
    let head = [0, length, u8::try_from(name.len()).unwrap_or(u8::MAX)];
    [component, &head, name, content.as_bytes()].concat()
}

/// Puts a file where somebody may be reading it, in one step.
///
/// # Panics
/// Where it cannot be written.
pub fn replace(path: &Path, bytes: &[u8]) {
    let new: PathBuf = path.with_extension("new");
    fs::write(&new, bytes).unwrap();
    fs::rename(new, path).unwrap();
}

/// The bytes of one build.
#[derive(Clone, Debug)]
pub struct Builds(Vec<u8>);

impl Builds {
    /// From source, into this folder.
    ///
    /// # Panics
    /// Where it cannot be built.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        let source = checkout().join("tests/guests/rules");
        let built = tidegate::plugin::build::build(&source, Some(&folder.join("rules-from-source.wasm"))).unwrap();
        Self(fs::read(built.path).unwrap())
    }

    /// Another one of the same rules.
    #[must_use]
    pub fn numbered(&self, number: usize) -> Self {
        Self(another_build(&self.0, number))
    }

    /// One with other keys.
    #[must_use]
    pub fn with_other_keys(&self) -> Self {
        self.with("keys=0", "keys=1")
    }

    fn with(&self, from: &str, to: &str) -> Self {
        assert_eq!(from.len(), to.len());
        let at: Vec<usize> =
            (0..self.0.len() - from.len()).filter(|&at| self.0[at..].starts_with(from.as_bytes())).collect();
        assert!(!at.is_empty(), "the plugin has no {from:?} in it");
        let mut bytes = self.0.clone();
        for at in at {
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
        Self(bytes)
    }

    /// As a host shows it.
    #[must_use]
    pub fn sha256(&self) -> String {
        hex::encode(Sha256::digest(&self.0))
    }

    /// Puts it where a host finds it, in one step.
    ///
    /// # Panics
    /// Where it cannot be written.
    pub fn put(&self, path: &Path) {
        replace(path, &self.0);
    }
}
