//! A disk that can be filled: a small tmpfs, where mounting is allowed.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::services::DeadMan;

/// A mounted file system of a fixed size. Unmounted on drop, and if the test is killed.
#[derive(Debug)]
pub struct SmallDisk {
    folder: TempDir,
    guard: Option<DeadMan>,
}

impl SmallDisk {
    /// Mounts one of so many MiB. `None` where this process may not mount: then nothing real can be filled, and a test says
    /// so and has PostgreSQL say the same by [`super::Provoked`].
    ///
    /// # Panics
    /// Where there is no place for the mount point.
    #[must_use]
    pub fn mount(mebibytes: u32) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("tidegate-disk-").tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m,mode=755"), "tidegate-disk"]).arg(folder.path());
        let output = mount.output().ok()?;
        if !output.status.success() {
            eprintln!("no small disk for this test: {}", String::from_utf8_lossy(&output.stderr).trim());
            return None;
        }
        // Lazily: who still has files open there is stopped by a switch of its own.
        let guard = DeadMan::run(r#"umount -l "$0""#, &folder.path().display().to_string()).unwrap();
        Some(Self { folder, guard: Some(guard) })
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Fills it but for so many KiB.
    ///
    /// # Panics
    /// Where the file cannot be made; that the disk is full meanwhile is no failure.
    pub fn fill(&self, leave_kibibytes: u64) {
        let mut filler = fs::File::options().create(true).append(true).open(self.filler()).unwrap();
        let block = vec![0_u8; 64 << 10];
        while filler.write_all(&block).is_ok() {}
        while filler.write_all(&block[..1 << 10]).is_ok() {}
        let length = filler.metadata().unwrap().len();
        filler.set_len(length.saturating_sub(leave_kibibytes << 10)).unwrap();
    }

    /// Takes the filling away.
    pub fn free(&self) {
        let _ = fs::remove_file(self.filler());
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The switch unmounts, and is waited for; then the folder can go.
        drop(self.guard.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_takes_nothing_and_a_freed_one_does() {
        let Some(disk) = SmallDisk::mount(1) else { return };
        let path = disk.path().to_owned();
        let file = path.join("file");
        disk.fill(8);
        assert!(fs::write(&file, vec![1; 64 << 10]).is_err());
        disk.free();
        fs::write(&file, vec![1; 64 << 10]).unwrap();
        drop(disk);
        assert!(!path.exists());
    }
}
