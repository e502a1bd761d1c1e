//! Which language a folder is written in.

use std::{fmt, fs, path::Path};

use super::BuildError;

/// What a plugin can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// `Cargo.toml`.
    Rust,
    /// `package.json`.
    JavaScript,
    /// `package.json` and `tsconfig.json`.
    TypeScript,
    /// `pyproject.toml` or `app.py`.
    Python,
    /// `go.mod`.
    Go,
    /// A file `*.c`.
    C,
}

impl Language {
    /// The language of a folder.
    ///
    /// # Errors
    /// [`BuildError::NoPlugin`] where nothing in it says.
    pub fn of(dir: &Path) -> Result<Self, BuildError> {
        let has = |name: &str| dir.join(name).is_file();
        if has("Cargo.toml") {
            Ok(Self::Rust)
        } else if has("go.mod") {
            Ok(Self::Go)
        } else if has("pyproject.toml") || has("app.py") {
            Ok(Self::Python)
        } else if has("package.json") {
            Ok(if has("tsconfig.json") { Self::TypeScript } else { Self::JavaScript })
        } else if has_c(dir) {
            Ok(Self::C)
        } else {
            Err(BuildError::NoPlugin(dir.to_owned()))
        }
    }

    /// The word for it on the command line: `--lang js`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::JavaScript => "js",
            Self::TypeScript => "ts",
            Self::Python => "python",
            Self::Go => "go",
            Self::C => "c",
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rust => "Rust",
            Self::JavaScript => "JavaScript",
            Self::TypeScript => "TypeScript",
            Self::Python => "Python",
            Self::Go => "Go",
            Self::C => "C",
        })
    }
}

fn has_c(dir: &Path) -> bool {
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    files.into_iter().any(|file| file.path().extension().is_some_and(|extension| extension == "c"))
}
