//! tidegate: the consumer between Kafka and your database when a message must count once.
//!
//! The path of a record: `source` → [`plugin`] → [`store`] (one transaction) → receipt → offset commit, driven by
//! `pipeline`. ARCHITECTURE.md has the layout, the glossary and the invariants cited in comments.

pub mod app;
mod atomic_file;
pub mod check;
pub mod class;
pub mod cli;
pub mod config;
pub mod demo;
pub mod fail_point;
mod file_stamp;
pub mod health;
pub mod http;
pub mod identity;
mod instant;
pub mod key_gate;
pub mod merge;
pub mod metrics;
mod outage;
pub mod outcome;
mod panics;
pub mod pipeline;
pub mod plugin;
pub mod record;
mod regular_file;
pub mod seek;
pub mod source;
pub mod store;
pub mod value;
