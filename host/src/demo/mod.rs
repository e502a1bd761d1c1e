//! `tidegate demo`: real records travel from a Kafka broker through two WASM plugins into a database, a part of them
//! twice; then everything that was promised is held against what the producer knows.
//!
//! One run is: a folder → a broker ([`broker`]) → a database ([`database`]) → the host, started from a configuration
//! file as anybody would ([`configuration`]) → the producer ([`producer`], telling a [`story`]) while the [`watch`]
//! follows the checkpoints → [`measure`] → [`proof`] → [`summary`] or JSON.

mod broker;
mod configuration;
mod database;
mod error;
mod event;
mod folder;
mod host;
mod interrupt;
mod logs;
mod measure;
mod options;
mod oracle;
mod pace;
mod producer;
mod progress;
mod proof;
mod random;
mod rate;
mod report;
mod run;
mod service;
mod stage;
mod stall;
mod story;
mod summary;
mod watch;

use std::io::IsTerminal;

pub use options::Options;

/// Runs the demo to its end and says how it went: 0 = every proof holds, 1 = one does not, or the host failed; 2 = the
/// options; 3 = broker, database or files; 130 = interrupted.
#[must_use]
pub fn run(options: &Options) -> u8 {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("tidegate demo: cannot start the runtime: {error}");
            return 3;
        }
    };
    let watched = !options.json && std::io::stderr().is_terminal();
    let code = runtime.block_on(run::run(options, watched)).unwrap_or_else(|error| {
        eprintln!("tidegate demo: {error}");
        error.exit_code()
    });
    // A producer that waits for a broker that is gone must not hold the process.
    runtime.shutdown_background();
    code
}
