//! Rust: cargo, with the two steps that are easily forgotten.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::Deserialize;

use super::{BuildError, error::failed, plugin_name};
use crate::plugin::wasm::component::component_in;

pub(super) const TARGET: &str = "wasm32-unknown-unknown";

/// The component of the crate in `dir`, and where it belongs in cargo's target folder. Cargo's own messages go to stderr.
pub(super) fn build(dir: &Path) -> Result<(Vec<u8>, PathBuf), BuildError> {
    let manifest = dir.join("Cargo.toml");
    check_target(dir)?;
    let krate = Crate::find(dir, &manifest)?;
    let module = krate.compile(dir, &manifest)?;
    let module = fs::read(&module).map_err(|source| failed("reading what cargo built", source))?;
    let component = component_in(&module)
        .map_err(|message| BuildError::NoComponent { package: krate.package.name.clone(), message })?;
    let default = krate.target_directory.join("plugins").join(format!("{}.wasm", plugin_name(&krate.package.name)));
    Ok((component.into_owned(), default))
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
    Err(BuildError::Tool(format!("{program} {first} failed in {}; its own words are above", dir.display())))
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
            .map_err(|error| BuildError::Tool(format!("cargo metadata cannot be read: {error}")))?;
        let here = manifest.canonicalize().map_err(|source| failed("finding the crate", source))?;
        let same = |package: &&Package| package.manifest_path.canonicalize().is_ok_and(|path| path == here);
        let package = metadata.packages.iter().find(same).cloned().ok_or_else(|| {
            BuildError::Tool(format!("{} is a workspace, no crate: give a plugin's own folder", dir.display()))
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
            .ok_or_else(|| BuildError::Tool(format!("cargo built no .wasm file of {}", self.package.name)))
    }
}
