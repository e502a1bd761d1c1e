//! Configuration: the raw TOML form turns into the validated one in one place; nothing else reads configuration files
//! or environment variables. All mistakes are reported at once, each with its place and the way out.

mod consumer;
mod cross;
mod database;
mod diagnostic;
mod document;
mod excerpt;
mod guard;
mod health;
mod http;
mod include;
mod interpolate;
mod kafka;
mod kafka_keys;
mod kafka_membership;
mod kafka_security;
mod linked;
mod plugin;
mod quantity;
mod root;
mod schema;
mod secret;
mod secret_file;
mod section;
mod suggest;
mod target;
#[cfg(test)]
mod tests;
mod timeouts;
mod valid;

use std::path::Path;

pub use diagnostic::{ConfigError, Diagnostic, Excerpt, Severity};
pub use health::HealthBounds;
pub use kafka_membership::{REFRESH, REFRESH_MS};
pub use quantity::{duration as parse_duration, show_duration};
pub use timeouts::Timeouts;
pub use valid::*;

pub use crate::file_stamp::Files;

/// A configuration with what should be looked at, though it runs.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Warnings, in the order of the files.
    pub warnings: Vec<Diagnostic>,
}

/// Reads a configuration file and all that it includes, with the process's environment.
///
/// # Errors
/// Every mistake at once.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    load_with_warnings(path).map(|loaded| loaded.config)
}

/// As [`load`], with the warnings.
///
/// # Errors
/// Every mistake at once.
pub fn load_with_warnings(path: &Path) -> Result<Loaded, ConfigError> {
    load_with_files(path).1
}

/// As [`load_with_warnings`], with every file that was read or looked for, whatever came of it: a mistake is put right in
/// one of them.
pub fn load_with_files(path: &Path) -> (Files, Result<Loaded, ConfigError>) {
    let environment = |name: &str| std::env::var(name).ok();
    let mut reading = document::Reading::new(&environment);
    reading.make_paths_absolute();
    let table = reading.read(path);
    let read = root::read(&reading, &table);
    let mut files = reading.files();
    let loaded = read.map(|mut loaded| {
        loaded.config.file = std::path::absolute(path).ok();
        files.add_all(&loaded.config.files);
        loaded.config.files.clone_from(&files);
        loaded
    });
    (files, loaded)
}

/// As [`load_with_warnings`], with the text and the environment given. `path` names the text in messages, and its
/// folder is where relative paths start.
///
/// # Errors
/// Every mistake at once.
pub fn parse(text: &str, path: &Path, environment: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, ConfigError> {
    let mut reading = document::Reading::new(environment);
    let table = reading.read_text(path, text.to_owned());
    root::read(&reading, &table)
}
