//! What the database remembers of a consumer's keys: samples of inputs with the identity they gave, and which changes of
//! the keys an operator has accepted.

use bytes::Bytes;

use super::ConsumerRow;
use crate::{
    identity::{AggregateId, ConsumerName, MessageId},
    record::Header,
};

/// The most samples that a consumer has: a sample's number is below this.
pub const KEY_SAMPLES: i32 = 256;

/// Who `key_changes` says has made a change that only repeats what a lost one said.
pub(super) const REGISTERED_AGAIN: &str = "registered again after the database had lost the consumer";

/// A raw input and who the plugin said that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySample {
    /// The alias that the plugin was told.
    pub source: String,
    /// The record's key.
    pub key: Option<Bytes>,
    /// The record's value.
    pub payload: Option<Bytes>,
    /// The record's headers.
    pub headers: Vec<Header>,
    /// What extract-keys said.
    pub message_id: MessageId,
    /// What extract-keys said.
    pub aggregate_id: AggregateId,
}

/// What a plugin's keys are held against before it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyState {
    /// The consumer's row, with the active key version.
    pub row: ConsumerRow,
    /// What a plugin of the active key version says of its own.
    pub declared: i32,
    /// Samples taken under the active key version.
    pub samples: Vec<KeySample>,
    /// SHA-256 of plugins that an accepted change has replaced, and no later one has brought back.
    pub replaced: Vec<Vec<u8>>,
}

impl KeyState {
    /// `changes`: each accepted change in its order, with what the plugin says of its own version, the digest of the plugin
    /// that it replaced, and the new one's.
    pub(super) fn new(
        row: ConsumerRow,
        samples: Vec<KeySample>,
        changes: impl IntoIterator<Item = (i32, Vec<u8>, Vec<u8>)>,
    ) -> Self {
        let (mut declared, mut replaced) = (row.key_version, Vec::new());
        for (says, from, to) in changes {
            declared = says;
            replaced.push(from);
            replaced.retain(|digest| *digest != to);
        }
        Self { row, declared, samples, replaced }
    }
}

/// A change of keys that an operator accepts.
#[derive(Clone, Debug)]
pub struct KeyChange {
    /// Whose.
    pub consumer: ConsumerName,
    /// The version that it was decided on.
    pub from_version: i32,
    /// What the new plugin says of its own.
    pub declared: i32,
    /// SHA-256 of the new plugin.
    pub plugin_digest: [u8; 32],
    /// The samples with the identities that the new plugin gives them.
    pub samples: Vec<KeySample>,
    /// How many samples were held against it.
    pub compared: usize,
    /// How many of them it gives other keys.
    pub changed: usize,
    /// Who accepts it.
    pub by: String,
}

impl KeyChange {
    /// The key version from then on: greater than any before, and the plugin's own where that is greater still.
    #[must_use]
    pub fn version(&self) -> i32 {
        self.from_version.saturating_add(1).max(self.declared)
    }
}
