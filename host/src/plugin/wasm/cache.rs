//! Compiled code on disk, so that a start does not compile again.
//!
//! Compiled code is trusted blindly when it is loaded, so it is only ever taken from a folder that this user alone can
//! write to, under a name made of the plugin's digest and the engine's own fingerprint. A `.cwasm` from elsewhere is
//! never accepted.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use sha2::{Digest, Sha256};
use wasmtime::{Engine, component::Component};

use super::private::make_private;
use crate::atomic_file;

/// The most files that are kept: a plugin's every build is another one.
const FILES: usize = 64;
/// The most bytes.
const BYTES: u64 = 1 << 30;
/// What a process that died left behind is removed after this long.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The folder, once it has been seen to be private.
pub(super) struct Cache {
    folder: PathBuf,
    files: usize,
    bytes: u64,
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
        Ok(Self { folder: folder.to_owned(), files: FILES, bytes: BYTES, engine: hasher.finish() })
    }

    fn file(&self, digest: &[u8; 32]) -> PathBuf {
        self.folder.join(format!("{}-{:016x}.cwasm", hex::encode(digest), self.engine))
    }

    /// The compiled plugin of this digest, where it is there and whole. Anything wrong with it means compiling again.
    #[allow(
        unsafe_code,
        reason = "picking up compiled code that this host wrote itself, into a folder only it can write"
    )]
    pub(super) fn get(&self, engine: &Engine, digest: &[u8; 32]) -> Option<Component> {
        let file = self.file(digest);
        let content = fs::read(&file).ok()?;
        let (sum, code) = content.split_at_checked(32)?;
        if Sha256::digest(code)[..] != *sum {
            return None;
        }
        // SAFETY: `code` came out of the compiler of an engine with this fingerprint: only `put` writes to the folder, which
        // `open` found private, and the sum shows that it is whole.
        let component = unsafe { Component::deserialize(engine, code) }.ok()?;
        // What is used is what stays.
        let _ = fs::OpenOptions::new().append(true).open(&file).and_then(|file| file.set_modified(SystemTime::now()));
        Some(component)
    }

    /// Keeps compiled code, and makes room for it: what was used longest ago goes. The file appears whole or not at all.
    ///
    /// # Errors
    /// Where it cannot be written: a nuisance, not a failure.
    pub(super) fn put(&self, digest: &[u8; 32], code: &[u8]) -> io::Result<()> {
        atomic_file::write_private(&self.file(digest), &[&Sha256::digest(code), code])?;
        self.prune()
    }

    /// Several processes may do this at once: what is gone already is gone.
    fn prune(&self) -> io::Result<()> {
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let Ok(about) = fs::metadata(&path) else { continue };
            let used = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let age = used.elapsed().unwrap_or_default();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("cwasm") => kept.push((used, about.len(), path)),
                Some("tmp" | "probe") if age > ABANDONED => drop(fs::remove_file(&path)),
                _ => {}
            }
        }
        kept.sort_by(|one, other| other.cmp(one));
        let mut bytes = 0_u64;
        for (place, (_, size, path)) in kept.into_iter().enumerate() {
            bytes = bytes.saturating_add(size);
            // The newest stays, however big.
            if place > 0 && (place >= self.files || bytes > self.bytes) {
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
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
        let code = engine.precompile_component(b"\0asm\x0d\0\x01\0").unwrap();
        cache.put(&digest, &code).unwrap();
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

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let engine = Engine::default();
        let folder = tempfile::tempdir().unwrap();
        let mut cache = Cache::open(&folder.path().join("code"), &engine).unwrap();
        cache.files = 3;
        let code = engine.precompile_component(b"\0asm\x0d\0\x01\0").unwrap();
        let used = |cache: &Cache, n: u8, minutes_ago: u64| {
            let file = fs::OpenOptions::new().append(true).open(cache.file(&[n; 32])).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(60 * minutes_ago)).unwrap();
        };
        for n in 1..=3 {
            cache.put(&[n; 32], &code).unwrap();
            used(&cache, n, 10 - u64::from(n));
        }
        assert!(cache.get(&engine, &[1; 32]).is_some(), "the oldest, and used now");
        fs::write(cache.folder.join("1.dead.tmp"), b"half").unwrap();
        cache.put(&[4; 32], &code).unwrap();
        let there = |cache: &Cache| (1..=5).filter(|&n| cache.file(&[n; 32]).exists()).collect::<Vec<u8>>();
        assert_eq!(there(&cache), [1, 3, 4]);
        assert!(cache.folder.join("1.dead.tmp").exists(), "somebody may be writing it");
        cache.bytes = 1;
        cache.put(&[5; 32], &code).unwrap();
        assert_eq!(there(&cache), [5], "the newest stays");
    }
}
