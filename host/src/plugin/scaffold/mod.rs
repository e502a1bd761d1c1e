//! `tidegate plugin new`: a folder that builds, with cases that pass, from nothing but this program.
//!
//! The template of a language is `guest-sdk/templates/LANG/`; the SDK goes into the folder beside it, as `tidegate/`. In
//! template files (contents and names) `__name__` stands for the plugin's name, `__snake__` for it with underscores,
//! `__Name__` for it in camel case; a file called `gitignore` becomes `.gitignore`.

mod vendor;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Everything below `guest-sdk/`: path and content.
static EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Where the SDK goes.
const SDK_FOLDER: &str = "tidegate";

/// Why there is no new folder.
#[derive(Debug, thiserror::Error)]
pub enum ScaffoldError {
    /// A name that some language could not take.
    #[error(
        "{0:?} is no name for a plugin: up to 64 small letters, digits and single hyphens, a letter first, as in order-summary"
    )]
    Name(String),
    /// No template.
    #[error("this program has no template for {0}; it has: {known}", known = languages().join(", "))]
    Language(String),
    /// Something is there.
    #[error("{} is there already and not empty: nothing was written", .0.display())]
    Exists(PathBuf),
    /// The file system said no.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What came of it.
        source: io::Error,
    },
    /// The SDK that is embedded here is broken.
    #[error("the embedded SDK cannot be written: {0}")]
    Sdk(String),
}

/// The languages that there are templates for, as words for `--lang`.
#[must_use]
pub fn languages() -> Vec<&'static str> {
    let mut languages: Vec<&str> =
        EMBEDDED.iter().filter_map(|(path, _)| path.strip_prefix("templates/")?.split('/').next()).collect();
    languages.dedup();
    languages
}

/// Writes a new plugin's folder: `folder` is to be absent or empty. Its last part is the plugin's name.
///
/// # Errors
/// See [`ScaffoldError`]; the folder may be there in part then.
pub fn scaffold(language: &str, folder: &Path) -> Result<Vec<PathBuf>, ScaffoldError> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names = Names::of(&name).ok_or(ScaffoldError::Name(name))?;
    if !languages().contains(&language) {
        return Err(ScaffoldError::Language(language.to_owned()));
    }
    if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) || folder.is_file() {
        return Err(ScaffoldError::Exists(folder.to_owned()));
    }
    let mut written = Vec::new();
    let mut write = |path: &str, content: &[u8]| {
        let path = folder.join(path);
        let failed = |source| ScaffoldError::Io { path: path.clone(), source };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        fs::write(&path, content).map_err(failed)?;
        written.push(path);
        Ok(())
    };
    let template = format!("templates/{language}/");
    for (path, content) in below(&template) {
        let path = names.fill(path);
        let path = match path.strip_suffix("gitignore") {
            Some(folder) if folder.is_empty() || folder.ends_with('/') => format!("{folder}.gitignore"),
            _ => path,
        };
        match std::str::from_utf8(content) {
            Ok(text) => write(&path, names.fill(text).as_bytes())?,
            Err(_) => write(&path, content)?,
        }
    }
    for (path, content) in vendor::sdk(language).map_err(ScaffoldError::Sdk)? {
        write(&format!("{SDK_FOLDER}/{path}"), &content)?;
    }
    Ok(written)
}

/// The embedded files below a folder, by their path in it.
fn below(folder: &str) -> impl Iterator<Item = (&'static str, &'static [u8])> {
    EMBEDDED.iter().filter_map(move |(path, content)| Some((path.strip_prefix(folder)?, *content)))
}

/// A plugin's name in the forms that languages want.
struct Names {
    name: String,
    snake: String,
    camel: String,
}

impl Names {
    fn of(name: &str) -> Option<Self> {
        let word = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        let fine = name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_lowercase()) && name.split('-').all(word);
        fine.then(|| Self {
            name: name.to_owned(),
            snake: name.replace('-', "_"),
            camel: name.split('-').map(|word| word[..1].to_uppercase() + &word[1..]).collect(),
        })
    }

    fn fill(&self, text: &str) -> String {
        text.replace("__name__", &self.name).replace("__snake__", &self.snake).replace("__Name__", &self.camel)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use super::*;

    #[test]
    fn names_that_some_language_could_not_take_are_refused() {
        for bad in ["", "Payments", "1st", "a--b", "-a", "a-", "a_b", "zahlung\u{e4}", "a b", &"a".repeat(65)] {
            assert!(Names::of(bad).is_none(), "{bad}");
        }
        let names = Names::of("order-summary-2").unwrap();
        assert_eq!(names.fill("__name__ __snake__ __Name__"), "order-summary-2 order_summary_2 OrderSummary2");
    }

    #[test]
    fn every_language_gives_a_whole_folder() {
        let root = tempfile::tempdir().unwrap();
        assert!(languages().contains(&"rust"), "{:?}", languages());
        for language in languages() {
            let folder = root.path().join(format!("my-{language}"));
            let written = scaffold(language, &folder).unwrap();
            let has = |name: &str| written.contains(&folder.join(name));
            assert!(has("README.md") && has(".gitignore"), "{language}: {written:?}");
            let cases = crate::plugin::cases::read_folder(&folder.join("cases")).unwrap();
            assert!(cases.len() >= 3, "{language} shows applying, skipping and rejecting");
            // Not the SDK's own files: Python has a `__name__` of its own.
            for path in written.iter().filter(|path| !path.starts_with(folder.join(SDK_FOLDER))) {
                let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
                let name = path.display().to_string() + &text;
                assert!(!name.contains("__name__") && !name.contains("__Name__"), "{}", path.display());
            }
            assert!(matches!(scaffold(language, &folder), Err(ScaffoldError::Exists(_))));
        }
        let error = scaffold("cobol", &root.path().join("x")).expect_err("no template").to_string();
        assert!(error.contains("cobol; it has: ") && error.contains("rust"), "{error}");
    }
}
