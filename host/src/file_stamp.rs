//! What tells one state of a file from another, without reading it, through whatever links lead there.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Device, inode, size and times; `None`: it is not there.
pub(crate) type Stamp = Option<(u64, u64, u64, i64, i64, i64, i64)>;

/// Of the file as it is now.
pub(crate) fn stamp(path: &Path) -> Stamp {
    let seen = fs::metadata(path).ok()?;
    Some((seen.dev(), seen.ino(), seen.size(), seen.mtime(), seen.mtime_nsec(), seen.ctime(), seen.ctime_nsec()))
}

/// Files that were read, or looked for, each with its stamp from just before: whatever becomes of one while it is read, or
/// before anybody watches it, is a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files(BTreeMap<PathBuf, Stamp>);

impl Files {
    /// These, as they are now.
    pub(crate) fn of(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut all = Self::default();
        files.into_iter().for_each(|file| all.add(file));
        all
    }

    /// One more, as it is now. What is there already stays as it was.
    pub(crate) fn add(&mut self, file: PathBuf) {
        self.0.entry(file).or_insert_with_key(|file| stamp(file));
    }

    /// And those; what is there already stays as it was.
    pub(crate) fn add_all(&mut self, other: &Self) {
        for (file, stamp) in &other.0 {
            self.0.entry(file.clone()).or_insert(*stamp);
        }
    }

    /// Of these, those that are here.
    pub(crate) fn only(&self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(files.into_iter().filter_map(|file| self.0.get_key_value(&file)).map(|(f, s)| (f.clone(), *s)).collect())
    }

    /// Their names.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }
}

/// Files that are watched.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Files>);

impl Seen {
    fn all(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are read now, and no others any more.
    pub(crate) fn reads(&self, files: impl IntoIterator<Item = PathBuf>) {
        self.replace(Files::of(files));
    }

    /// These were read.
    pub(crate) fn replace(&self, files: Files) {
        *self.all() = files;
    }

    /// Those that are others by now. Each once, and not while it is away: who replaces a file by two steps has not finished.
    pub(crate) fn changed(&self) -> Vec<PathBuf> {
        let mut changed = Vec::new();
        for (file, before) in &mut self.all().0 {
            let now = stamp(file);
            if now.is_some() && now != *before {
                *before = now;
                changed.push(file.clone());
            }
        }
        changed
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn whatever_way_a_file_is_replaced_it_is_seen_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("p.wasm"), "one").unwrap();
        let seen = Seen::default();
        seen.reads([at("p.wasm")]);
        let once = || (seen.changed().len(), seen.changed().len());
        assert_eq!(once(), (0, 0));
        // An editor's way: another file takes the name.
        fs::write(at("new"), "two").unwrap();
        fs::rename(at("new"), at("p.wasm")).unwrap();
        assert_eq!(once(), (1, 0));
        // In place, of the same size.
        fs::write(at("p.wasm"), "six").unwrap();
        assert_eq!(once(), (1, 0));
        // Away for a moment.
        fs::remove_file(at("p.wasm")).unwrap();
        assert_eq!(once(), (0, 0));
        fs::write(at("p.wasm"), "back").unwrap();
        assert_eq!(once(), (1, 0));
        // What was not there when it was looked for.
        seen.reads([at("later.wasm")]);
        assert_eq!(once(), (0, 0));
        fs::write(at("later.wasm"), "late").unwrap();
        assert_eq!(once(), (1, 0));
        // Before the first look, but after it was read.
        seen.reads([at("p.wasm")]);
        fs::write(at("p.wasm"), "at once").unwrap();
        assert_eq!(once(), (1, 0));

        // Kubernetes: p -> ..data/p, ..data -> ..1, and ..data is turned to ..2.
        for version in ["..1", "..2"] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("mounted.wasm"), version).unwrap();
        }
        symlink("..1", at("..data")).unwrap();
        symlink("..data/mounted.wasm", at("mounted.wasm")).unwrap();
        seen.reads([at("mounted.wasm")]);
        assert_eq!(once(), (0, 0));
        symlink("..2", at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        assert_eq!(once(), (1, 0));
    }
}
