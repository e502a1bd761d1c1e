//! What a plugin may import: the contract's log, and WASI with nothing behind it. Everything else that a host function gives
//! would be a way for the outside to change a result.

use wasmtime::{
    Engine,
    component::{Component, HasSelf, Linker},
};

use super::{bindings::tidegate::plugin::log, budget::State, contract::Contract, wasi};

/// Links what a component imports.
///
/// # Errors
/// A text that says what to do, where the component wants more than is offered or is no plugin.
pub(super) fn link(engine: &Engine, component: &Component) -> Result<(Contract, Linker<State>), String> {
    let ty = component.component_type();
    let contract = check(ty.imports(engine).map(|(name, _)| name), ty.exports(engine).map(|(name, _)| name))?;
    let mut linker = Linker::new(engine);
    match contract {
        Contract::V0_1_0 => log::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state),
    }
    .map_err(|error| format!("{error:#}"))?;
    wasi::offer(&mut linker, engine, &ty)?;
    Ok((contract, linker))
}

fn check<'a>(
    imports: impl Iterator<Item = &'a str>,
    exports: impl Iterator<Item = &'a str>,
) -> Result<Contract, String> {
    let contract = Contract::of(&exports.collect::<Vec<_>>());
    let offered = contract.as_ref().copied().unwrap_or(Contract::NEWEST);
    // What it imports says more about what it is than that it is no plugin.
    let unknown: Vec<&str> = imports.filter(|name| !offered.offers(name) && !name.starts_with("wasi:")).collect();
    match unknown.first() {
        Some(first) if contract.is_ok() || !first.starts_with("tidegate:plugin/") => {
            Err(format!("imports {}, which a plugin is not given: {}", unknown.join(", "), advice(first)))
        }
        _ => contract,
    }
}

fn advice(import: &str) -> &'static str {
    if import.starts_with("tidegate:plugin/") {
        "it is built for another version of the contract: build it with the SDK of this version"
    } else {
        "remove what needs it from the plugin"
    }
}
