//! Go: its own compiler, with the runtime's system calls served inside the component.

use std::{fs, path::Path};

use super::{
    BuildError, component,
    error::failed,
    folder_name,
    go_toolchain::{self, GO},
    tool::run,
    toolchain::Toolchains,
};

/// Builds the component of the main package in `dir`.
pub(super) fn build(dir: &Path, toolchains: &Toolchains) -> Result<Vec<u8>, BuildError> {
    let work = tempfile::tempdir().map_err(|source| failed("making a temporary folder", source))?;
    let module = work.path().join("core.wasm");
    let mut go = match go_toolchain::newer(toolchains)? {
        None => GO.command(dir),
        Some(newer) => newer.command(dir),
    };
    go.args(["build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o"]).arg(&module).arg(".");
    go.env("GOOS", "wasip1").env("GOARCH", "wasm");
    run(go, "compiling")?;
    let module = fs::read(&module).map_err(|source| failed("reading what go built", source))?;
    component::of_module(&folder_name(dir)?, module)
}
