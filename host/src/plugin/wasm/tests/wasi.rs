//! Guests that call WASI, at start and while they look at records.

use super::*;

/// What a guest calls, and what comes of it.
struct Call {
    /// Core imports, with `VERSION` for the version.
    imports: &'static str,
    /// The code; memory from 1024 on is free.
    code: &'static str,
    /// Whether it may be called while the guest starts, and in extract-keys.
    allowed: (bool, bool),
    /// Words of the error, where it may not.
    says: &'static str,
}

const fn call(imports: &'static str, code: &'static str, allowed: (bool, bool), says: &'static str) -> Call {
    Call { imports, code, allowed, says }
}

const STREAM: &str = r#"
    (import "wasi:cli/stderr@VERSION" "get-stderr" (func $stderr (result i32)))
    (import "wasi:io/streams@VERSION" "[method]output-stream.blocking-write-and-flush"
      (func $write (param i32 i32 i32 i32)))"#;

/// In a loop that the guest leaves only if all is as it should be: `unreachable` otherwise.
const CALLS: &[Call] = &[
    call(
        r#"(import "wasi:clocks/wall-clock@VERSION" "now" (func $f (param i32)))"#,
        "(call $f (i32.const 1024)) (if (i64.ne (i64.load (i32.const 1024)) (i64.const 0)) (then unreachable))",
        (true, false),
        "use the time that the event itself carries",
    ),
    call(
        r#"(import "wasi:clocks/monotonic-clock@VERSION" "now" (func $f (result i64)))"#,
        "(if (i64.ne (call $f) (call $f)) (then unreachable))",
        (true, false),
        "wasi:clocks/monotonic-clock@VERSION#now",
    ),
    call(
        r#"(import "wasi:clocks/monotonic-clock@VERSION" "subscribe-duration" (func $f (param i64) (result i32)))
           (import "wasi:io/poll@VERSION" "[method]pollable.block" (func $block (param i32)))
           (import "wasi:io/poll@VERSION" "[method]pollable.ready" (func $ready (param i32) (result i32)))
           (import "wasi:io/poll@VERSION" "poll" (func $poll (param i32 i32 i32)))
           (import "wasi:io/poll@VERSION" "[resource-drop]pollable" (func $drop (param i32)))"#,
        "(i32.store (i32.const 1024) (call $f (i64.const 1000000000)))
         (call $block (i32.load (i32.const 1024)))
         (if (i32.eqz (call $ready (i32.load (i32.const 1024)))) (then unreachable))
         (call $poll (i32.const 1024) (i32.const 1) (i32.const 1032))
         (if (i32.ne (i32.load (i32.const 1036)) (i32.const 1)) (then unreachable))
         (call $drop (i32.load (i32.const 1024)))",
        (true, false),
        "there is no clock",
    ),
    call(
        r#"(import "wasi:random/random@VERSION" "get-random-bytes" (func $f (param i64 i32)))"#,
        "(call $f (i64.const 32) (i32.const 1024))
         (if (i32.ne (i32.load (i32.const 1028)) (i32.const 32)) (then unreachable))",
        (true, false),
        "derive ids from the message id, or use `seed`",
    ),
    call(
        r#"(import "wasi:random/random@VERSION" "get-random-u64" (func $f (result i64)))"#,
        "(if (i64.eq (call $f) (call $f)) (then unreachable))",
        (true, false),
        "there is no randomness",
    ),
    call(
        r#"(import "wasi:random/insecure@VERSION" "get-insecure-random-bytes" (func $f (param i64 i32)))"#,
        "(call $f (i64.const 1000000000) (i32.const 1024))",
        (false, false),
        "there is no randomness",
    ),
    call(
        r#"(import "wasi:random/insecure-seed@VERSION" "insecure-seed" (func $f (param i32)))"#,
        "(call $f (i32.const 1024))",
        (true, true),
        "",
    ),
    call(
        r#"(import "wasi:cli/environment@VERSION" "get-environment" (func $variables (param i32)))
           (import "wasi:cli/environment@VERSION" "get-arguments" (func $arguments (param i32)))
           (import "wasi:cli/environment@VERSION" "initial-cwd" (func $folder (param i32)))
           (import "wasi:cli/terminal-stderr@VERSION" "get-terminal-stderr" (func $terminal (param i32)))
           (import "wasi:filesystem/preopens@VERSION" "get-directories" (func $folders (param i32)))"#,
        "(i64.store (i32.const 1024) (i64.const -1)) (call $variables (i32.const 1024))
         (if (i32.load (i32.const 1028)) (then unreachable))
         (i64.store (i32.const 1024) (i64.const -1)) (call $arguments (i32.const 1024))
         (if (i32.load (i32.const 1028)) (then unreachable))
         (i64.store (i32.const 1024) (i64.const -1)) (call $folders (i32.const 1024))
         (if (i32.load (i32.const 1028)) (then unreachable))
         (i64.store (i32.const 1024) (i64.const -1)) (call $folder (i32.const 1024))
         (if (i32.load8_u (i32.const 1024)) (then unreachable))
         (i64.store (i32.const 1024) (i64.const -1)) (call $terminal (i32.const 1024))
         (if (i32.load8_u (i32.const 1024)) (then unreachable))",
        (true, true),
        "",
    ),
    call(
        r#"(import "wasi:cli/stdin@VERSION" "get-stdin" (func $stdin (result i32)))
           (import "wasi:io/streams@VERSION" "[method]input-stream.read" (func $read (param i32 i64 i32)))"#,
        "(call $read (call $stdin) (i64.const 10) (i32.const 1024))
         (if (i32.ne (i32.load8_u (i32.const 1024)) (i32.const 1)) (then unreachable))
         (if (i32.ne (i32.load8_u (i32.const 1028)) (i32.const 1)) (then unreachable))",
        (true, true),
        "",
    ),
    call(
        r#"(import "wasi:cli/stdout@VERSION" "get-stdout" (func $stdout (result i32)))
           (import "wasi:io/streams@VERSION" "[method]output-stream.check-write" (func $room (param i32 i32)))
           (import "wasi:io/streams@VERSION" "[method]output-stream.write" (func $write (param i32 i32 i32 i32)))
           (import "wasi:io/streams@VERSION" "[method]output-stream.blocking-flush" (func $flush (param i32 i32)))
           (import "wasi:io/streams@VERSION" "[resource-drop]output-stream" (func $drop (param i32)))"#,
        "(i32.store (i32.const 1020) (call $stdout))
         (call $room (i32.load (i32.const 1020)) (i32.const 1024))
         (if (i64.eqz (i64.load (i32.const 1032))) (then unreachable))
         (call $write (i32.load (i32.const 1020)) (i32.const 35) (i32.const 14) (i32.const 1024))
         (if (i32.load8_u (i32.const 1024)) (then unreachable))
         (call $flush (i32.load (i32.const 1020)) (i32.const 1024))
         (if (i32.load8_u (i32.const 1024)) (then unreachable))
         (call $drop (i32.load (i32.const 1020)))",
        (true, true),
        "",
    ),
    call(
        r#"(import "wasi:cli/exit@VERSION" "exit" (func $f (param i32)))"#,
        "(call $f (i32.const 0))",
        (false, false),
        "reject or skip the event instead",
    ),
    call(
        r#"(import "wasi:sockets/instance-network@VERSION" "instance-network" (func $f (result i32)))"#,
        "(drop (call $f))",
        (false, false),
        "a plugin has no network",
    ),
    call(
        r#"(import "wasi:cli/stdout@VERSION" "get-stdout" (func $stdout (result i32)))"#,
        "(loop $for_ever (drop (call $stdout)) (br $for_ever))",
        (false, false),
        "too many handles",
    ),
    call(
        r#"(import "wasi:cli/stdout@VERSION" "get-stdout" (func $stdout (result i32)))
           (import "wasi:io/streams@VERSION" "[resource-drop]output-stream" (func $drop (param i32)))"#,
        "(local.set $count (i32.const 20000))
         (loop $again
           (call $drop (call $stdout))
           (br_if $again (local.tee $count (i32.sub (local.get $count) (i32.const 1)))))",
        (true, true),
        "",
    ),
];

fn guest(imports: &str, configure: &'static str, extract: &'static str, version: &str) -> Guest {
    let limits = PluginLimits { cpu_base: Duration::from_secs(10), ..Guest::default().limits };
    let imports = imports.replace("VERSION", version).leak();
    Guest { configure, extract, imports, wasi: Some(version.to_owned()), limits, ..Guest::default() }
}

/// Invariant 7: whatever of WASI is linked, nothing is granted. In whatever patch version.
#[test]
fn wasi_is_linked_and_grants_nothing() {
    for (Call { imports, code, allowed, says }, version) in
        CALLS.iter().zip(["0.2.0", "0.2.6", "0.2.12"].iter().cycle())
    {
        let says = says.replace("VERSION", version);
        let at_start = guest(imports, code, "", version).load();
        match at_start {
            Ok(plugin) => {
                assert!(allowed.0, "{imports}");
                assert!(plugin.instance(1).is_ok(), "each time: {imports}");
            }
            Err(error) => {
                assert!(!allowed.0, "{error}");
                assert_eq!((error.code(), error.class()), ("plugin-denied", Class::Fatal), "{error}");
                assert!(error.to_string().contains(&says), "{error}");
            }
        }
        let later = guest(imports, "", code, version);
        let batch = sample::texts(["1", "X", "2"]);
        let evaluated = evaluate(later.load().unwrap().as_ref(), &batch, &context(&later)).unwrap();
        let expected = if allowed.1 { "apply 1" } else { "plugin-denied" };
        assert_eq!(sample::codes(&evaluated), ["apply 1", expected, "apply 1"], "{imports}");
        if !allowed.1 {
            assert!(rejection(&evaluated[1]).contains(&says), "{}", rejection(&evaluated[1]));
        }
    }
}

/// A traceback reaches the dead letter; what an earlier entry wrote does not.
#[test]
fn what_is_written_to_stderr_explains_a_trap() {
    let write = "(call $write (call $stderr) (i32.const 35) (i32.const 14) (i32.const 1024))";
    let write_and_trap = "(call $write (call $stderr) (i32.const 38) (i32.const 11) (i32.const 1024)) unreachable";
    let guest = guest(STREAM, write, write_and_trap, "0.2.9");
    let plugin = guest.load().unwrap();
    let evaluated = evaluate(plugin.as_ref(), &sample::texts(["X"]), &context(&guest)).unwrap();
    assert_eq!(
        rejection(&evaluated[0]),
        r"plugin guest trapped in extract-keys of a batch of 1: wasm trap: wasm `unreachable` instruction executed; on stderr: m\nat line 7"
    );
}

/// Lines for ever end with the CPU budget and cost the host nothing.
#[test]
fn a_flood_on_stderr_is_contained() {
    let flood = "(local.set $count (call $stderr))
        (loop $again (call $write (local.get $count) (i32.const 0) (i32.const 60000) (i32.const 1024)) (br $again))";
    let mut guest = guest(STREAM, "", flood, "0.2.12");
    guest.limits.cpu_base = Guest::default().limits.cpu_base;
    assert_eq!(run(&guest, &sample::texts(["1", "X", "2"])), ["apply 1", "plugin-cpu", "apply 1"]);
}

#[test]
fn other_wasi_than_0_2_is_refused_by_name() {
    let engine = engine::engine().unwrap();
    let offered = |import: &str| {
        let component = wat::parse_str(format!("(component (import {import}))")).unwrap();
        let component = wasmtime::component::Component::new(&engine, component).unwrap();
        let mut linker = wasmtime::component::Linker::new(&engine);
        crate::plugin::wasm::wasi::offer(&mut linker, &engine, &component.component_type())
    };
    assert_eq!(offered(r#""wasi:cli/environment@0.2.99" (instance)"#), Ok(()));
    for import in ["wasi:cli/environment@0.3.0", "wasi:cli/environment"] {
        let refused = offered(&format!("{import:?} (instance)")).unwrap_err();
        assert!(refused.starts_with(&format!("imports {import}, which is no interface of WASI 0.2: ")), "{refused}");
    }
}
