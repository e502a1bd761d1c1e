//! What tells one state of a file from another, without reading it, through whatever links lead there.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

/// Device, inode, size and times; `None`: it is not there.
pub(crate) type Stamp = Option<(u64, u64, u64, i64, i64, i64, i64)>;

/// Of the file as it is now.
pub(crate) fn stamp(path: &Path) -> Stamp {
    let seen = fs::metadata(path).ok()?;
    Some((seen.dev(), seen.ino(), seen.size(), seen.mtime(), seen.mtime_nsec(), seen.ctime(), seen.ctime_nsec()))
}
