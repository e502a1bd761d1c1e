//! C: clang and its libc for WebAssembly, as Zig packs them.

use std::{fs, io, path::Path};

use super::{
    BuildError,
    component::{self, Served},
    error::failed,
    folder_name,
    tool::{command, run},
    toolchain::Toolchains,
};

/// The compiler, by its name in the Python registry.
pub(super) const ZIG: &str = "ziglang==0.17.1";

/// Compiles all `*.c` of the folder, and of the SDK in `tidegate/`.
pub(super) fn build(dir: &Path, toolchains: &Toolchains) -> Result<Vec<u8>, BuildError> {
    let tools = toolchains.python_package(ZIG)?;
    let work = tempfile::tempdir().map_err(|source| failed("making a temporary folder", source))?;
    let module = work.path().join("core.wasm");
    let sources = sources(dir).map_err(|source| failed("finding the sources", source))?;
    let mut cc = command(&tools.join("python"), dir);
    cc.args(["-m", "ziglang", "cc", "-target", "wasm32-wasi", "-mexec-model=reactor"]);
    cc.args(["-std=c17", "-O2", "-s", "-Wall", "-Wextra", "-Werror=implicit-function-declaration", "-Itidegate"]);
    cc.args(sources).arg("-o").arg(&module);
    // Its libc is compiled once, and kept.
    let cache = toolchains.scratch("zig-cache");
    cc.env("ZIG_GLOBAL_CACHE_DIR", &cache).env("ZIG_LOCAL_CACHE_DIR", &cache);
    run(cc, "compiling")?;
    let module = fs::read(&module).map_err(|source| failed("reading what the compiler built", source))?;
    component::of_module(&folder_name(dir)?, module, Served::C)
}

fn sources(dir: &Path) -> io::Result<Vec<String>> {
    let mut sources = Vec::new();
    for folder in ["", "tidegate/"] {
        if !dir.join(folder).is_dir() {
            continue;
        }
        for entry in fs::read_dir(dir.join(folder))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if Path::new(&name).extension().is_some_and(|extension| extension == "c") {
                sources.push(format!("{folder}{name}"));
            }
        }
    }
    sources.sort();
    Ok(sources)
}
