//! Lines for the host's log. They come with the plugin's and the consumer's name, within a budget of bytes per batch;
//! natively they go to stderr. Never log what is personal, or once per event.

#[cfg(target_arch = "wasm32")]
use crate::bindings::tidegate::plugin::log::{Level, write};

#[cfg(not(target_arch = "wasm32"))]
#[derive(Clone, Copy, Debug)]
enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

#[cfg(not(target_arch = "wasm32"))]
fn write(level: Level, text: &str) {
    eprintln!("{level:?}: {text}");
}

/// For the plugin's author.
pub fn debug(text: impl AsRef<str>) {
    write(Level::Debug, text.as_ref());
}

/// For the operator: all is well.
pub fn info(text: impl AsRef<str>) {
    write(Level::Info, text.as_ref());
}

/// For the operator: look at this some day.
pub fn warn(text: impl AsRef<str>) {
    write(Level::Warn, text.as_ref());
}

/// For the operator: look at this.
pub fn error(text: impl AsRef<str>) {
    write(Level::Error, text.as_ref());
}

/// A sandbox's panic is a bare trap; the host takes the last error line as the reason, so say it there.
#[cfg(target_arch = "wasm32")]
pub(crate) fn say_why_a_panic_ends_the_instance() {
    std::panic::set_hook(Box::new(|panic| error(panic.to_string())));
}
