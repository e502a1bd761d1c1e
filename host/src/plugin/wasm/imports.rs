//! What a plugin may import: the contract's log, and WASI with nothing behind it. Everything else that a host function gives
//! would be a way for the outside to change a result.

use wasmtime::{
    Engine,
    component::{Component, HasSelf, Linker},
};

use super::{bindings::tidegate::plugin::log, budget::State, wasi};

/// The interface that makes a component a plugin.
const PROCESSOR: &str = "tidegate:plugin/processor@0.1.0";
/// The interface of the contract's types: imported by every component, and nothing to call.
const TYPES: &str = "tidegate:plugin/types@0.1.0";
/// The interface of the log.
const LOG: &str = "tidegate:plugin/log@0.1.0";

/// Links what a component imports.
///
/// # Errors
/// A text that says what to do, where the component wants more than is offered or is no plugin.
pub(super) fn link(engine: &Engine, component: &Component) -> Result<Linker<State>, String> {
    check(engine, component)?;
    let mut linker = Linker::new(engine);
    log::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state).map_err(|error| format!("{error:#}"))?;
    wasi::offer(&mut linker, engine, &component.component_type())?;
    Ok(linker)
}

fn check(engine: &Engine, component: &Component) -> Result<(), String> {
    let ty = component.component_type();
    let listed = |name: &str| [TYPES, LOG].contains(&name) || name.starts_with("wasi:");
    let unknown: Vec<&str> = ty.imports(engine).map(|(name, _)| name).filter(|name| !listed(name)).collect();
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
    if import.starts_with("tidegate:plugin/") {
        "it is built for another version of the contract: build it with the SDK of this version"
    } else {
        "remove what needs it from the plugin"
    }
}
