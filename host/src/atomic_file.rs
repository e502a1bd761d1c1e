//! Files that are written whole or not at all: whoever reads one sees the old content or the new, also after a crash.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use tempfile::NamedTempFile;

/// What a draft's name ends with. It begins with a dot, so that nobody takes it for what it will be.
const SUFFIX: &str = ".tmp";

/// Writes a file that others may read, as far as the umask lets them.
///
/// # Errors
/// Where the folder cannot be written to; the file is as it was then.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    replace(path, &[content], 0o666)
}

/// Writes a file that this user alone may read, from its parts.
///
/// # Errors
/// As [`write`].
pub(crate) fn write_private(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    replace(path, parts, 0o600)
}

/// Writes a file where there is none. `false` where there is one, which stays as it is.
///
/// # Errors
/// As [`write`].
pub(crate) fn create(path: &Path, content: &[u8]) -> io::Result<bool> {
    match draft(path, &[content], 0o666)?.persist_noclobber(path) {
        Ok(_) => {
            sync_folder(path);
            Ok(true)
        }
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.error),
    }
}

fn replace(path: &Path, parts: &[&[u8]], mode: u32) -> io::Result<()> {
    draft(path, parts, mode)?.persist(path).map_err(|error| error.error)?;
    sync_folder(path);
    Ok(())
}

/// The content, on disk, under another name in the same folder. Removed where it does not come to more.
fn draft(path: &Path, parts: &[&[u8]], mode: u32) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".").suffix(SUFFIX);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    let _ = mode;
    let mut draft = builder.tempfile_in(folder(path))?;
    parts.iter().try_for_each(|part| draft.write_all(part))?;
    // Before its name points to it: a file may not be there empty after a power cut.
    draft.as_file().sync_all()?;
    Ok(draft)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The new name is on disk, too, where the file system does such things: whole the file is without it.
fn sync_folder(path: &Path) {
    let _ = fs::File::open(folder(path)).and_then(|folder| folder.sync_all());
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn content_is_replaced_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let (open, private) = (folder.path().join("open"), folder.path().join("private"));
        write(&open, b"old").unwrap();
        write(&open, b"new").unwrap();
        write_private(&private, &[b"in ", b"parts"]).unwrap();
        assert_eq!(
            (fs::read(&open).unwrap().as_slice(), fs::read(&private).unwrap().as_slice()),
            (&b"new"[..], &b"in parts"[..])
        );
        // As whatever else this process writes.
        let plain = folder.path().join("plain");
        fs::write(&plain, "").unwrap();
        assert_eq!((mode(&open), mode(&private)), (mode(&plain), 0o600));
        assert!(create(&folder.path().join("fresh"), b"1").unwrap());
        assert!(!create(&open, b"2").unwrap());
        assert_eq!(fs::read(&open).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
    }

    #[test]
    fn who_has_the_old_file_open_reads_it_to_its_end_and_what_fails_changes_nothing() {
        use std::io::Read;

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        write(&file, b"old").unwrap();
        let mut reader = fs::File::open(&file).unwrap();
        write(&file, b"a longer one").unwrap();
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "old");
        // A folder is in the way.
        let taken = folder.path().join("taken");
        fs::create_dir(&taken).unwrap();
        fs::write(taken.join("inside"), "").unwrap();
        assert!(write(&taken, b"x").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no draft is left");
    }
}
