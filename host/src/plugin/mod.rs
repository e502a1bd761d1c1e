//! The sandboxed side: a plugin is pure, sees no position, and is never trusted.
//!
//! A [`Plugin`] is compiled once and shared; an [`Instance`] is fresh for every batch (and every split of one).
//! Two implementations: `wasm` (the product) and `native` (the tests' double). [`evaluate`] turns a batch into verdicts
//! and isolates the record that breaks a plugin; it is the same for both.

pub mod anatomy;
pub mod build;
pub mod cases;
pub mod distribution;
mod error;
mod evaluate;
pub mod examine;
mod instant;
mod message;
pub mod metamorphic;
pub mod native;
mod pool;
pub mod redact;
pub mod scaffold;
mod wasm;

use std::sync::Arc;

pub use error::{Entry, Limit, PluginError};
pub(crate) use evaluate::granted_columns;
#[cfg(test)]
pub(crate) use evaluate::sample as evaluate_sample;
pub use evaluate::{EvaluateContext, Input, evaluate, identities};
pub use message::{Body, Message};
pub use pool::{ComputePool, Pending};
pub use wasm::{Compiler, Runtime, compile_as_child, compile_in_child_processes};

use crate::value::Value;

/// The largest plugin file: an interpreter with its library takes some 20 MB.
const FILE_LIMIT: u64 = 256 << 20;

/// What a plugin says of itself: `describe`'s JSON.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Description {
    /// The plugin's name.
    pub name: String,
    /// The plugin's version.
    #[serde(default)]
    pub version: String,
    /// Raised by the author when keys change on purpose.
    #[serde(default)]
    pub key_version: i32,
    /// The targets that it may write, with the columns of each. Empty = not said.
    #[serde(default)]
    pub targets: std::collections::BTreeMap<String, Vec<String>>,
}

/// What extract-keys says of one message, unchecked.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyResult {
    /// Who it is.
    Identity(RawIdentity),
    /// Not for this consumer.
    Skip(String),
    /// Broken: code and message.
    Reject(String, String),
}

/// An identity before its ids are checked.
#[derive(Clone, Debug, PartialEq)]
pub struct RawIdentity {
    /// See [`crate::identity::Identity`].
    pub message_id: String,
    /// See [`crate::identity::Identity`].
    pub aggregate_id: String,
    /// RFC 3339 or milliseconds.
    pub occurred_at: Option<RawInstant>,
    /// Replaces the payload in the fingerprint.
    pub fingerprint: Option<Vec<u8>>,
}

/// A time as the contract has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawInstant {
    /// RFC 3339.
    Rfc3339(String),
    /// Milliseconds since the epoch.
    UnixMs(i64),
}

/// A message that has an identity, by its place in the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Index in the batch that extract-keys of this instance was given.
    pub index: u32,
    /// Kafka's timestamp.
    pub record_time_ms: Option<i64>,
    /// Stable per message id.
    pub seed: u32,
}

/// What compute answers, unchecked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Computed {
    /// The heads of the rows.
    pub shapes: Vec<Shape>,
    /// One per accepted message.
    pub results: Vec<ComputeResult>,
}

/// The head of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// What to do with the row.
    pub operation: crate::merge::Operation,
    /// The target's name.
    pub target: String,
    /// The columns, in the order of the values.
    pub columns: Vec<String>,
}

/// The plugin's word on one accepted message.
#[derive(Clone, Debug, PartialEq)]
pub enum ComputeResult {
    /// Rows: an index into the shapes, and the values.
    Changes(Vec<(u32, Vec<Value>)>),
    /// Not for this consumer.
    Skip(String),
    /// Broken: code and message.
    Reject(String, String),
}

/// A compiled plugin.
pub trait Plugin: Send + Sync {
    /// SHA-256 of the plugin's file (native: of its name).
    fn digest(&self) -> [u8; 32];
    /// What it says of itself.
    fn description(&self) -> &Description;
    /// The same component under other settings: nothing is read or compiled again, and the limits stay.
    ///
    /// # Errors
    /// Where it refuses them, as one that takes none does.
    fn with_settings(&self, settings: &serde_json::Value) -> Result<Arc<dyn Plugin>, PluginError> {
        let _ = settings;
        let message = "it takes no others than those that it was made with".to_owned();
        Err(PluginError::Settings { plugin: self.description().name.clone(), message })
    }
    /// A fresh, configured instance. Every entry into the guest is budgeted for `events` events.
    ///
    /// # Errors
    /// Where instantiating or configuring fails or breaks a limit.
    fn instance(&self, events: usize) -> Result<Box<dyn Instance>, PluginError>;
    /// The same for many events, that is given up after the CPU time of `patience` events: whoever asks for it tries again
    /// with fewer, so this is no limit, and no verdict.
    ///
    /// # Errors
    /// As [`Plugin::instance`].
    fn impatient(&self, events: usize, patience: usize) -> Result<Box<dyn Instance>, PluginError> {
        let _ = patience;
        self.instance(events)
    }
}

/// Lives for one batch: extract-keys, then compute, once each. After an error it is dropped.
pub trait Instance {
    /// One result per message, in order.
    ///
    /// # Errors
    /// A trap or a limit.
    fn extract_keys(&mut self, batch: &[Message]) -> Result<Vec<KeyResult>, PluginError>;
    /// One result per entry, in order. Never called with an empty list.
    ///
    /// # Errors
    /// A trap or a limit.
    fn compute(&mut self, accepted: &[Accepted]) -> Result<Computed, PluginError>;
}
