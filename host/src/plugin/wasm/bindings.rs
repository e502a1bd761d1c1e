//! Generated from the contract. Arguments are borrowed, so that a batch is lowered from where it lies.
#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated from the WIT")]

wasmtime::component::bindgen!({
    path: "../guest-sdk/wit",
    world: "plugin",
    ownership: Borrowing { duplicate_if_necessary: false },
});
