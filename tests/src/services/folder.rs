//! Where services keep their data: one folder per run, swept by the next run if this one could not.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use super::ServiceError;

/// The root of this checkout.
#[must_use]
pub fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// A run's folder under `target/services/`. Removed on drop unless [`Folder::keep`] was called; what a killed run left
/// behind is removed by the next one, which sees that its lock is free.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    kept: bool,
    /// Locked as long as the run lives.
    _lock: File,
}

impl Folder {
    /// Makes a fresh one and sweeps abandoned ones.
    ///
    /// # Errors
    /// Where `target/services` cannot be written.
    pub fn new() -> Result<Self, ServiceError> {
        Self::under(&checkout().join("target/services"))
    }

    fn under(base: &Path) -> Result<Self, ServiceError> {
        let doing = || ServiceError::io(format!("a folder for the services under {}", base.display()));
        fs::create_dir_all(base).map_err(doing())?;
        sweep(base);
        let path = base.join(format!("run-{}", uuid::Uuid::now_v7().simple()));
        fs::create_dir(&path).map_err(doing())?;
        let lock = File::create(path.join("lock")).map_err(doing())?;
        lock.try_lock().map_err(|e| ServiceError::failed("locking the services' folder", e.to_string()))?;
        Ok(Self { path, kept: false, _lock: lock })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the folder for a person to read, until the next run but one.
    pub fn keep(&mut self) {
        self.kept = true;
        // An absent note is no loss: the folder is then swept one run earlier.
        let _ = fs::write(self.path.join("kept"), "a failed run; removed by the second run after it\n");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Removes the folders of runs that are no more. A kept one survives one sweep.
fn sweep(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let path = entry.path();
        let abandoned = File::open(path.join("lock")).is_ok_and(|lock| lock.try_lock().is_ok());
        if abandoned && fs::remove_file(path.join("kept")).is_err() {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_lives_as_long_as_its_run_and_a_kept_one_survives_one_sweep() {
        let base = tempfile::tempdir().unwrap();
        let mut kept = Folder::under(base.path()).unwrap();
        let live = Folder::under(base.path()).unwrap();
        let (kept_path, live_path) = (kept.path().to_path_buf(), live.path().to_path_buf());
        kept.keep();
        drop(kept);

        sweep(base.path());
        assert!(kept_path.exists() && live_path.exists());
        // A process that another test is just starting may hold the lock a moment longer, between its fork and its exec.
        let gone = (0..10_000).any(|_| {
            sweep(base.path());
            std::thread::yield_now();
            !kept_path.exists()
        });
        assert!(gone && live_path.exists());
        drop(live);
        assert!(!live_path.exists());
    }
}
