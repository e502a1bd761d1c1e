//! From the bytes of a file to a component.

use std::borrow::Cow;

/// A component's first eight bytes: magic, version 13, layer 1.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
/// A core module's: magic, version 1, layer 0.
const MODULE: &[u8] = b"\0asm\x01\0\0\0";

/// The component in a file. A core module that carries the contract's types, as `cargo build --target
/// wasm32-unknown-unknown` leaves it, is wrapped into one.
///
/// # Errors
/// A text that says what the file is, and what to do.
pub(in crate::plugin) fn component_in(bytes: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    match bytes.get(..8) {
        Some(COMPONENT) => Ok(Cow::Borrowed(bytes)),
        Some(MODULE) => wrap(bytes).map(Cow::Owned),
        _ if bytes.starts_with(b"\x7fELF") => {
            Err("is compiled code, which is never taken from outside: give the .wasm file".to_owned())
        }
        _ => Err("is no WebAssembly file".to_owned()),
    }
}

fn wrap(module: &[u8]) -> Result<Vec<u8>, String> {
    let encoded = wit_component::ComponentEncoder::default().module(module).and_then(|encoder| {
        // Imports that are no part of the contract are named by the encoder.
        encoder.validate(true).encode()
    });
    encoded.map_err(|error| {
        format!(
            "is a core module that does not make a component: {error:#}. A plugin is built with the SDK for \
             wasm32-unknown-unknown (`tidegate plugin build`), or wrapped by `wasm-tools component new`"
        )
    })
}
