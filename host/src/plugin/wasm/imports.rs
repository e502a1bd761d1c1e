//! What a plugin may import: the contract's log, and nothing else. Everything a host function gives would be a way for
//! the outside to change a result.

use wasmtime::{
    Engine,
    component::{Component, HasSelf, Linker},
};

use super::{bindings::tidegate::plugin::log, budget::State};

/// The interface that makes a component a plugin.
const PROCESSOR: &str = "tidegate:plugin/processor@0.1.0";
/// The interface of the contract's types: imported by every component, and nothing to call.
const TYPES: &str = "tidegate:plugin/types@0.1.0";
/// The interface of the log.
const LOG: &str = "tidegate:plugin/log@0.1.0";

/// Links what is offered.
pub(super) fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    log::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    Ok(linker)
}

/// Refuses, with a text that says what to do, a component that wants more than is offered or is no plugin.
pub(super) fn check(engine: &Engine, component: &Component) -> Result<(), String> {
    let ty = component.component_type();
    let unknown: Vec<&str> =
        ty.imports(engine).map(|(name, _)| name).filter(|name| ![TYPES, LOG].contains(name)).collect();
    if let Some(first) = unknown.first() {
        return Err(format!("imports {}, which a plugin is not given: {}", unknown.join(", "), advice(first)));
    }
    let exports: Vec<&str> = ty.exports(engine).map(|(name, _)| name).collect();
    if exports.contains(&PROCESSOR) {
        return Ok(());
    }
    let other = exports.iter().find(|name| name.starts_with("tidegate:plugin/processor@"));
    Err(match other {
        Some(other) => {
            format!("is built for {other}; this host speaks {PROCESSOR}: build it with the SDK of this version")
        }
        None => {
            format!("is no plugin: it does not export {PROCESSOR}. Build it with the SDK (`tidegate plugin build DIR`)")
        }
    })
}

fn advice(import: &str) -> &'static str {
    if import.starts_with("wasi:") {
        "there is no clock, randomness, file or network in a plugin. Build it without WASI (Rust: for \
         wasm32-unknown-unknown, as `tidegate plugin build` does)"
    } else if import.starts_with("tidegate:plugin/") {
        "it is built for another version of the contract: build it with the SDK of this version"
    } else {
        "remove what needs it from the plugin"
    }
}
