//! The harness of the integration tests: real services, fixtures with names of their own, a host process that can be
//! killed, and oracles that ask the database what became of every message.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a harness fails a test by panicking, with what it saw")]

pub mod bench;
mod broker;
pub mod builds;
pub mod chaos;
pub mod churn;
mod database;
pub mod doomed;
pub mod fail_points;
pub mod fault;
pub mod faulty;
pub mod fuzz;
pub mod host;
pub mod http;
pub mod intruder;
pub mod mutations;
pub mod oracle;
pub mod payments;
pub mod plugin_command;
mod produce;
pub mod servers;
pub mod services;
pub mod settlement;
mod sql;
mod sqlite;
pub mod wait;
pub mod workload;

pub use broker::{Broker, kafka};
pub use database::{Database, Snapshot, postgres};
pub use produce::{Message, Producer};
pub use sql::Sql;
pub use sqlite::{SqliteFile, sqlite};
