//! Reads files whose names come from people. A name may lead to what never ends (a device) or never begins (a FIFO that
//! nobody writes to): only regular files are read, and of those no more than is any good.

use std::{
    fs::{FileType, OpenOptions},
    io::{self, ErrorKind, Read as _},
    os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
    path::Path,
};

/// More than any file of a configuration, case, key or certificate has; in bytes.
pub(crate) const TEXT_LIMIT: u64 = 16 << 20;

/// Reads a regular file, through whatever links lead there. At most `limit` bytes.
///
/// # Errors
/// What the system says; [`ErrorKind::InvalidInput`] where it is something else than a regular file, by its kind;
/// [`ErrorKind::FileTooLarge`] where it has more. The file is not named.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    regular(std::fs::metadata(path)?.file_type())?;
    // Another may have taken its name meanwhile: a FIFO must not hold up who opens it.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let meta = file.metadata()?;
    regular(meta.file_type())?;
    let too_large =
        |size: u64| io::Error::new(ErrorKind::FileTooLarge, format!("has {size} bytes or more; the most is {limit}"));
    if meta.len() > limit {
        return Err(too_large(meta.len()));
    }
    let mut content = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or_default());
    file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    let size = content.len() as u64;
    if size > limit { Err(too_large(size)) } else { Ok(content) }
}

/// As [`read`], for text of at most [`TEXT_LIMIT`].
///
/// # Errors
/// As [`read`]; [`ErrorKind::InvalidData`] where it is no UTF-8.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    // The error holds the content otherwise, which may be a secret.
    String::from_utf8(read(path, TEXT_LIMIT)?)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}

fn regular(kind: FileType) -> io::Result<()> {
    let what = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => "a folder",
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_socket() => "a socket",
        _ if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something else",
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {what}, and no regular file")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
pub(crate) mod tests {
    use std::{ffi::CString, fs, os::unix::ffi::OsStrExt as _};

    use super::*;

    /// Makes a FIFO that nobody writes to.
    #[allow(unsafe_code, reason = "the standard library makes none")]
    pub(crate) fn fifo(path: &Path) {
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: the name is a C string that outlives the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    }

    #[test]
    fn only_what_ends_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "12345").unwrap();
        assert_eq!(read(&at("file"), 5).unwrap(), b"12345");
        let error = read(&at("file"), 4).unwrap_err();
        assert!(error.to_string().contains("5 bytes"), "{error}");

        fifo(&at("fifo"));
        std::os::unix::fs::symlink("fifo", at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        for (name, what) in [("fifo", "a FIFO"), ("link", "a FIFO"), ("zero", "a device"), (".", "a folder")] {
            let error = read_text(&at(name)).unwrap_err();
            assert!(error.to_string().contains(what), "{name}: {error}");
        }
        assert_eq!(read(&at("none"), 9).unwrap_err().kind(), ErrorKind::NotFound);
        fs::write(at("file"), b"secret\xff").unwrap();
        let error = read_text(&at("file")).unwrap_err();
        assert!(error.kind() == ErrorKind::InvalidData && !format!("{error:?}").contains("secret"), "{error:?}");
        // It says of itself that it is empty.
        assert!(!read_text(Path::new("/proc/self/status")).unwrap().is_empty());
    }
}
