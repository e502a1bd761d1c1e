//! Go: its own compiler, with the runtime's system calls served inside the component.

use std::{fs, path::Path};

use super::{BuildError, component, error::failed, folder_name, tool::Tool};

const GO: Tool = Tool {
    program: "go",
    what: "Go plugins",
    way: "install Go 1.24 or newer (Debian: `apt install golang`, then its `go` fetches what go.mod asks for)",
};

/// Builds the component of the main package in `dir`.
pub(super) fn build(dir: &Path) -> Result<Vec<u8>, BuildError> {
    let work = tempfile::tempdir().map_err(|source| failed("making a temporary folder", source))?;
    let module = work.path().join("core.wasm");
    let mut go = GO.command(dir);
    go.args(["build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o"]).arg(&module).arg(".");
    go.env("GOOS", "wasip1").env("GOARCH", "wasm");
    GO.run(go, "compiling")?;
    let module = fs::read(&module).map_err(|source| failed("reading what go built", source))?;
    component::of_module(&folder_name(dir)?, module)
}
