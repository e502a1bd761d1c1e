//! `tidegate plugin build DIR`: from a Rust crate to a component, with the two steps that are easily forgotten.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::wasm::component::component_in;

const TARGET: &str = "wasm32-unknown-unknown";

/// A component that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Where it is.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: usize,
    /// For `[consumer.plugin] sha256`.
    pub sha256: [u8; 32],
}

/// Why nothing was built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No crate there.
    #[error("{0} has no Cargo.toml: give the folder of a plugin's crate")]
    NoCrate(PathBuf),
    /// A tool that is not there, or a file that cannot be written.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What came of it.
        source: io::Error,
    },
    /// The standard library for WebAssembly is missing.
    #[error("the Rust target {TARGET} is not installed: run `rustup target add {TARGET}`")]
    NoTarget,
    /// The crate gives no WebAssembly.
    #[error("{package} is no cdylib: add `crate-type = [\"cdylib\", \"lib\"]` to [lib] in {manifest}")]
    NoCdylib {
        /// The package.
        package: String,
        /// Its manifest.
        manifest: PathBuf,
    },
    /// Cargo said what is wrong, on stderr.
    #[error("{0}")]
    Cargo(String),
    /// What was built makes no component.
    #[error("{package} {message}")]
    NoComponent {
        /// The package.
        package: String,
        /// Why.
        message: String,
    },
}

/// Builds the crate in `dir` and writes the component to `output`; by default to `plugins/NAME.wasm` in cargo's target
/// folder, where NAME is the package's name in snake case without a leading `plugin`. Cargo's own messages go to stderr.
///
/// # Errors
/// See [`BuildError`].
pub fn build(dir: &Path, output: Option<&Path>) -> Result<Built, BuildError> {
    let manifest = dir.join("Cargo.toml");
    if !manifest.is_file() {
        return Err(BuildError::NoCrate(dir.to_owned()));
    }
    check_target(dir)?;
    let krate = Crate::find(dir, &manifest)?;
    let module = krate.compile(dir, &manifest)?;
    let module = fs::read(&module).map_err(|source| failed("reading what cargo built", source))?;
    let component = component_in(&module)
        .map_err(|message| BuildError::NoComponent { package: krate.package.name.clone(), message })?;

    let default = krate.target_directory.join("plugins").join(format!("{}.wasm", krate.plugin_name()));
    let path = output.map_or(default, Path::to_owned);
    write(&path, &component).map_err(|source| failed(&format!("writing {}", path.display()), source))?;
    Ok(Built { path, size: component.len(), sha256: Sha256::digest(&component).into() })
}

/// Whole or not at all: a host may be watching the file.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let temporary = path.with_extension("wasm.tmp");
    fs::write(&temporary, content)?;
    fs::rename(&temporary, path)
}

fn failed(what: &str, source: io::Error) -> BuildError {
    BuildError::Io { what: what.to_owned(), source }
}

/// Runs a command in the crate's folder, so that its toolchain file counts, and gives its stdout.
fn stdout_of(dir: &Path, program: &str, arguments: &[&str]) -> Result<Vec<u8>, BuildError> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(dir).stderr(Stdio::inherit());
    let output = command.output().map_err(|source| failed(&format!("running {program}"), source))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let first = arguments.first().copied().unwrap_or_default();
    Err(BuildError::Cargo(format!("{program} {first} failed in {}; its own words are above", dir.display())))
}

fn check_target(dir: &Path) -> Result<(), BuildError> {
    let libraries = stdout_of(dir, "rustc", &["--print", "target-libdir", "--target", TARGET])?;
    let libraries = PathBuf::from(String::from_utf8_lossy(&libraries).trim());
    if libraries.is_dir() { Ok(()) } else { Err(BuildError::NoTarget) }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
    workspace_root: PathBuf,
}

#[derive(Clone, Deserialize)]
struct Package {
    id: String,
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Clone, Deserialize)]
struct Target {
    crate_types: Vec<String>,
}

/// A line of cargo's own account of a build.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    package_id: String,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

struct Crate {
    package: Package,
    target_directory: PathBuf,
    /// The profile `plugin`, where the workspace has one, else `release`.
    profile: &'static str,
}

impl Crate {
    fn find(dir: &Path, manifest: &Path) -> Result<Self, BuildError> {
        let json = stdout_of(dir, "cargo", &["metadata", "--no-deps", "--format-version", "1"])?;
        let metadata: Metadata = serde_json::from_slice(&json)
            .map_err(|error| BuildError::Cargo(format!("cargo metadata cannot be read: {error}")))?;
        let here = manifest.canonicalize().map_err(|source| failed("finding the crate", source))?;
        let same = |package: &&Package| package.manifest_path.canonicalize().is_ok_and(|path| path == here);
        let package = metadata.packages.iter().find(same).cloned().ok_or_else(|| {
            BuildError::Cargo(format!("{} is a workspace, no crate: give a plugin's own folder", dir.display()))
        })?;
        if !package.targets.iter().any(|target| target.crate_types.iter().any(|kind| kind == "cdylib")) {
            return Err(BuildError::NoCdylib { package: package.name, manifest: manifest.to_owned() });
        }
        let root = fs::read_to_string(metadata.workspace_root.join("Cargo.toml")).unwrap_or_default();
        let has_profile = root
            .parse::<toml::Table>()
            .is_ok_and(|root| root.get("profile").and_then(|profiles| profiles.get("plugin")).is_some());
        let profile = if has_profile { "plugin" } else { "release" };
        Ok(Self { package, target_directory: metadata.target_directory, profile })
    }

    /// Compiles, and says where the core module is.
    fn compile(&self, dir: &Path, manifest: &Path) -> Result<PathBuf, BuildError> {
        let manifest = manifest.canonicalize().map_err(|source| failed("finding the crate", source))?;
        let manifest = manifest.to_string_lossy();
        let arguments = ["build", "--lib", "--target", TARGET, "--profile", self.profile, "--manifest-path", &manifest];
        let account =
            stdout_of(dir, "cargo", &[&arguments[..], &["--message-format", "json-render-diagnostics"]].concat())?;
        let messages =
            account.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice::<Message>(line).ok());
        messages
            .filter(|message| message.reason == "compiler-artifact" && message.package_id == self.package.id)
            .flat_map(|message| message.filenames)
            .find(|file| file.extension().is_some_and(|extension| extension == "wasm"))
            .ok_or_else(|| BuildError::Cargo(format!("cargo built no .wasm file of {}", self.package.name)))
    }

    fn plugin_name(&self) -> String {
        let name = self.package.name.replace('-', "_");
        name.strip_prefix("plugin_").map_or(name.clone(), str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_crate_is_named() {
        let error = build(Path::new("/nowhere/plugin"), None).expect_err("there is nothing");
        assert_eq!(error.to_string(), "/nowhere/plugin has no Cargo.toml: give the folder of a plugin's crate");
    }
}
