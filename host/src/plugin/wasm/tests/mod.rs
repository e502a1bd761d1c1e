#![allow(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use tempfile::TempDir;
use wit_component::StringEncoding;
use wit_parser::Resolve;

use super::*;
use crate::{
    class::Class,
    config::PluginLimits,
    outcome::{Evaluated, Verdict},
    plugin::{Entry, EvaluateContext, Limit, evaluate, evaluate::sample},
    record::Batch,
};

mod contracts;
mod hostile;
mod wasi;

const DESCRIPTION: &str = r#"{"name":"guest","version":"1"}"#;

/// The guest of `guest.wat`, changed here and there, as a core module that carries the contract's types.
struct Guest {
    description: &'static str,
    describe: &'static str,
    configure: &'static str,
    imports: &'static str,
    /// Pages of memory at the beginning.
    pages: u32,
    /// Definitions of the module's own.
    start: String,
    /// What "X" does in extract-keys.
    extract: &'static str,
    /// The version of WASI that it is built for, where it is.
    wasi: Option<String>,
    limits: PluginLimits,
    settings: serde_json::Value,
}

impl Default for Guest {
    fn default() -> Self {
        let limits = PluginLimits {
            memory: 4 << 20,
            cpu_base: Duration::from_millis(40),
            cpu_per_event: Duration::from_millis(1),
            output_per_event: 4 << 10,
            ..PluginLimits::default()
        };
        Self {
            description: DESCRIPTION,
            describe: "",
            configure: "",
            imports: "",
            pages: 2,
            start: String::new(),
            extract: "",
            wasi: None,
            limits,
            settings: serde_json::Value::Null,
        }
    }
}

impl Guest {
    fn module(&self) -> Vec<u8> {
        let text = include_str!("guest.wat")
            .replace("DESCRIPTION", &self.description.replace('"', "\\22"))
            .replace("LENGTH", &self.description.len().to_string())
            .replace(";;DESCRIBE", self.describe)
            .replace(";;CONFIGURE", self.configure)
            .replace(";;EXTRACT", self.extract)
            .replace("PAGES", &self.pages.to_string())
            .replace(";;START", &self.start)
            .replace(";;IMPORTS", self.imports);
        let mut module = wat::parse_str(text).unwrap();
        let mut resolve = Resolve::default();
        let contract = resolve.push_str("plugin.wit", include_str!("../../../../../guest-sdk/wit/plugin.wit")).unwrap();
        let world = match &self.wasi {
            None => resolve.select_world(&[contract], Some("plugin")).unwrap(),
            Some(version) => {
                let text = include_str!("wasi.wit").replace("VERSION", version);
                let package = resolve.push_str("wasi.wit", &text).unwrap();
                resolve.select_world(&[package], Some("guest")).unwrap()
            }
        };
        wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
        module
    }

    fn load(&self) -> Result<Arc<dyn Plugin>, PluginError> {
        let file = File::new(&self.module());
        let settings = self.settings.clone();
        let plugin = config::Plugin { limits: self.limits, settings, ..config::Plugin::at(file.path.clone()) };
        Runtime::new(None).unwrap().load(&plugin)
    }
}

/// A file that lives as long as the test.
struct File {
    path: PathBuf,
    _folder: TempDir,
}

impl File {
    fn new(content: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("guest.wasm");
        fs::write(&path, content).unwrap();
        Self { path, _folder: folder }
    }

    fn load(&self, sha256: Option<[u8; 32]>) -> Result<Arc<dyn Plugin>, PluginError> {
        Runtime::new(None).unwrap().load(&config::Plugin { sha256, ..config::Plugin::at(self.path.clone()) })
    }
}

fn context(guest: &Guest) -> EvaluateContext {
    EvaluateContext { limits: guest.limits, ..sample::context(&["id"]) }
}

fn run(guest: &Guest, batch: &Batch) -> Vec<String> {
    sample::codes(&evaluate(guest.load().unwrap().as_ref(), batch, &context(guest)).unwrap())
}

fn rejection(evaluated: &Evaluated) -> &str {
    match &evaluated.verdict {
        Verdict::Reject(rejection) => &rejection.message,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn a_good_batch() {
    let guest = Guest::default();
    let evaluated = evaluate(guest.load().unwrap().as_ref(), &sample::texts(["1", "2"]), &context(&guest)).unwrap();
    assert_eq!(evaluated[1].identity.as_ref().unwrap().message_id.as_str(), "2");
    let Verdict::Apply(changes) = &evaluated[1].verdict else { unreachable!("{evaluated:?}") };
    assert_eq!(changes[0].values, [crate::value::Value::Text("2".into())]);
}

/// Invariant 6, Invariant 7: the host lives, that record is rejected for what it did, its neighbours are fine.
#[test]
fn whatever_one_record_does_its_neighbours_are_fine() {
    let guest = Guest::default();
    let plugin = guest.load().unwrap();
    for (bad, code) in [
        ("L", "plugin-cpu"),
        ("T", "plugin-trap"),
        ("M", "plugin-memory"),
        ("D", "plugin-trap"),
        ("P", "plugin-trap"),
        ("W", "plugin-cpu"),
        ("N", "plugin-contract"),
        ("U", "plugin-contract"),
        ("B", "plugin-contract"),
        ("l", "plugin-cpu"),
        ("t", "plugin-trap"),
        ("m", "plugin-memory"),
        ("d", "plugin-trap"),
        ("n", "plugin-contract"),
        ("s", "plugin-contract"),
        ("v", "plugin-contract"),
        ("G", "plugin-tables"),
        ("H", "plugin-contract"),
        ("K", "plugin-contract"),
        ("g", "plugin-tables"),
        ("\0", "bad-message-id"),
        ("o", "plugin-output"),
        ("c", "plugin-changes"),
        ("j", "bad-timestamp"),
        ("", "bad-message-id"),
    ] {
        let batch = sample::texts(["1", "2", bad, "3", "4"]);
        let codes = sample::codes(&evaluate(plugin.as_ref(), &batch, &context(&guest)).unwrap());
        assert_eq!(codes, ["apply 1", "apply 1", code, "apply 1", "apply 1"], "{bad}");
    }
}

#[test]
fn a_rejection_names_plugin_batch_and_the_way_out() {
    let guest = Guest::default();
    let plugin = guest.load().unwrap();
    let evaluated = evaluate(plugin.as_ref(), &sample::texts(["1", "L", "P"]), &context(&guest)).unwrap();
    assert_eq!(
        rejection(&evaluated[1]),
        "plugin guest exceeded 41 ms of CPU time in extract-keys of a batch of 1: raise limits.cpu_per_event (or \
         limits.cpu_base) if the plugin really needs more"
    );
    // What the guest said before it trapped is the reason, on one line.
    assert!(rejection(&evaluated[2]).contains(r"(boom\nat line 7)"), "{}", rejection(&evaluated[2]));
}

/// A batch that is too big for the memory as a whole is no record's fault: it is halved until it fits.
#[test]
fn a_batch_that_only_fails_together_is_applied() {
    let guest = Guest { limits: PluginLimits { memory: 2 << 20, ..Guest::default().limits }, ..Guest::default() };
    let payload = "x".repeat(120);
    let batch = sample::batch(vec![Some(payload.into_bytes()); 4000]);
    assert!(run(&guest, &batch).iter().all(|code| code == "apply 1"));
}

#[test]
fn every_entry_is_budgeted() {
    let for_ever = "(loop $for_ever (br $for_ever))";
    let all_memory = "(loop $more (drop (memory.grow (i32.const 1))) (br $more))";
    for (describe, configure, entry, limit) in [
        (for_ever, "", Entry::Describe, Limit::Cpu),
        (all_memory, "", Entry::Describe, Limit::Memory),
        ("", for_ever, Entry::Configure, Limit::Cpu),
        ("", all_memory, Entry::Configure, Limit::Memory),
    ] {
        let error = Guest { describe, configure, ..Guest::default() }.load().err().unwrap();
        assert!(
            matches!(&error, PluginError::Limit { entry: e, limit: l, .. } if (*e, *l) == (entry, limit)),
            "{error}"
        );
        assert_eq!(error.class(), Class::Fatal, "no record is at fault: {error}");
    }
    for (describe, configure) in [("unreachable", ""), ("", "unreachable")] {
        let error = Guest { describe, configure, ..Guest::default() }.load().err().unwrap();
        assert!(matches!(&error, PluginError::Trap { .. }), "{error}");
        assert_eq!(error.class(), Class::Fatal, "{error}");
    }
}

#[test]
fn settings_that_the_plugin_refuses() {
    // Answers the first four bytes of the description as its error.
    let configure = "(i32.store (i32.const 0) (i32.const 1)) (i32.store (i32.const 4) (i32.const 65))
                     (i32.store (i32.const 8) (i32.const 6)) (return (i32.const 0))";
    let error = Guest { configure, ..Guest::default() }.load().err().unwrap();
    assert_eq!(error.to_string(), "plugin guest refuses its settings: \"name\"; see [consumer.plugin] settings");
}

#[test]
fn what_is_no_plugin_is_refused_with_advice() {
    let refused = |content: &[u8]| File::new(content).load(None).err().unwrap().to_string();
    let component = |text: &str| wat::parse_str(text).unwrap();
    let stranger = component(r#"(component (import "acme:sql/query@1.0.0" (instance)))"#);
    for (content, says) in [
        (b"hello".to_vec(), "is no WebAssembly file"),
        (b"\x7fELF....".to_vec(), "never taken from outside"),
        (component("(component)"), "does not export tidegate:plugin/processor@0.1.0"),
        (component("(module)"), "`tidegate plugin build DIR`"),
        (stranger, "imports acme:sql/query@1.0.0, which a plugin is not given: remove what needs it"),
        (b"\0asm\x0d\0\x01\0broken".to_vec(), "cannot be compiled"),
        (Guest { imports: r#"(import "env" "now" (func (result i64)))"#, ..Guest::default() }.module(), "env"),
        (Guest { description: "not JSON", ..Guest::default() }.module(), "JSON that cannot be read"),
        (Guest { description: r#"{"name":"a b"}"#, ..Guest::default() }.module(), "a name that is not"),
    ] {
        let error = refused(&content);
        assert!(error.contains(says), "{says}: {error}");
        assert!(error.contains("guest.wasm"), "names the file: {error}");
    }
    let error = Runtime::new(None).unwrap().inspect(Path::new("/nowhere.wasm")).unwrap_err();
    assert!(error.to_string().starts_with("plugin /nowhere.wasm: cannot be read: "), "{error}");
}

/// What gives another result on another machine, or needs more than one thread, does not even compile.
#[test]
fn what_is_not_deterministic_is_refused() {
    for (what, module) in [
        ("threads", "(memory 1 1 shared)"),
        ("atomics", "(memory 1) (func (drop (i32.atomic.load (i32.const 0))))"),
        ("relaxed simd", "(func (param v128) (result v128) (i8x16.relaxed_swizzle (local.get 0) (local.get 0)))"),
        ("memory64", "(memory i64 1)"),
        ("tail calls", "(func $f (return_call $f))"),
        ("gc", "(type (struct (field i32)))"),
        ("exceptions", "(tag (param i32))"),
    ] {
        let component = wat::parse_str(format!("(component (core module {module}))")).unwrap();
        let error = File::new(&component).load(None).err().unwrap().to_string();
        assert!(error.contains("cannot be compiled"), "{what}: {error}");
    }
}

#[test]
fn a_pin_is_held() {
    let file = File::new(&Guest::default().module());
    let digest = file.load(None).unwrap().digest();
    assert!(file.load(Some(digest)).is_ok());
    let error = file.load(Some([0; 32])).err().unwrap().to_string();
    assert!(error.contains("is pinned"), "{error}");
}

#[test]
fn compiled_code_is_kept_and_found_again() {
    let file = File::new(&Guest::default().module());
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("code");
    let codes = || fs::read_dir(&cache).unwrap().count();
    let first = Runtime::new(Some(&cache)).unwrap();
    first.inspect(&file.path).unwrap();
    assert_eq!(codes(), 1);
    assert_eq!(first.compiled.lock().unwrap().len(), 1);
    let second = Runtime::new(Some(&cache)).unwrap();
    let (description, digest) = second.inspect(&file.path).unwrap();
    assert_eq!(description.name, "guest");
    assert!(second.cache.as_ref().unwrap().get(&second.engine, &digest).is_some());
    assert_eq!(codes(), 1);
}

/// Invariant 6: infrastructure never makes a dead letter. A budget of wall-clock time would, on a machine that has
/// other things to do; this one counts what the guest itself used.
#[test]
fn a_busy_machine_rejects_nothing() {
    let slow = sample::texts(["1", "Z", "2", "Z"]);
    let patient = Guest {
        limits: PluginLimits { cpu_base: Duration::from_secs(60), ..Guest::default().limits },
        ..Guest::default()
    };
    let plugin = patient.load().unwrap();
    let before = cpu::thread_time();
    evaluate(plugin.as_ref(), &slow, &context(&patient)).unwrap();
    let used = cpu::thread_time() - before;

    let limits = PluginLimits { cpu_base: used * 5, cpu_per_event: Duration::ZERO, ..Guest::default().limits };
    let tight = Guest { limits, ..Guest::default() };
    let plugin = tight.load().unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..8 * thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let evaluated = evaluate(plugin.as_ref(), &slow, &context(&tight));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(sample::codes(&evaluated.unwrap()), ["apply 1"; 4]);
    });
}
