//! Go: its own compiler, with the runtime's system calls served inside the component.

use std::{fs, path::Path};

use super::{
    BuildError,
    component::{self, Served},
    error::failed,
    folder_name, go_clock,
    go_toolchain::{self, GO},
    tool::run,
    toolchain::Toolchains,
};

/// Builds the component of the main package in `dir`.
pub(super) fn build(dir: &Path, toolchains: &Toolchains) -> Result<Vec<u8>, BuildError> {
    let work = tempfile::tempdir().map_err(|source| failed("making a temporary folder", source))?;
    let module = work.path().join("core.wasm");
    let newer = go_toolchain::newer(toolchains)?;
    let command = || newer.as_ref().map_or_else(|| GO.command(dir), |newer| newer.command(dir));
    let mut go = command();
    go.args(["build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o"]).arg(&module);
    if let Some(overlay) = go_clock::overlay(command(), work.path())? {
        go.arg("-overlay").arg(overlay);
    }
    go.arg(".");
    go.env("GOOS", "wasip1").env("GOARCH", "wasm");
    run(go, "compiling")?;
    let module = fs::read(&module).map_err(|source| failed("reading what go built", source))?;
    component::of_module(&folder_name(dir)?, module, Served::Go)
}
