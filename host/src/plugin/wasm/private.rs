//! Files and folders that nobody else can touch.

use std::{fs, io, path::Path};

/// Makes a folder, or sees that it is this user's alone.
///
/// # Errors
/// Where it cannot be made, or others may enter it.
#[cfg(unix)]
pub(in crate::plugin) fn make_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};

    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let seen = fs::symlink_metadata(folder)?;
    // Who owns what this process makes is who this process is.
    let probe = folder.join(format!("{}.{:?}.probe", std::process::id(), std::thread::current().id()));
    let owner = private_file(&probe)?.metadata()?.uid();
    fs::remove_file(&probe)?;
    if !seen.is_dir() || seen.uid() != owner || seen.permissions().mode() & 0o077 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the folder for plugins must be this user's alone: chmod 700 it, or remove it",
        ));
    }
    Ok(())
}

#[cfg(not(unix))]
pub(in crate::plugin) fn make_private(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

/// A new file that this user alone may read.
fn private_file(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
