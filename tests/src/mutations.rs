//! Deliberate breakages of the product, one patch each, and the tests that must fail with them: whether the suite holds
//! what it says it holds.
//!
//! A patch begins with a sentence about what it breaks, and names the tests that must notice: `Test: it FILTER` for the
//! integration tests, `Test: host FILTER` for the unit tests of the host.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use crate::services::checkout;

/// A breakage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// The file's name, such as `offset-before-commit`.
    pub name: String,
    /// What it breaks.
    pub what: String,
    /// Who must notice.
    pub test: Filter,
    patch: PathBuf,
}

/// Some tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Whether they are integration tests, else unit tests of the host.
    pub integration: bool,
    /// A part of their name.
    pub name: String,
}

/// What became of a breakage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// These tests failed.
    Caught(Vec<String>),
    /// The tests passed all the same.
    Survived,
    /// It was not tried: with the reason.
    Useless(String),
}

/// All breakages, by name.
///
/// # Errors
/// Where a patch cannot be read or says nothing of itself.
pub fn all() -> io::Result<Vec<Mutation>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(checkout().join("tests/mutations"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "patch") {
            found.push(read(&path)?);
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

fn read(path: &Path) -> io::Result<Mutation> {
    let text = fs::read_to_string(path)?;
    let head: Vec<&str> = text.lines().take_while(|line| !line.starts_with("diff --git ")).collect();
    let test = head.iter().find_map(|line| line.strip_prefix("Test: ")).and_then(|line| line.split_once(' '));
    let test = test.and_then(|(kind, name)| {
        let integration = match kind {
            "it" => true,
            "host" => false,
            _ => return None,
        };
        Some(Filter { integration, name: name.trim().to_owned() })
    });
    let what = head.iter().take_while(|line| !line.is_empty()).copied().collect::<Vec<_>>().join(" ");
    match (test, path.file_stem()) {
        (Some(test), Some(name)) if !what.is_empty() => {
            Ok(Mutation { name: name.to_string_lossy().into_owned(), what, test, patch: path.to_owned() })
        }
        _ => Err(io::Error::other(format!(
            "{}: begins with what it breaks, an empty line, and `Test: it FILTER` or `Test: host FILTER`",
            path.display()
        ))),
    }
}

impl Mutation {
    /// Whether it applies to the sources as they are; else why not.
    ///
    /// # Errors
    /// With git's words.
    pub fn applies(&self) -> Result<(), String> {
        self.git_apply(&checkout(), &["--check"])
    }

    fn git_apply(&self, tree: &Path, options: &[&str]) -> Result<(), String> {
        let output = Command::new("git").arg("apply").args(options).arg(&self.patch).current_dir(tree).output();
        let output = output.map_err(|error| format!("git: {error}"))?;
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
    }
}

/// A copy of the sources with a build folder of its own, where they are broken.
#[derive(Debug)]
pub struct Copy {
    tree: PathBuf,
}

impl Copy {
    /// Makes it, or brings it up to date. It is kept under `target/mutations`, since its first build takes long.
    ///
    /// # Errors
    /// Where files cannot be copied.
    pub fn make() -> io::Result<Self> {
        let (from, tree) = (checkout(), checkout().join("target/mutations"));
        fs::create_dir_all(&tree)?;
        let copy = Self { tree };
        if !copy.tree.join(".git").is_dir() {
            // A repository of its own: git applies a patch where it finds the nearest one.
            done(Command::new("git").args(["init", "--quiet"]).current_dir(&copy.tree).output()?)?;
        }
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&from)
            .output()?;
        let listed = String::from_utf8_lossy(&done(listed)?.stdout).into_owned();
        let listed: BTreeSet<PathBuf> = listed.split_terminator('\0').map(PathBuf::from).collect();
        copy.remove_others(Path::new(""), &listed)?;
        for name in &listed {
            copy.restore(name)?;
        }
        let built = copy.tree.join("target/debug");
        if !built.is_dir() && from.join("target/debug").is_dir() {
            // What was compiled of others' crates is the same; only the workspace's own is compiled anew.
            fs::create_dir_all(&built)?;
            for folder in ["deps", "build", ".fingerprint"] {
                let source = from.join("target/debug").join(folder);
                done(Command::new("cp").arg("-a").arg(source).arg(&built).output()?)?;
            }
        }
        let plugins = copy.tree.join("target/plugins");
        fs::create_dir_all(&plugins)?;
        for plugin in fs::read_dir(from.join("target/plugins"))? {
            let plugin = plugin?;
            // Beside the components lies what was compiled of them.
            if plugin.file_type()?.is_file() {
                fs::copy(plugin.path(), plugins.join(plugin.file_name()))?;
            }
        }
        Ok(copy)
    }

    /// Removes what the checkout does not have (any more).
    fn remove_others(&self, folder: &Path, listed: &BTreeSet<PathBuf>) -> io::Result<()> {
        for entry in fs::read_dir(self.tree.join(folder))? {
            let entry = entry?;
            let name = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                if name != Path::new("target") && name != Path::new(".git") {
                    self.remove_others(&name, listed)?;
                }
            } else if !listed.contains(&name) {
                fs::remove_file(self.tree.join(name))?;
            }
        }
        Ok(())
    }

    /// Puts a file back as it is in the checkout, if it is not; its time stays where it is the same.
    fn restore(&self, name: &Path) -> io::Result<()> {
        let (source, copy) = (checkout().join(name), self.tree.join(name));
        let Ok(wanted) = fs::read(&source) else { return Ok(()) };
        if fs::read(&copy).is_ok_and(|found| found == wanted) {
            return Ok(());
        }
        if let Some(folder) = copy.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&copy, wanted)?;
        fs::set_permissions(&copy, fs::metadata(&source)?.permissions())
    }

    /// Breaks the copy, compiles it, runs the tests that must notice, and mends it.
    ///
    /// # Errors
    /// Where the copy cannot be written or cargo not be run.
    pub fn test(&self, mutation: &Mutation) -> io::Result<Verdict> {
        let touched = touched(&fs::read_to_string(&mutation.patch)?);
        if let Err(why) = mutation.git_apply(&self.tree, &[]) {
            return Ok(Verdict::Useless(format!("it no longer applies: {why}")));
        }
        let verdict = self.verdict(mutation);
        for name in touched {
            self.restore(Path::new(&name))?;
        }
        verdict
    }

    fn verdict(&self, mutation: &Mutation) -> io::Result<Verdict> {
        let Filter { integration, name } = &mutation.test;
        let target: &[&str] = if *integration { &["--test", "it"] } else { &["--lib"] };
        // With the program that the tests start, in one go.
        let bins: &[&str] = if *integration { &["--bins"] } else { &[] };
        let build = [&["build", "--workspace", "--locked", "--quiet"], bins, target].concat();
        let test = [&["test", "--workspace", "--locked"], target].concat();
        let built = if *integration { build } else { [&test[..], &["--no-run"]].concat() };
        let built = self.cargo(&built, Stdio::piped())?;
        if !built.status.success() {
            return Ok(Verdict::Useless(format!("it does not compile:\n{}", tail(&built.stderr))));
        }
        let ran = self.cargo(&[&test[..], &["--", name]].concat(), Stdio::null())?;
        let text = String::from_utf8_lossy(&ran.stdout);
        let nothing = !text.lines().any(|line| line.starts_with("running ") && !line.starts_with("running 0 "));
        Ok(if nothing {
            Verdict::Useless(format!("no test is called {name}"))
        } else if ran.status.success() {
            Verdict::Survived
        } else {
            Verdict::Caught(failed(&text))
        })
    }

    fn cargo(&self, arguments: &[&str], stderr: Stdio) -> io::Result<Output> {
        Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(arguments)
            .current_dir(&self.tree)
            .env_remove("CARGO_TARGET_DIR")
            .stderr(stderr)
            .output()
    }
}

/// The tests that failed, by name.
fn failed(output: &str) -> Vec<String> {
    let name = |line: &str| line.strip_prefix("test ")?.strip_suffix(" ... FAILED").map(str::to_owned);
    output.lines().filter_map(name).collect()
}

/// The files that a patch changes.
fn touched(patch: &str) -> BTreeSet<String> {
    patch.lines().filter_map(|line| line.strip_prefix("+++ b/")).map(str::to_owned).collect()
}

fn done(output: Output) -> io::Result<Output> {
    if output.status.success() {
        Ok(output)
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// Tries these, says what became of each as it goes, and whether all were caught.
///
/// # Errors
/// Where the copy cannot be made or cargo not be run.
pub fn check(mutations: &[Mutation]) -> io::Result<bool> {
    let copy = Copy::make()?;
    let mut fine = true;
    for mutation in mutations {
        let mut out = io::stdout().lock();
        write!(out, "{:<34} ", mutation.name)?;
        out.flush()?;
        let verdict = copy.test(mutation)?;
        fine &= matches!(verdict, Verdict::Caught(_));
        match verdict {
            Verdict::Caught(tests) => writeln!(out, "caught by {}", tests.join(", "))?,
            Verdict::Survived => writeln!(out, "SURVIVED {}: {}", mutation.test.name, mutation.what)?,
            Verdict::Useless(why) => writeln!(out, "NOT TRIED: {why}")?,
        }
    }
    Ok(fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_breakage_still_applies_to_the_sources() {
        let mutations = all().unwrap();
        assert!(mutations.len() >= 10, "{}", mutations.len());
        let stale: Vec<_> =
            mutations.iter().filter_map(|m| m.applies().err().map(|why| format!("{}: {why}", m.name))).collect();
        assert!(stale.is_empty(), "make these anew (docs/mutations.md):\n{}", stale.join("\n"));
    }

    #[test]
    fn the_tests_that_must_notice_exist() {
        let sources = sources(&checkout().join("host/src")) + &sources(&checkout().join("tests/tests"));
        for mutation in all().unwrap() {
            let name = format!("fn {}", mutation.test.name);
            assert!(sources.contains(&name), "{}: no test begins with {}", mutation.name, mutation.test.name);
        }
    }

    #[test]
    fn a_test_that_failed_is_named() {
        let output = "running 2 tests\ntest a::b ... ok\ntest c::d ... FAILED\n\nfailures:\n    c::d\n";
        assert_eq!(failed(output), ["c::d"]);
    }

    fn sources(folder: &Path) -> String {
        let mut text = String::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                text += &sources(&path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text += &fs::read_to_string(&path).unwrap();
            }
        }
        text
    }
}
