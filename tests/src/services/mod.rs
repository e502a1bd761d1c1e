//! Real services for the tests: a private PostgreSQL cluster and an Apache Kafka broker, both on random loopback ports,
//! both gone when their owner is gone, however it went.
//!
//! `make test` and `make services` start one of each by the binary `with-services`; a test that must stop its server
//! starts a [`Postgres`] of its own.

mod folder;
mod guard;
mod kafka;
mod postgres;
mod process;
mod registry;

pub use folder::{Folder, checkout};
pub use guard::{DeadMan, signal};
pub use kafka::{Guarded, Kafka};
pub use postgres::{Durability, Postgres, Shape};
pub use process::free_port;
pub use registry::{LOGIN, PASSWORD, Registry, USER};

/// Why a service is not there. The text ends with what to do.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// A program is missing.
    #[error("{program} is not installed: {advice}")]
    Missing {
        /// What was looked for.
        program: &'static str,
        /// How to get it.
        advice: &'static str,
    },
    /// A program could not be run or ended with an error.
    #[error("{what} failed: {detail}")]
    Failed {
        /// The step.
        what: String,
        /// What was seen, with the log's place.
        detail: String,
    },
    /// A file or folder.
    #[error("{what}: {source}")]
    Io {
        /// The step.
        what: String,
        /// The cause.
        source: std::io::Error,
    },
}

impl ServiceError {
    fn failed(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), detail: detail.into() }
    }

    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
