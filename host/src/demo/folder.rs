//! The demo's folder: database, log and configuration of one run, kept for looking at.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::error::DemoError;

/// A folder that was empty when the demo began.
#[derive(Clone, Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Takes this folder, which must be empty or absent, or makes a fresh one among the temporary files.
    pub(super) fn take(chosen: Option<&Path>, run: &str) -> Result<Self, DemoError> {
        let path = match chosen {
            Some(path) => path.to_owned(),
            None => std::env::temp_dir().join(format!("tidegate-demo-{run}")),
        };
        let failed = |what| {
            let path = path.display().to_string();
            move |source| DemoError::File { what, path, source }
        };
        // A temporary folder that somebody else has made already is not ours to use.
        if chosen.is_none() || !path.exists() {
            make_private(&path).map_err(failed("make the folder"))?;
        }
        if fs::read_dir(&path).map_err(failed("look into"))?.next().is_some() {
            return Err(DemoError::Usage(format!(
                "{} is not empty: the demo starts from nothing and overwrites nothing; name another folder with --dir, \
                 or leave --dir out for a temporary one",
                path.display()
            )));
        }
        let path = path.canonicalize().map_err(failed("resolve"))?;
        Ok(Self(path))
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

/// Nobody else's to read: the configuration in it may hold a database password.
fn make_private(path: &Path) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_overwritten() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("demo");
        let folder = Folder::take(Some(&path), "x").unwrap();
        fs::write(folder.file("demo.db"), "precious").unwrap();
        let error = Folder::take(Some(&path), "x").unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("not empty") && error.to_string().contains("--dir"));
        assert_eq!(fs::read_to_string(path.join("demo.db")).unwrap(), "precious");
    }
}
