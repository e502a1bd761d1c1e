//! The one engine of a process, and its clock.

use std::{thread, time::Duration};

use wasmtime::{Config, Engine};

/// How often running guests look at their budgets.
const TICK: Duration = Duration::from_millis(10);

/// Makes the engine and starts its clock.
pub(super) fn engine() -> wasmtime::Result<Engine> {
    let engine = without_clock()?;
    tick(&engine)?;
    Ok(engine)
}

/// An engine that compiles, and runs nothing. What a guest may be made of is decided here: nothing whose result depends on the machine, nothing
/// that needs threads of its own.
pub(super) fn without_clock() -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        // The same input gives the same bits on every machine.
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        .relaxed_simd_deterministic(true)
        .wasm_memory64(false)
        .wasm_tail_call(false)
        // Interpreters' components talk through adapters that use two memories: without this, compiling them panics. The
        // budget counts all memories together.
        .wasm_multi_memory(true)
        // Threads, GC and exceptions are not even compiled in; plain synchronous calls need no scheduler.
        .concurrency_support(false);
    Engine::new(&config)
}

/// The ticker has a thread of its own: an async timer would stand still when its runtime does, which is when it is needed.
/// It ends with the engine.
fn tick(engine: &Engine) -> wasmtime::Result<()> {
    let engine = engine.weak();
    thread::Builder::new().name("plugin-epoch".to_owned()).spawn(move || {
        loop {
            thread::sleep(TICK);
            let Some(engine) = engine.upgrade() else { return };
            engine.increment_epoch();
        }
    })?;
    Ok(())
}
