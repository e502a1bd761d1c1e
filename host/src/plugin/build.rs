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
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
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
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{
        config::{self, PluginLimits},
        outcome::{Change, Verdict},
        plugin::{EvaluateContext, Plugin, Runtime, evaluate, evaluate::sample},
        value::Value,
    };

    /// Builds a crate of this workspace from source and loads it.
    fn load(dir: &str, limits: PluginLimits, settings: serde_json::Value) -> Arc<dyn Plugin> {
        let built = build(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(dir), None).unwrap();
        let plugin = config::Plugin {
            path: built.path,
            sha256: Some(built.sha256),
            signed_by: Vec::new(),
            cases: None,
            limits,
            settings,
        };
        Runtime::new(None).unwrap().load(&plugin).unwrap()
    }

    fn context(target: &str, columns: &[&str], limits: PluginLimits) -> EvaluateContext {
        let mut context = sample::context(columns);
        Arc::get_mut(&mut context.targets).unwrap()[0].name = target.to_owned();
        EvaluateContext { limits, ..context }
    }

    #[test]
    fn a_folder_without_a_crate_is_named() {
        let error = build(Path::new("/nowhere/plugin"), None).expect_err("there is nothing");
        assert_eq!(error.to_string(), "/nowhere/plugin has no Cargo.toml: give the folder of a plugin's crate");
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let error = build(here, None).expect_err("the host is no plugin").to_string();
        assert!(error.starts_with("tidegate is no cdylib: add `crate-type"), "{error}");
    }

    /// The example plugin from source to rows, with the columns in another order than the plugin's.
    #[test]
    fn the_settlement_plugin_from_source_to_rows() {
        let limits = PluginLimits::default();
        let plugin = load("plugins/settlement", limits, serde_json::json!({"currency": "EUR"}));
        assert_eq!(plugin.description().name, "settlement");
        let columns = ["payment_id", "created_at", "amount", "status", "event_version", "order_id"];
        let event = |id: u32, amount: &str, currency: &str| {
            format!(
                r#"{{"event_id":"evt-{id}","type":"payment.captured","payment_id":"p-{id}","order_id":"o-1","version":2,
                   "occurred_at":"1970-01-01T00:00:01Z","amount":{amount},"currency":"{currency}"}}"#
            )
        };
        let events =
            [event(1, "10.10", "EUR"), event(2, "10", "KRW"), "{".into(), event(3, "-1", "EUR"), event(4, "0", "EUR")];
        let batch = sample::batch(events.map(|text| Some(text.into_bytes())).into());
        let evaluated = evaluate(plugin.as_ref(), &batch, &context("settlements", &columns, limits)).unwrap();
        let words = ["apply 1", "skip currency \"KRW\"", "bad-json", "bad-amount", "apply 1"];
        assert_eq!(sample::codes(&evaluated), words);
        let identity = evaluated[0].identity.as_ref().unwrap();
        assert_eq!((identity.message_id.as_str(), identity.occurred_at_us), ("evt-1", Some(1_000_000)));
        let Verdict::Apply(changes) = &evaluated[0].verdict else { unreachable!("checked above") };
        let [Change { values, .. }] = changes.as_slice() else { unreachable!("checked above") };
        let text = |text: &str| Value::Text(text.to_owned());
        assert_eq!(
            values[..],
            [
                text("p-1"),
                Value::Timestamp(1_000_000),
                Value::Decimal("10.10".into()),
                text("captured"),
                Value::Integer(2),
                text("o-1")
            ]
        );
    }

    /// A plugin as people write them, breaking in the ways in which they do.
    #[test]
    fn a_rust_plugin_that_panics_loops_or_takes_all_memory() {
        let limits = PluginLimits {
            cpu_base: Duration::from_millis(50),
            cpu_per_event: Duration::from_millis(1),
            memory: 8 << 20,
            ..PluginLimits::default()
        };
        let plugin = load("tests/guests/broken", limits, serde_json::Value::Null);
        let does = ["apply", "panic", "apply", "loop", "apply", "memory", "skip", "reject", "apply"];
        let event = |(n, does): (usize, &str)| Some(format!(r#"{{"id":"e-{n}","does":"{does}"}}"#).into_bytes());
        let batch = sample::batch(does.into_iter().enumerate().map(event).collect());
        let evaluated = evaluate(plugin.as_ref(), &batch, &context("rows", &["id", "n"], limits)).unwrap();
        assert_eq!(
            sample::codes(&evaluated),
            [
                "apply 1",
                "plugin-trap",
                "apply 1",
                "plugin-cpu",
                "apply 1",
                "plugin-memory",
                "skip asked to",
                "asked-to",
                "apply 1"
            ]
        );
        // The panic's own words reach the dead letter.
        let Verdict::Reject(rejection) = &evaluated[1].verdict else { unreachable!("checked above") };
        assert!(rejection.message.contains(r#"the event "e-1" says so"#), "{}", rejection.message);
    }

    /// The example of an order-free target: its columns are those that its README configures.
    #[test]
    fn the_order_summary_plugin_writes_what_its_readme_says() {
        let plugin = load("plugins/order-summary", PluginLimits::default(), serde_json::Value::Null);
        let readme = include_str!("../../../plugins/README.md");
        let columns = &plugin.description().targets["order_summary"];
        let list = columns.iter().map(|column| format!("{column:?}")).collect::<Vec<_>>().join(", ");
        assert!(readme.contains(&format!("columns = [{list}]")), "{list}");
    }
}
