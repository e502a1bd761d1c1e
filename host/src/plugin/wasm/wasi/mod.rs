//! WASI without a world behind it: a guest may *link* any `wasi:` interface of 0.2, since languages' runtimes do, and is
//! granted nothing by it. No files, network, environment, arguments or subprocesses; what it writes to stderr is kept for the
//! log and for the message of a trap; clock and randomness answer, with constants, only while it starts and configures
//! itself.
//!
//! The stubs are made from what the component imports, name by name, so that one table serves every patch version.

mod answer;
mod stderr;

use answer::Answer;
pub(super) use stderr::Stderr;
use wasmtime::{
    Engine, StoreContextMut,
    component::{
        ComponentType, Linker, LinkerInstance, Lower, Resource, ResourceAny, ResourceType, Val,
        types::{self, ComponentItem},
    },
};

use super::budget::State;

/// The versions that are served: their interfaces only grew.
const VERSION: &str = "0.2.";
/// The most random bytes in one call: a seed, not a stream.
const RANDOM_BYTES: u64 = 64 << 10;

/// Whatever a stub hands out: a stream, something to wait for. Its number says which stream it is.
#[derive(Debug)]
pub(super) struct Handle;

/// The number of the stream that is kept.
const STDERR: u32 = 2;
/// The number of everything else.
const NOTHING: u32 = 0;

/// As `wasi:io/streams` has it; writing never fails here.
#[derive(ComponentType, Lower)]
#[component(variant)]
#[allow(dead_code, reason = "a result's type has both sides")]
enum StreamError {
    #[component(name = "last-operation-failed")]
    LastOperationFailed(Resource<Handle>),
    #[component(name = "closed")]
    Closed,
}

/// Links stubs for all of WASI that a component imports.
///
/// # Errors
/// With a text that says what to do, where it imports what no version of WASI 0.2 has.
pub(super) fn offer(linker: &mut Linker<State>, engine: &Engine, component: &types::Component) -> Result<(), String> {
    for (import, item) in component.imports(engine).filter(|(import, _)| import.starts_with("wasi:")) {
        let served = import.split_once('@').filter(|(_, version)| version.starts_with(VERSION));
        let (Some((interface, _)), ComponentItem::ComponentInstance(instance)) = (served, item.ty) else {
            return Err(format!(
                "imports {import}, which is no interface of WASI 0.2: build it for that (such as wasm32-wasip2), or \
                 without WASI"
            ));
        };
        let mut offered = linker.instance(import).map_err(|error| format!("imports {import}: {error:#}"))?;
        for (name, item) in instance.exports(engine) {
            let defined = match item.ty {
                ComponentItem::Resource(_) => offered.resource(name, ResourceType::host::<Handle>(), |mut store, _| {
                    store.data_mut().handle_dropped();
                    Ok(())
                }),
                ComponentItem::ComponentFunc(_) => define(&mut offered, import, interface, name),
                ComponentItem::Type(_) => Ok(()),
                _ => return Err(format!("imports {import} with {name}, which is no part of it")),
            };
            defined.map_err(|error| format!("imports {import}#{name}: {error:#}"))?;
        }
    }
    Ok(())
}

/// What carries bytes is typed, since a dynamic value takes forty bytes for each. All else is answered from a table.
fn define(offered: &mut LinkerInstance<'_, State>, import: &str, interface: &str, name: &str) -> wasmtime::Result<()> {
    let called = format!("{import}#{name}");
    match (interface, name) {
        ("wasi:io/streams", "[method]output-stream.write" | "[method]output-stream.blocking-write-and-flush") => {
            offered.func_wrap(
                name,
                |mut store: StoreContextMut<'_, State>, (stream, bytes): (Resource<Handle>, Vec<u8>)| {
                    if stream.rep() == STDERR {
                        store.data_mut().wrote(&bytes);
                    }
                    Ok((Ok::<(), StreamError>(()),))
                },
            )
        }
        ("wasi:random/random", "get-random-bytes") | ("wasi:random/insecure", "get-insecure-random-bytes") => offered
            .func_wrap(name, move |mut store: StoreContextMut<'_, State>, (count,): (u64,)| {
                let state = store.data_mut();
                state.only_at_start(&called, answer::NO_RANDOMNESS)?;
                if count > RANDOM_BYTES {
                    return state.deny(&called, "there is no randomness, least of all so much of it");
                }
                Ok(((0..count).map(|_| state.random().to_le_bytes()[0]).collect::<Vec<u8>>(),))
            }),
        _ => {
            let answer = Answer::of(interface, name);
            offered.func_new(name, move |mut store, _, arguments, results| {
                let value = answer.give(&mut store, &called, arguments)?;
                give_back(&mut store, arguments)?;
                match (results, value) {
                    ([], _) => Ok(()),
                    ([result], Some(value)) => {
                        *result = value;
                        Ok(())
                    }
                    _ => store.data_mut().deny(&called, "it is not the function of that name in WASI"),
                }
            })
        }
    }
}

/// A new handle in the guest's hands. Their number is limited: each takes memory of the host's.
fn handle(store: &mut StoreContextMut<'_, State>, called: &str, number: u32) -> wasmtime::Result<Val> {
    store.data_mut().handle_made(called)?;
    Resource::<Handle>::new_own(number).try_into_resource_any(&mut *store).map(Val::Resource)
}

/// Borrowed handles have to be given back before a call ends; given ones are dropped.
fn give_back(store: &mut StoreContextMut<'_, State>, arguments: &[Val]) -> wasmtime::Result<()> {
    for argument in arguments {
        match argument {
            Val::Resource(handle) => ResourceAny::resource_drop(*handle, &mut *store)?,
            Val::List(of) | Val::Tuple(of) => give_back(store, of)?,
            Val::Record(fields) => {
                for (_, field) in fields {
                    give_back(store, std::slice::from_ref(field))?;
                }
            }
            Val::Option(Some(one)) | Val::Variant(_, Some(one)) => give_back(store, std::slice::from_ref(one))?,
            Val::Result(Ok(Some(one)) | Err(Some(one))) => give_back(store, std::slice::from_ref(one))?,
            _ => {}
        }
    }
    Ok(())
}
