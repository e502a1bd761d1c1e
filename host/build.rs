//! Embeds the SDKs and templates, so that `tidegate plugin new` needs nothing but the program.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// What tools leave behind in a source folder.
const NO_SOURCE: [&str; 5] = ["target", "node_modules", "__pycache__", "Cargo.lock", "examples"];

fn main() -> io::Result<()> {
    let root =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../guest-sdk").canonicalize()?;
    println!("cargo:rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    gather(&root, &mut files)?;
    files.sort();
    let mut list = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().replace('\\', "/");
        list.push_str(&format!("    ({name:?}, include_bytes!({:?})),\n", file.display().to_string()));
    }
    list.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("embedded.rs");
    // Only where it differs: the program is not compiled again for nothing.
    if fs::read_to_string(&out).ok().as_deref() != Some(&list) {
        fs::write(out, list)?;
    }
    Ok(())
}

fn gather(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') || NO_SOURCE.contains(&name.as_ref()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            gather(&entry.path(), files)?;
        } else if entry.file_type()?.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}
