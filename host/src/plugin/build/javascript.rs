//! JavaScript and TypeScript: bundled by esbuild, into QuickJS by componentize-qjs.

use std::{fs, path::Path, process::Stdio};

use sha2::{Digest, Sha256};

use super::{
    BuildError, Language, WIT,
    error::failed,
    tool::{Tool, command, run},
    toolchain::Toolchains,
};

/// What npm is to install, to the byte.
pub(super) const LOCK: &str = include_str!("javascript/package-lock.json");
const PACKAGE: &str = include_str!("javascript/package.json");

const NPM: Tool = Tool {
    program: "npm",
    what: "JavaScript and TypeScript plugins",
    way: "install Node.js 18 or newer with npm (Debian: `apt install nodejs npm`)",
};

/// The folder of the tools: another one for other versions of any of them.
fn installation() -> String {
    format!("javascript-{}", hex::encode(&Sha256::digest(LOCK)[..6]))
}

/// Builds the component.
pub(super) fn build(dir: &Path, language: Language, toolchains: &Toolchains) -> Result<Vec<u8>, BuildError> {
    let dir = dir.canonicalize().map_err(|source| failed("finding the plugin", source))?;
    let entry = entry(&dir, language)?;
    let tools = toolchains.once(&installation(), install)?.join("node_modules/.bin");
    if language == Language::TypeScript {
        let mut tsc = command(&tools.join("tsc"), &dir);
        tsc.args(["--noEmit", "--pretty", "false", "--project", "."]);
        run(tsc, "checking the types")?;
    }
    let work = tempfile::tempdir().map_err(|source| failed("making a temporary folder", source))?;
    let (bundle, wit, output) =
        (work.path().join("plugin.js"), work.path().join("wit"), work.path().join("plugin.wasm"));
    let mut esbuild = command(&tools.join("esbuild"), &dir);
    esbuild.arg(&entry).arg(format!("--outfile={}", bundle.display()));
    // The contract's own interfaces are given by the component.
    esbuild.args(["--bundle", "--format=esm", "--target=es2022", "--log-level=warning", "--external:tidegate:*"]);
    run(esbuild, "bundling")?;
    let write = || {
        fs::create_dir(&wit)?;
        fs::write(wit.join("plugin.wit"), WIT)
    };
    write().map_err(|source| failed("writing the contract", source))?;
    let mut componentize = command(&tools.join("componentize-qjs"), &dir);
    componentize.arg("--wit").arg(&wit).args(["--world", "plugin"]).arg("--js").arg(&bundle);
    componentize.args(["--sync"]).arg("-o").arg(&output);
    // It says on stdout what went well.
    componentize.stdout(Stdio::null());
    run(componentize, "making the component")?;
    fs::read(&output).map_err(|source| failed("reading the component", source))
}

/// `main` of package.json; `plugin.js` or `plugin.ts` where it says nothing.
fn entry(dir: &Path, language: Language) -> Result<String, BuildError> {
    #[derive(serde::Deserialize)]
    struct Package {
        main: Option<String>,
    }
    let path = dir.join("package.json");
    let text = fs::read_to_string(&path).map_err(|source| failed(&format!("reading {}", path.display()), source))?;
    let package: Package = serde_json::from_str(&text)
        .map_err(|error| BuildError::Tool(format!("{} cannot be read: {error}", path.display())))?;
    let default = || format!("plugin.{}", language.word());
    Ok(package.main.unwrap_or_else(default))
}

fn install(folder: &Path) -> Result<(), BuildError> {
    let write = || {
        fs::write(folder.join("package.json"), PACKAGE)?;
        fs::write(folder.join("package-lock.json"), LOCK)
    };
    write().map_err(|source| failed("writing what npm shall install", source))?;
    let mut npm = NPM.command(folder);
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    NPM.run(npm, "installing componentize-qjs, esbuild and TypeScript by npm")
}
