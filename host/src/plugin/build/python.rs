//! Python: CPython and the plugin in one component, by componentize-py.

use std::{fs, path::Path, process::Stdio};

use super::{
    BuildError, WIT,
    error::failed,
    inputs,
    tool::{command, run},
    toolchain::Toolchains,
};

/// The tool, by its name in the Python registry.
pub(super) const COMPONENTIZE: &str = "componentize-py==0.25.1";

/// Builds the component of `app.py`.
pub(super) fn build(dir: &Path, toolchains: &Toolchains) -> Result<Vec<u8>, BuildError> {
    let tools = toolchains.python_package(COMPONENTIZE)?;
    let work = tempfile::tempdir().map_err(|source| failed("making a temporary folder", source))?;
    let (output, contract, source) =
        (work.path().join("plugin.wasm"), work.path().join("wit"), work.path().join("source"));
    let prepare = || {
        fs::create_dir(&contract)?;
        fs::write(contract.join("plugin.wit"), WIT)?;
        // A copy: the tool writes beside the source, and follows no link out of it.
        inputs::copy(dir, &source)
    };
    prepare().map_err(|source| failed("copying the source", source))?;
    // By the interpreter: the script itself names the one of the place where the folder was made.
    let mut componentize = command(&tools.join("python"), &source);
    componentize.arg(tools.join("componentize-py"));
    componentize.arg("-d").arg(&contract).args(["-w", "plugin", "componentize"]);
    componentize.args(["-p", ".", "app", "-o"]).arg(&output);
    // The tool's own stack would bury the author's traceback.
    componentize.env("RUST_BACKTRACE", "0");
    // It says on stdout what went well.
    componentize.stdout(Stdio::null());
    run(componentize, "making the component")?;
    fs::read(&output).map_err(|source| failed("reading the component", source))
}
