//! `make bench-plugins`: what each built plugin costs, without services.
//!
//! `bench-plugins [FOLDER]`, by default the plugins that `make plugins` has built.

use std::{path::PathBuf, process::ExitCode};

use tidegate_tests::{
    bench::{plugin_child, plugins, profile},
    services::checkout,
};

/// The product's: what crosses into a sandbox and back is allocated by it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--plugin-child", what, file, cache] => plugin_child(what, file.as_ref(), cache.as_ref()),
        [] => table(checkout().join("target/plugins")),
        [folder] => table(folder.into()),
        _ => Err("bench-plugins [FOLDER]".to_owned()),
    };
    if let Err(fault) = done {
        eprintln!("{fault}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn table(folder: PathBuf) -> Result<(), String> {
    println!("plugins of {}, batches of 500; profile: {}\n", folder.display(), profile());
    plugins(&folder).map(|table| print!("{table}")).map_err(|error| format!("{}: {error}", folder.display()))
}
