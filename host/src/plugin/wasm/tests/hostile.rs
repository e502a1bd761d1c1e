//! What a hostile guest costs the host: a bounded amount of memory and CPU time, and never the next batch.

use std::{process::Command, sync::atomic::AtomicUsize};

use super::*;
use crate::plugin::Instance;

/// Invariant 7: also what runs while an instance is made.
#[test]
fn a_start_function_is_budgeted() {
    for (start, code) in [
        ("(func $go (loop $for_ever (br $for_ever))) (start $go)", "plugin-cpu"),
        ("(func $go (call $go)) (start $go)", "plugin-trap"),
        ("(func $go (loop $more (drop (memory.grow (i32.const 1))) (br $more))) (start $go)", "plugin-memory"),
        ("(func $go unreachable) (start $go)", "plugin-trap"),
        ("(data (i32.const 131070) \"beyond\")", "plugin-trap"),
    ] {
        let error = Guest { start: start.into(), ..Guest::default() }.load().err().unwrap();
        assert_eq!((error.code(), error.class()), (code, Class::Fatal), "{error}");
        assert!(error.to_string().contains("in instantiate of"), "{error}");
    }
}

#[test]
fn data_fills_the_memory_to_its_limit_and_no_further() {
    let guest = |pages: u32| {
        let data = "x".repeat(usize::try_from((pages - 2) << 16).unwrap());
        Guest { pages, start: format!("(data (i32.const 131072) {data:?})"), ..Guest::default() }
    };
    let limit = u32::try_from(Guest::default().limits.memory >> 16).unwrap();
    assert_eq!(run(&guest(limit), &sample::texts(["1", "m", "2"])), ["apply 1", "plugin-memory", "apply 1"]);
    let error = guest(limit + 1).load().err().unwrap();
    assert_eq!((error.code(), error.class()), ("plugin-memory", Class::Fatal), "{error}");
}

/// The measure is this thread's CPU time: a busy machine changes nothing.
#[test]
fn what_loops_is_contained_within_twice_its_budget() {
    let limits = PluginLimits { cpu_base: Duration::from_millis(300), ..Guest::default().limits };
    let guest = Guest { limits, ..Guest::default() };
    let plugin = guest.load().unwrap();
    for bad in ["L", "W"] {
        let mut instance = plugin.instance(1).unwrap();
        let before = cpu::thread_time();
        let error = instance.extract_keys(&[sample::message(bad)]).unwrap_err();
        let used = cpu::thread_time() - before;
        assert_eq!(error.code(), "plugin-cpu");
        assert!(used >= limits.cpu_base, "{used:?}");
        assert!(used < 2 * limits.cpu_base, "{used:?}");
    }
}

/// Counts what it takes.
struct Counted<'a> {
    plugin: &'a dyn Plugin,
    instances: AtomicUsize,
}

impl Plugin for Counted<'_> {
    fn digest(&self) -> [u8; 32] {
        self.plugin.digest()
    }

    fn description(&self) -> &Description {
        self.plugin.description()
    }

    fn instance(&self, events: usize) -> Result<Box<dyn Instance>, PluginError> {
        self.instances.fetch_add(1, Ordering::Relaxed);
        self.plugin.instance(events)
    }

    fn impatient(&self, events: usize, patience: usize) -> Result<Box<dyn Instance>, PluginError> {
        self.instances.fetch_add(1, Ordering::Relaxed);
        self.plugin.impatient(events, patience)
    }
}

/// With the default limits a budget of 500 ms for an entry, and of 4.5 s for the batch as a whole.
#[test]
fn a_looping_record_of_two_thousand_is_found_in_seconds() {
    let guest = Guest { limits: PluginLimits::default(), ..Guest::default() };
    let plugin = guest.load().unwrap();
    let mut payloads = vec![Some(b"1".to_vec()); 2000];
    payloads[1234] = Some(b"l".to_vec());
    let before = cpu::thread_time();
    let evaluated = evaluate(plugin.as_ref(), &sample::batch(payloads), &context(&guest)).unwrap();
    let used = cpu::thread_time() - before;
    let codes = sample::codes(&evaluated);
    assert_eq!(codes[1234], "plugin-cpu");
    assert_eq!(codes.iter().filter(|code| *code == "apply 1").count(), 1999);
    assert_eq!(evaluated[1234].identity.as_ref().unwrap().message_id.as_str(), "l", "who it is stays known");
    assert!(used < Duration::from_secs(4), "{used:?}");
}

/// Impatience is no limit: a batch that needs all of its budget passes, in parts.
#[test]
fn a_batch_that_is_slow_as_a_whole_passes_in_parts() {
    let extract = "(call $spin (i32.const 4000000))";
    let patient = PluginLimits { cpu_base: Duration::from_secs(60), ..Guest::default().limits };
    let slow = |limits| Guest { extract, limits, ..Guest::default() };
    let batch = sample::batch(vec![Some(b"X".to_vec()); 144]);
    let guest = slow(patient);
    let plugin = guest.load().unwrap();
    let before = cpu::thread_time();
    evaluate(plugin.as_ref(), &batch, &context(&guest)).unwrap();
    let each = (cpu::thread_time() - before) / 144;

    let tight = PluginLimits { cpu_base: Duration::from_millis(20), cpu_per_event: each * 4, ..patient };
    let guest = slow(tight);
    let plugin = guest.load().unwrap();
    let counted = Counted { plugin: plugin.as_ref(), instances: AtomicUsize::new(0) };
    let evaluated = evaluate(&counted, &batch, &context(&guest)).unwrap();
    assert_eq!(sample::codes(&evaluated), ["apply 1"; 144]);
    assert!(counted.instances.load(Ordering::Relaxed) > 1, "it was split: {each:?} an event");
}

/// What the host may grow by while it contains a guest: the guest's memory, its answer twice, and some room.
const GROWTH: usize = (4 << 20) + 2 * (8 << 20) + (16 << 20);
/// Set where this test runs alone in its process, whose memory is then its own.
const ALONE: &str = "TIDEGATE_TEST_ALONE";

/// Invariant 7. Three times each, with a good batch after every one.
#[test]
fn the_hosts_memory_stays_bounded_whatever_a_guest_does() {
    if std::env::var_os(ALONE).is_none() {
        let this = std::env::current_exe().unwrap();
        let name = "plugin::wasm::tests::hostile::the_hosts_memory_stays_bounded_whatever_a_guest_does";
        let output = Command::new(this).args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
        assert!(text(&output.stdout).contains("1 passed"), "{}", text(&output.stdout));
        return;
    }
    let guest = Guest::default();
    let plugin = guest.load().unwrap();
    let fine = || {
        let batch = sample::texts(["1", "2", "3"]);
        let evaluated = evaluate(plugin.as_ref(), &batch, &context(&guest)).unwrap();
        assert_eq!(sample::codes(&evaluated), ["apply 1"; 3]);
    };
    fine();
    for bad in ["L", "M", "G", "D", "W", "N", "U", "B", "H", "K", "l", "m", "g", "d", "s", "v", "o", "c"] {
        let before = resident("VmRSS");
        // From here on VmHWM is the highest since now.
        fs::write("/proc/self/clear_refs", "5").unwrap();
        for _ in 0..3 {
            let evaluated = evaluate(plugin.as_ref(), &sample::texts(["1", bad, "2"]), &context(&guest)).unwrap();
            assert!(sample::codes(&evaluated)[1].starts_with("plugin-"), "{bad}");
            fine();
        }
        let grown = resident("VmHWM").saturating_sub(before);
        assert!(grown < GROWTH, "{bad}: {grown} bytes");
    }
}

/// A line of `/proc/self/status`, in bytes.
fn resident(name: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}
