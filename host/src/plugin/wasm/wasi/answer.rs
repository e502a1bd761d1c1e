//! What each function of WASI answers.

use wasmtime::{StoreContextMut, component::Val};

use super::{NOTHING, STDERR, handle};
use crate::plugin::wasm::budget::State;

/// What to use instead of a clock.
const NO_CLOCK: &str = "there is no clock, or the same event would give another result tomorrow: use the time that the \
                        event itself carries, or record-time-ms in compute";
/// What to use instead of randomness.
pub(super) const NO_RANDOMNESS: &str = "there is no randomness, or the same event would give another result each time: \
                                        derive ids from the message id, or use `seed` in compute";

/// An answer that needs no world behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// An empty list.
    Empty,
    /// None.
    Absent,
    /// A stream, or something to wait for: the number of a handle.
    Handle(u32),
    /// Something to wait for, from a clock.
    Alarm,
    /// Room for so many bytes.
    Room(u64),
    /// It is done.
    Done,
    /// The stream is at its end.
    Closed,
    /// What is waited for is there: all of a list.
    AllReady,
    /// True, or nothing at all.
    Ready,
    /// Nanoseconds.
    Nanoseconds(u64),
    /// A time of day: the epoch, so that nobody takes it for one.
    Epoch,
    /// A number.
    Random,
    /// Two numbers, always the same: a seed for hash tables, which runtimes ask for whenever they make the first one.
    HashSeed,
    /// The guest has ended itself.
    Exit,
    /// What a plugin does not have, whatever it is.
    NotGranted(&'static str),
}

impl Answer {
    /// The answer of an interface's function; the version does not matter.
    pub(super) fn of(interface: &str, function: &str) -> Self {
        match (interface, function) {
            ("wasi:cli/environment", "get-environment" | "get-arguments")
            | ("wasi:filesystem/preopens", "get-directories") => Self::Empty,
            ("wasi:cli/environment", "initial-cwd")
            | ("wasi:filesystem/types", "filesystem-error-code")
            | ("wasi:http/types", "http-error-code") => Self::Absent,
            (terminal, "get-terminal-stdin" | "get-terminal-stdout" | "get-terminal-stderr")
                if terminal.starts_with("wasi:cli/terminal-") =>
            {
                Self::Absent
            }
            ("wasi:cli/stdin", "get-stdin") | ("wasi:cli/stdout", "get-stdout") => Self::Handle(NOTHING),
            ("wasi:cli/stderr", "get-stderr") => Self::Handle(STDERR),
            ("wasi:cli/exit", _) => Self::Exit,
            ("wasi:io/streams", "[method]output-stream.check-write") => Self::Room(4096),
            ("wasi:io/streams", "[method]output-stream.flush" | "[method]output-stream.blocking-flush") => Self::Done,
            ("wasi:io/streams", "[method]output-stream.subscribe" | "[method]input-stream.subscribe") => {
                Self::Handle(NOTHING)
            }
            (
                "wasi:io/streams",
                "[method]input-stream.read"
                | "[method]input-stream.blocking-read"
                | "[method]input-stream.skip"
                | "[method]input-stream.blocking-skip",
            ) => Self::Closed,
            ("wasi:io/poll", "poll") => Self::AllReady,
            ("wasi:io/poll", "[method]pollable.ready" | "[method]pollable.block") => Self::Ready,
            ("wasi:clocks/monotonic-clock", "now") => Self::Nanoseconds(0),
            ("wasi:clocks/monotonic-clock", "resolution") => Self::Nanoseconds(1_000),
            ("wasi:clocks/monotonic-clock", "subscribe-instant" | "subscribe-duration") => Self::Alarm,
            ("wasi:clocks/wall-clock", "now" | "resolution") => Self::Epoch,
            ("wasi:random/random", "get-random-u64") | ("wasi:random/insecure", "get-insecure-random-u64") => {
                Self::Random
            }
            ("wasi:random/insecure-seed", "insecure-seed") => Self::HashSeed,
            (interface, _) => Self::NotGranted(lacking(interface)),
        }
    }

    /// The value, or the error that ends the guest. `called` is the function's whole name.
    pub(super) fn give(
        self,
        store: &mut StoreContextMut<'_, State>,
        called: &str,
        arguments: &[Val],
    ) -> wasmtime::Result<Option<Val>> {
        let some = |value: Val| Some(Box::new(value));
        Ok(Some(match self {
            Self::Empty => Val::List(Vec::new()),
            Self::Absent => Val::Option(None),
            Self::Handle(number) => handle(store, called, number)?,
            Self::Alarm => {
                store.data_mut().only_at_start(called, NO_CLOCK)?;
                handle(store, called, NOTHING)?
            }
            Self::Room(bytes) => Val::Result(Ok(some(Val::U64(bytes)))),
            Self::Done => Val::Result(Ok(None)),
            Self::Closed => Val::Result(Err(some(Val::Variant("closed".to_owned(), None)))),
            Self::AllReady => match arguments {
                [Val::List(waited_for)] => Val::List((0..).zip(waited_for).map(|(place, _)| Val::U32(place)).collect()),
                _ => return Ok(None),
            },
            Self::Ready => Val::Bool(true),
            Self::Nanoseconds(count) => {
                store.data_mut().only_at_start(called, NO_CLOCK)?;
                Val::U64(count)
            }
            Self::Epoch => {
                store.data_mut().only_at_start(called, NO_CLOCK)?;
                Val::Record(vec![("seconds".to_owned(), Val::U64(0)), ("nanoseconds".to_owned(), Val::U32(0))])
            }
            Self::Random => {
                store.data_mut().only_at_start(called, NO_RANDOMNESS)?;
                Val::U64(store.data_mut().random())
            }
            Self::HashSeed => Val::Tuple(vec![Val::U64(0x5eed), Val::U64(0x5eed)]),
            Self::Exit => {
                return store.data_mut().deny(called, "a plugin does not end itself: reject or skip the event instead");
            }
            Self::NotGranted(advice) => return store.data_mut().deny(called, advice),
        }))
    }
}

/// What a plugin lacks, by interface, and what to do.
fn lacking(interface: &str) -> &'static str {
    let package = interface.split('/').next().unwrap_or(interface);
    match package {
        "wasi:filesystem" => "a plugin has no files: build what it needs into it, or give it in its settings",
        "wasi:sockets" | "wasi:http" | "wasi:tls" => {
            "a plugin has no network: what it needs has to be in the event or in its settings"
        }
        "wasi:clocks" => NO_CLOCK,
        "wasi:random" => NO_RANDOMNESS,
        _ => "a plugin has nothing but its messages, its settings and the log",
    }
}
