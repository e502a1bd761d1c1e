//! What a dialect must be able to do: single statements and their answers, no decisions.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use uuid::Uuid;

use super::StoreError;
use crate::{
    identity::{AggregateId, ConsumerName, Fingerprint, MessageId},
    merge::{Cell, Target, TypedChange},
    outcome::{Counts, Rejection},
    record::{Header, TopicPartition},
};

/// A consumer's row, as the transaction sees it *after* it holds the consumer's shared lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerState {
    /// Invariant 10: a batch computed under another version must not commit.
    pub key_version: i32,
    /// Microseconds since the epoch; `i64::MIN` = nothing was ever cleaned up.
    pub horizon_us: i64,
    /// Whether any dead letter is open, so that superseding is worth a statement.
    pub open_dead_letters: bool,
}

/// A ledger row to insert. Ids are unique within one call.
#[derive(Clone, Debug)]
pub struct LedgerRow {
    /// The key.
    pub message_id: MessageId,
    /// The business object.
    pub aggregate_id: AggregateId,
    /// Tracing only.
    pub partition: Arc<TopicPartition>,
    /// Tracing only.
    pub offset: i64,
    /// For payload conflicts.
    pub fingerprint: Fingerprint,
}

/// A duplicate, by its position.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The id that was there already.
    pub message_id: MessageId,
    /// Where this copy stood: `topic:partition:offset`.
    pub position: String,
}

/// The same id with another payload (R1.4).
#[derive(Clone, Debug)]
pub struct Conflict {
    /// The id.
    pub message_id: MessageId,
    /// Of the payload that was not applied.
    pub fingerprint: Fingerprint,
    /// Where it stood.
    pub position: String,
    /// The payload itself.
    pub payload: Option<bytes::Bytes>,
}

/// An input that could not be applied.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// Where known.
    pub message_id: Option<MessageId>,
    /// Where it stood.
    pub partition: Arc<TopicPartition>,
    /// Where it stood.
    pub offset: i64,
    /// Why.
    pub rejection: Rejection,
    /// The raw input, to be replayed.
    pub key: Option<bytes::Bytes>,
    /// The raw input, to be replayed.
    pub payload: Option<bytes::Bytes>,
    /// The raw input, to be replayed.
    pub headers: Vec<Header>,
}

/// Everything that is only written where there is any of it.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// Duplicates, at most one per (id, position).
    pub attempts: Vec<Attempt>,
    /// Payload conflicts, at most one per (id, fingerprint).
    pub conflicts: Vec<Conflict>,
    /// Dead letters of this batch.
    pub dead_letters: Vec<DeadLetter>,
    /// Ids now applied, each with the checkpoint that supersedes its open dead letters (`resolved_by`).
    pub superseded: Vec<(MessageId, Uuid)>,
}

impl Notes {
    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.attempts.is_empty()
            && self.conflicts.is_empty()
            && self.dead_letters.is_empty()
            && self.superseded.is_empty()
    }
}

/// The next link of a partition's checkpoint chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// UUIDv7; the same on every retry of the same batch, so that an ambiguous commit can be looked up.
    pub id: Uuid,
    /// The tip that it extends.
    pub prev: Uuid,
    /// Whose chain.
    pub partition: Arc<TopicPartition>,
    /// The tip's next offset.
    pub first_offset: i64,
    /// The first offset not covered.
    pub next_offset: i64,
    /// Invariant 5.
    pub counts: Counts,
}

/// The newest link of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    /// Its id.
    pub id: Uuid,
    /// 0 = genesis.
    pub seq: i64,
    /// Where the chain goes on.
    pub next_offset: i64,
}

/// A link found by its id, with what an ambiguous commit needs to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredLink {
    /// Its place in its chain.
    pub seq: i64,
    /// The first offset not covered.
    pub next_offset: i64,
    /// As committed.
    pub counts: Counts,
}

/// What writing a set of changes came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Changes that a `newer_by` guard refused: the row is newer.
    pub stale: u64,
    /// Updates and deletes that met no row.
    pub missing: u64,
}

/// The key of a row, as cells in key order.
pub type RowKey = Vec<Cell>;

/// One database connection, owned by one lane. Any error leaves an open transaction fit only for `rollback`; an error
/// with [`StoreError::connection_lost`] leaves the connection fit only for dropping.
#[async_trait]
pub trait Connection: Send {
    /// Begins with all session settings, takes the consumer's shared lock, then reads its row in a statement of its own.
    /// SQLite: `BEGIN IMMEDIATE`.
    async fn begin(&mut self, consumer: &ConsumerName) -> Result<ConsumerState, StoreError>;
    /// Inserts what is not there and says which rows it inserted: their places in `rows`, ascending. Rows come sorted by
    /// id (locks in one order).
    async fn insert_ledger(&mut self, consumer: &ConsumerName, rows: &[LedgerRow]) -> Result<Vec<usize>, StoreError>;
    /// Which of these ids the ledger has, with their fingerprints. A statement of its own after the insert.
    async fn lookup(
        &mut self,
        consumer: &ConsumerName,
        ids: &[MessageId],
    ) -> Result<HashMap<MessageId, Fingerprint>, StoreError>;
    /// Takes ledger rows of this transaction back (poison, refused transition).
    async fn take_back(&mut self, consumer: &ConsumerName, ids: &[MessageId]) -> Result<(), StoreError>;
    /// Locks the rows of these keys in one order and reads the state column of a target with a transition guard.
    /// Keys without a row are absent from the answer.
    async fn lock_states(&mut self, target: &Target, keys: &[RowKey]) -> Result<HashMap<RowKey, Cell>, StoreError>;
    /// Writes changes, which stand in record order; several of one key apply in that order (Invariant 9). Changes of
    /// targets with a transition guard were decided before, over the rows that `lock_states` read in this transaction;
    /// a row that was absent then and is there now is a transient error (the same batch again).
    async fn write(&mut self, targets: &[Target], changes: &[&TypedChange]) -> Result<Written, StoreError>;
    /// Opens a savepoint.
    async fn savepoint(&mut self) -> Result<(), StoreError>;
    /// Checks what is deferred (an error there is of [`super::Statement::Deferred`]), then releases the newest savepoint.
    async fn release(&mut self) -> Result<(), StoreError>;
    /// Undoes to the newest savepoint and forgets it. The transaction is fit for use again.
    async fn rollback_to_savepoint(&mut self) -> Result<(), StoreError>;
    /// Writes attempts, conflicts, dead letters and superseding.
    async fn write_notes(&mut self, consumer: &ConsumerName, notes: &Notes) -> Result<(), StoreError>;
    /// Checks what is deferred (an error there is of [`super::Statement::Deferred`]), then inserts the links, each only
    /// where its tip, the key version and the horizon are what they were. Says how many it inserted; fewer than asked =
    /// fenced.
    async fn extend_chain(
        &mut self,
        consumer: &ConsumerName,
        plugin_digest: &[u8],
        state: ConsumerState,
        links: &[Link],
    ) -> Result<usize, StoreError>;
    /// Commits. An error with [`StoreError::connection_lost`] says nothing about the outcome; any other means rolled back
    /// (also where the server answers ROLLBACK to a COMMIT).
    async fn commit(&mut self) -> Result<(), StoreError>;
    /// Rolls back.
    async fn rollback(&mut self) -> Result<(), StoreError>;

    /// Which of these checkpoints are there, outside of any transaction.
    async fn find_checkpoints(&mut self, ids: &[Uuid]) -> Result<HashMap<Uuid, StoredLink>, StoreError>;
    /// The tips of these partitions' chains, in their order; `None` = no genesis yet.
    async fn tips(
        &mut self,
        consumer: &ConsumerName,
        partitions: &[Arc<TopicPartition>],
    ) -> Result<Vec<Option<Tip>>, StoreError>;
    /// The ids of the topics of this name that the consumer has chains of. More than one, or another one than the
    /// broker's: the topic was deleted and made again.
    async fn topic_ids(
        &mut self,
        consumer: &ConsumerName,
        cluster_id: &str,
        topic: &str,
    ) -> Result<Vec<Uuid>, StoreError>;
    /// Inserts a zero-count `move` link from `tip` to `to` (or the genesis where `tip` is `None`) in a transaction of
    /// its own. `None` = somebody else extended that tip first; read the tips again.
    async fn move_chain(
        &mut self,
        consumer: &ConsumerName,
        partition: &Arc<TopicPartition>,
        tip: Option<Tip>,
        to: i64,
    ) -> Result<Option<Tip>, StoreError>;
}
