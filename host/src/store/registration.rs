//! A consumer's row: which keys its ledger holds, and from when on it remembers.

use super::{Statement, StoreError};
use crate::identity::ConsumerName;

/// What a starting host says of a consumer.
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    /// Its name.
    pub name: ConsumerName,
    /// Its Kafka group.
    pub group: String,
    /// The key version that its plugin was let pass under; a first plugin's own.
    pub key_version: i32,
    /// What its plugin declares of its keys' version. An accepted change may have raised the active one beyond it.
    pub declared: i32,
    /// SHA-256 of its plugin.
    pub plugin_digest: [u8; 32],
    /// Where it begins, for people: `{"start": "earliest"}`. Only the first registration's is kept.
    pub started_from: serde_json::Value,
}

/// What the database has of a consumer after its registration. Group and plugin digest follow the newest registration
/// *of the active key version*; the key version itself never changes by registering.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerRow {
    /// Its name.
    pub name: ConsumerName,
    /// Its Kafka group.
    pub group: String,
    /// The active key version.
    pub key_version: i32,
    /// SHA-256 of the plugin.
    pub plugin_digest: Vec<u8>,
    /// Microseconds since the epoch; `i64::MIN` = nothing was ever cleaned up.
    pub horizon_us: i64,
    /// The number of its advisory lock (SQLite: 0, it has no such lock).
    pub lock_no: i32,
    /// Where it began.
    pub started_from: serde_json::Value,
    /// Microseconds since the epoch.
    pub created_at_us: i64,
}

impl ConsumerRow {
    /// Why a consumer must not run under `key_version`, with the way out; `None` where it may.
    // Invariant 10: one active key version per consumer.
    #[must_use]
    pub fn refusal(&self, key_version: i32) -> Option<String> {
        (self.key_version != key_version).then(|| {
            format!(
                "consumer {} runs under key version {} by now, and was to be started under {key_version}: an operator \
                 has accepted other keys meanwhile; start again, with the plugin that they belong to",
                self.name, self.key_version
            )
        })
    }
}

const READING: &str = "read the consumer's row";

/// A consumer that should have a row and has none. It had one when it started, so the database has lost it: a failover
/// took more back than the consumer's whole life. It is registered again and begins anew, as a start would have it.
pub(super) fn unregistered(statement: Statement, consumer: &ConsumerName) -> StoreError {
    let text = format!(
        "consumer {consumer} is not registered in this database any more; a running host registers it again, else start \
         it there, or check the URL"
    );
    StoreError::transient(statement, READING, text)
}

impl StoreError {
    /// Whether the database has no row of the consumer.
    #[must_use]
    pub fn is_unregistered(&self) -> bool {
        self.context == READING
    }
}
