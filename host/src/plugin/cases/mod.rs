//! Golden cases: an input, and what a plugin shall say of it, in files that people read and write.
//!
//! One case per file of a folder, `cases/` beside the plugin's source; the file's name is the case's. A file is TOML:
//!
//! ```toml
//! # A capture is a settlement.
//! body = '{"event_id":"evt-1","payment_id":"p-1","order_id":"o-1","amount":10.10,"at":"2026-03-01T12:00:00Z"}'
//!
//! [identity]
//! message_id = "evt-1"
//! aggregate_id = "o-1"
//! occurred_at = 2026-03-01T12:00:00Z
//!
//! [[change]]
//! upsert = "settlements"
//! row.payment_id = "p-1"
//! row.amount = { decimal = "10.10" }
//! row.created_at = 2026-03-01T12:00:00Z
//! ```
//!
//! The input: `body` (or `body_base64`, or `tombstone = true`), and where they matter `key` (`key_base64`), `headers`,
//! `source` ("default" unless said otherwise), `record_time`, `payload` ("text" or "binary"), `settings`. The answer:
//! `[identity]`, `[[change]]` in the plugin's order, or `[skip]` or `[reject]`. Strings are text, and what TOML has no word
//! for is said in a table of one: `{ decimal = "10.10" }`, `{ json = "{}" }`, `{ base64 = "…" }`, `{ null = true }`,
//! `{ timestamp_us = -1 }`. Everything is compared exactly, kind and digits; only a skip's `reason` and a rejection's
//! `message`, which are for people, are compared where the case has them.
//!
//! [`run_folder`] is what the command line and the gate before a reload use: the same [`evaluate`](super::evaluate) as on
//! the path of a record, each case alone in a fresh instance, twice, and all of them in one batch, in reverse.

mod compare;
mod folder;
mod grants;
mod input;
mod parse;
mod render;
mod run;
mod value;

use bytes::Bytes;
pub use compare::Difference;
pub use folder::{CasesError, beside, read_folder, update};
pub use parse::parse;
pub use render::{operation_word, render_answer, render_input};
pub use run::{CaseReport, Finding, Report, run, run_folder};
pub use value::{show as render_value, show_json as render_value_json};

use crate::{config::Payload, merge::Operation, record::Header, value::Value};

/// An input and the answer that it shall get.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The file's name without its ending.
    pub name: String,
    /// What the plugin is configured with.
    pub settings: serde_json::Value,
    /// What the plugin is asked.
    pub input: Input,
    /// What it shall answer; `None` where nobody has said it yet.
    pub expected: Option<Answer>,
}

/// What comes from Kafka, less where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// The alias of the topic.
    pub source: String,
    /// How the plugin gets the body.
    pub payload: Payload,
    /// The record's key.
    pub key: Option<Bytes>,
    /// The record's value; `None` is a tombstone, which the plugin is asked about.
    pub body: Option<Bytes>,
    /// The record's headers.
    pub headers: Vec<Header>,
    /// Kafka's timestamp, milliseconds since the epoch.
    pub record_time_ms: Option<i64>,
}

/// What a plugin says of an input, after the host's checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Who the input is, where that is known.
    pub identity: Option<Who>,
    /// What becomes of it.
    pub says: Says,
}

/// An identity as cases have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The key in the ledger.
    pub message_id: String,
    /// The business object.
    pub aggregate_id: String,
    /// When the event happened, microseconds since the epoch.
    pub occurred_at_us: Option<i64>,
    /// The fingerprint, where it is of something else than the payload.
    pub fingerprint: Option<[u8; 16]>,
}

/// A verdict as cases have it.
#[derive(Clone, Debug, PartialEq)]
pub enum Says {
    /// These changes, in this order; none is fine.
    Apply(Vec<RowChange>),
    /// Not for this consumer; the plugin's words, where they are to be compared.
    Skip(Option<String>),
    /// Broken: the code, and the words where they are to be compared.
    Reject(String, Option<String>),
}

/// A change by the names of target and columns.
#[derive(Clone, Debug, PartialEq)]
pub struct RowChange {
    /// What to do with the row.
    pub operation: Operation,
    /// The target's name.
    pub target: String,
    /// Column and value. The order says nothing.
    pub row: Vec<(String, Value)>,
}

#[cfg(test)]
mod tests;
