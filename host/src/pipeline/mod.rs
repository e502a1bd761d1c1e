//! The path of a record, in order: [`Source::fetch`](crate::source::Source::fetch) → the topic's id confirmed →
//! [`evaluate`](crate::plugin::evaluate) on the compute pool → [`Prepared`](crate::store::Prepared) → one transaction by
//! [`Applier::apply`](crate::store::Applier::apply) → [`Receipt`](crate::store::Receipt)s → offset commit.
//!
//! A *lane* walks this path for some partitions, one database connection each: `read` (an OS thread) fetches and
//! computes one batch ahead of `apply` (a task), which commits in order. `starts` says where partitions begin (and
//! `in_time` how long that may take), `retry` how a failed batch is tried again, `consumer` runs all threads of a
//! consumer and ends them in the right order, `database` looks after the database while nothing is written.

mod apply;
mod consumer;
mod database;
mod dead_letters;
mod deathwatch;
mod hearing;
mod in_time;
mod lane;
mod read;
mod retry;
mod rules;
mod samples;
mod shadow;
mod starts;

pub use consumer::{Consumer, Parts};
pub use rules::Rules;
pub use samples::LARGEST_SAMPLE;
pub use shadow::{Difference, Shadow, ShadowReport, ShadowSlot};
