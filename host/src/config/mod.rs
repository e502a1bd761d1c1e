//! Configuration: the raw TOML form turns into this validated one in one place; nothing else reads files or
//! environment variables.

mod valid;

pub use valid::*;
