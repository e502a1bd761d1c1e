//! The program compiles plugins in a child process with limits: what takes the compiler for ever, or all memory, or breaks it,
//! is refused with the reason, and the next plugin loads.

use std::{fs, path::Path, sync::Arc, time::Duration};

use tempfile::TempDir;
use tidegate::{
    config,
    plugin::{Compiler, Plugin, PluginError, Runtime},
};
use tidegate_tests::{host, services::checkout};

const SECONDS: u64 = 2;

fn compiler() -> Compiler {
    Compiler { program: host::program("tidegate"), cpu: Compiler::CPU, memory: Compiler::MEMORY }
}

fn load(runtime: &Runtime, path: &Path) -> Result<Arc<dyn Plugin>, PluginError> {
    runtime.load(&config::Plugin::at(path))
}

fn refused(runtime: &Runtime, path: &Path) -> String {
    let error = load(runtime, path).err().unwrap();
    assert_eq!(error.code(), "plugin-load", "{error}");
    error.to_string()
}

fn good() -> std::path::PathBuf {
    checkout().join("tests/fixtures/contract-0.1.0/plugin.wasm")
}

/// A number as WebAssembly's binary format has it.
fn leb(mut n: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(n & 0x7f).unwrap();
        n >>= 7;
        bytes.push(if n == 0 { low } else { low | 0x80 });
        if n == 0 {
            return bytes;
        }
    }
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [&[id][..], &leb(content.len()), content].concat()
}

/// A component whose functions are one long expression each: megabytes that take the compiler minutes.
fn endless(functions: usize) -> Vec<u8> {
    // x = (x + 7) * x, a hundred thousand times over.
    let step = [0x20, 0, 0x42, 7, 0x7c, 0x20, 0, 0x7e, 0x21, 0];
    let body = [&[0][..], &step.repeat(100_000), &[0x20, 0, 0x0b]].concat();
    let body = [leb(body.len()), body].concat();
    let types = section(1, &[1, 0x60, 1, 0x7e, 1, 0x7e]);
    let declared = section(3, &[leb(functions), vec![0; functions]].concat());
    let code = section(10, &[leb(functions), body.repeat(functions)].concat());
    let module = [b"\0asm\x01\0\0\0".as_slice(), &types, &declared, &code].concat();
    [b"\0asm\x0d\0\x01\0".as_slice(), &section(1, &module)].concat()
}

fn file(folder: &TempDir, name: &str, content: &[u8]) -> std::path::PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    path
}

#[test]
fn a_plugin_that_takes_the_compiler_for_ever_is_refused_and_the_next_one_loads() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "endless.wasm", &endless(60));
    let cpu = Duration::from_secs(SECONDS);
    let runtime = Runtime::new(None).unwrap().compiling_by(Compiler { cpu, ..compiler() });
    let reason = refused(&runtime, &path);
    assert!(reason.contains("cannot be compiled within 2 s of CPU time"), "{reason}");
    assert!(reason.contains("it takes the compiler longer"), "{reason}");
    assert_eq!(load(&runtime, &good()).unwrap().description().name, "fixture");
}

#[test]
fn a_plugin_that_takes_the_compiler_all_memory_is_refused_and_the_next_one_loads() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "endless.wasm", &endless(60));
    let tight = Runtime::new(None).unwrap().compiling_by(Compiler { memory: 192 << 20, ..compiler() });
    let reason = refused(&tight, &path);
    assert!(reason.contains("s of CPU time and 192 MiB of memory: "), "{reason}");
    assert!(!reason.contains("takes the compiler longer"), "memory, not time: {reason}");
    assert_eq!(load(&tight, &good()).unwrap().description().name, "fixture");
}

#[test]
fn what_a_child_refuses_is_told_as_if_it_were_here() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::new(None).unwrap().compiling_by(compiler());
    for (content, says) in [
        (b"hello".as_slice(), "is no WebAssembly file"),
        (b"\0asm\x0d\0\x01\0broken", "cannot be compiled: "),
        (b"\0asm\x01\0\0\0", "is no plugin: it does not export"),
    ] {
        let reason = refused(&runtime, &file(&folder, "bad.wasm", content));
        assert!(reason.contains(says), "{reason}");
    }
}

/// Compiled code comes out of the compiler or its own folder, and never from outside.
#[test]
fn compiled_code_is_found_again_and_not_taken_from_outside() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("code");
    let nowhere = || Compiler { program: "/nowhere/tidegate".into(), ..compiler() };
    let error = load(&Runtime::new(Some(&cache)).unwrap().compiling_by(nowhere()), &good()).err().unwrap();
    assert!(matches!(error, PluginError::Host { .. }), "no fault of the plugin's: {error}");
    load(&Runtime::new(Some(&cache)).unwrap().compiling_by(compiler()), &good()).unwrap();
    load(&Runtime::new(Some(&cache)).unwrap().compiling_by(nowhere()), &good()).unwrap();

    let mut codes = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
    let code = codes.find(|path| path.extension().is_some_and(|extension| extension == "cwasm")).unwrap();
    let content = fs::read(&code).unwrap();
    for (name, content) in [("stolen.cwasm", &content[..]), ("bare.cwasm", &content[32..])] {
        let reason = refused(&Runtime::new(None).unwrap().compiling_by(compiler()), &file(&folder, name, content));
        assert!(reason.contains("is no WebAssembly file") || reason.contains("never taken from outside"), "{reason}");
    }
}
