//! From a file to compiled code. The compiler is large, takes much memory and its input is not trusted, so the program runs
//! it in a child process with limits: a plugin that breaks it, or takes it for ever, is refused and the host goes on.

mod child;
mod confine;

use std::{
    io::{self, Read, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::OnceLock,
    time::Duration,
};

pub use child::Compiler;
pub(super) use child::Failed;
use wasmtime::Engine;

use super::{component::component_in, engine};
use crate::panics;

/// Set by the program; see [`compile_in_child_processes`].
static CHILDREN: OnceLock<Compiler> = OnceLock::new();

/// From now on, this process compiles plugins in child processes: itself, called with [`Compiler::VERB`]. For the program
/// alone, which knows that verb; whoever uses the library compiles within the process.
pub fn compile_in_child_processes() {
    if let Some(compiler) = Compiler::this_program() {
        // Saying it twice changes nothing.
        let _ = CHILDREN.set(compiler);
    }
}

/// How this process compiles, where nothing else is said.
pub(super) fn default() -> Option<Compiler> {
    CHILDREN.get().cloned()
}

/// The child's side: confines itself, takes a plugin's file from stdin and gives compiled code on stdout.
///
/// # Errors
/// With the reason, where the file cannot be compiled; what breaks the compiler ends the process.
pub fn compile_as_child(cpu: Duration, memory: u64) -> Result<(), String> {
    confine::confine(cpu, memory).map_err(|error| format!("no limits could be set for the compiler: {error}"))?;
    let mut file = Vec::new();
    io::stdin().lock().read_to_end(&mut file).map_err(|error| format!("cannot be read: {error}"))?;
    let engine = engine::without_clock().map_err(|error| format!("needs a plugin engine: {error:#}"))?;
    let code = compile(&engine, &file)?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(&code).and_then(|()| stdout.flush()).map_err(|error| format!("cannot be given back: {error}"))
}

/// Within this process; a panic of the compiler's ends only the attempt.
pub(super) fn here(engine: &Engine, file: &[u8]) -> Result<Vec<u8>, String> {
    catch_unwind(AssertUnwindSafe(|| compile(engine, file)))
        .unwrap_or_else(|panic| Err(format!("broke the compiler: {}", panics::words(panic.as_ref()))))
}

fn compile(engine: &Engine, file: &[u8]) -> Result<Vec<u8>, String> {
    let component = component_in(file)?;
    engine.precompile_component(&component).map_err(|error| format!("cannot be compiled: {error:#}"))
}
