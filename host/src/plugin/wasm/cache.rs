//! Compiled code on disk, so that a start does not compile again.
//!
//! Compiled code is trusted blindly when it is loaded, so it is only ever taken from a folder that this user alone can
//! write to, under a name made of the plugin's digest and the engine's own fingerprint. A `.cwasm` from elsewhere is
//! never accepted.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Write},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use wasmtime::{Engine, component::Component};

use super::private::{make_private, private_file};

/// The folder, once it has been seen to be private.
pub(super) struct Cache {
    folder: PathBuf,
    /// Engines with another version, configuration or processor have another one.
    engine: u64,
}

impl Cache {
    /// Makes the folder, or sees that it is private.
    ///
    /// # Errors
    /// Where it cannot be made, or others may write to it.
    pub(super) fn open(folder: &Path, engine: &Engine) -> io::Result<Self> {
        make_private(folder)?;
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Ok(Self { folder: folder.to_owned(), engine: hasher.finish() })
    }

    fn file(&self, digest: &[u8; 32]) -> PathBuf {
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{digest}-{:016x}.cwasm", self.engine))
    }

    /// The compiled plugin of this digest, where it is there and whole. Anything wrong with it means compiling again.
    #[allow(
        unsafe_code,
        reason = "picking up compiled code that this host wrote itself, into a folder only it can write"
    )]
    pub(super) fn get(&self, engine: &Engine, digest: &[u8; 32]) -> Option<Component> {
        let content = fs::read(self.file(digest)).ok()?;
        let (sum, code) = content.split_at_checked(32)?;
        if Sha256::digest(code)[..] != *sum {
            return None;
        }
        // SAFETY: `code` came out of `Component::serialize` of an engine with this fingerprint: only `put` writes to the
        // folder, which `open` found private, and the sum shows that it is whole.
        unsafe { Component::deserialize(engine, code) }.ok()
    }

    /// Keeps a compiled plugin. The file appears whole or not at all.
    ///
    /// # Errors
    /// Where it cannot be written: a nuisance, not a failure.
    pub(super) fn put(&self, digest: &[u8; 32], component: &Component) -> io::Result<()> {
        let code = component.serialize().map_err(io::Error::other)?;
        let temporary = self.folder.join(format!("{}.{:?}.tmp", std::process::id(), std::thread::current().id()));
        let mut file = private_file(&temporary)?;
        file.write_all(&Sha256::digest(&code))?;
        file.write_all(&code)?;
        drop(file);
        fs::rename(&temporary, self.file(digest))
    }
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_kept_comes_back_and_what_is_broken_does_not() {
        let engine = Engine::default();
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(&folder.path().join("code"), &engine).unwrap();
        let digest = [7; 32];
        assert!(cache.get(&engine, &digest).is_none());
        let component = Component::new(&engine, b"\0asm\x0d\0\x01\0").unwrap();
        cache.put(&digest, &component).unwrap();
        assert!(cache.get(&engine, &digest).is_some());
        let mut content = fs::read(cache.file(&digest)).unwrap();
        *content.last_mut().unwrap() ^= 1;
        fs::write(cache.file(&digest), content).unwrap();
        assert!(cache.get(&engine, &digest).is_none());
        fs::write(cache.file(&digest), b"short").unwrap();
        assert!(cache.get(&engine, &digest).is_none());
    }

    #[test]
    fn a_folder_that_others_can_enter_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Cache::open(folder.path(), &Engine::default()).is_err());
    }
}
