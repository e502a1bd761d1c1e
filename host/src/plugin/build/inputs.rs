//! What a component is made of, as one digest: where it is the same, nothing has to be built.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::{Built, Language, WIT, c, component::Served, go_clock, go_toolchain, javascript, python};
use crate::atomic_file;

/// Raised where the same source and tools shall give something else.
const RECIPE: u32 = 1;
/// What tools make in a plugin's folder: no source.
pub(crate) const MADE_BY_TOOLS: [&str; 6] = ["target", "node_modules", "__pycache__", ".venv", ".git", ".zig-cache"];
/// Nor are these.
const GOLDEN_CASES: &str = "cases";

/// The digest of source, tools and recipe.
pub(super) struct Inputs(String);

impl Inputs {
    /// Reads everything in the folder that may become a part of the plugin.
    pub(super) fn of(dir: &Path, language: Language) -> io::Result<Self> {
        let mut files = Vec::new();
        gather(dir, &mut files)?;
        files.sort();
        let mut digest = Sha256::new();
        let mut add = |content: &[u8]| {
            // With lengths, so that no two different lists of pieces look alike.
            digest.update(u64::try_from(content.len()).unwrap_or(u64::MAX).to_le_bytes());
            digest.update(content);
        };
        add(&RECIPE.to_le_bytes());
        add(language.word().as_bytes());
        add(WIT.as_bytes());
        for tool in tools(language) {
            add(tool.as_bytes());
        }
        for file in files {
            add(file.strip_prefix(dir).unwrap_or(&file).to_string_lossy().as_bytes());
            add(&fs::read(&file)?);
        }
        Ok(Self(hex::encode(digest.finalize())))
    }

    /// The component at `path`, where it was built of just this.
    pub(super) fn built(&self, path: &Path) -> Option<Built> {
        let note = fs::read_to_string(note(path)).ok()?;
        let component = fs::read(path).ok()?;
        let sha256: [u8; 32] = Sha256::digest(&component).into();
        (note == self.note(&sha256)).then(|| Built { path: path.to_owned(), size: component.len(), sha256 })
    }

    /// Notes beside a component what it was built of.
    pub(super) fn remember(&self, built: &Built) -> io::Result<()> {
        atomic_file::write(&note(&built.path), self.note(&built.sha256).as_bytes())
    }

    fn note(&self, component: &[u8; 32]) -> String {
        format!("{} of {}\n", hex::encode(component), self.0)
    }
}

fn note(component: &Path) -> PathBuf {
    component.with_extension("inputs")
}

/// What a language's tools are pinned by, and what this program adds.
fn tools(language: Language) -> Vec<&'static str> {
    match language {
        // Cargo knows its own.
        Language::Rust => Vec::new(),
        // Where the machine's own is too old.
        Language::Go => {
            [&[go_toolchain::VERSION, go_clock::ASK, go_clock::IMPORT][..], &Served::Go.parts()[..]].concat()
        }
        Language::JavaScript | Language::TypeScript => vec![javascript::LOCK],
        Language::Python => vec![python::COMPONENTIZE],
        Language::C => [&[c::ZIG][..], &Served::C.parts()[..]].concat(),
    }
}

/// Copies the source to another folder, links becoming what they lead to.
pub(super) fn copy(dir: &Path, to: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    gather(dir, &mut files)?;
    for file in files {
        let copy = to.join(file.strip_prefix(dir).unwrap_or(&file));
        if let Some(parent) = copy.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(&file, copy)?;
    }
    Ok(())
}

/// Follows links: the SDK may be one.
fn gather(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let path = entry.path();
        let kind = fs::metadata(&path)?;
        if kind.is_dir() && !MADE_BY_TOOLS.contains(&name.as_ref()) && name != GOLDEN_CASES {
            gather(&path, files)?;
        } else if kind.is_file() {
            files.push(path);
        }
    }
    Ok(())
}
