//! A connection that breaks, or takes its process with it: at any of its calls, before or after the call has done its
//! work.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use tidegate::{
    identity::{ConsumerName, Fingerprint, MessageId},
    merge::{Cell, Target, TypedChange},
    record::TopicPartition,
    store::{
        Connection, ConsumerState, LedgerRow, Link, Notes, RowKey, Statement, StoreError, StoredLink, Tip, Written,
    },
};
use uuid::Uuid;

/// When it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// It does not break: its calls are only counted.
    Never,
    /// Before the call of this number (from 0) reaches the database.
    Before(usize),
    /// After the call of this number has done its work: only its answer is lost.
    After(usize),
    /// COMMIT is never sent.
    CommitUnsent,
    /// COMMIT is done, its answer lost.
    CommitUnanswered,
    /// The process ends before the call of this number, as if killed.
    KillBefore(usize),
    /// The process ends after the call of this number has done its work.
    KillAfter(usize),
}

/// Wraps a connection.
pub struct Faulty {
    /// The connection that works.
    pub inner: Box<dyn Connection>,
    when: Break,
    calls: Arc<AtomicUsize>,
}

impl Faulty {
    /// Breaks this connection.
    #[must_use]
    pub fn new(inner: Box<dyn Connection>, when: Break) -> Self {
        Self { inner, when, calls: Arc::default() }
    }

    /// How many calls were begun, for others to watch.
    #[must_use]
    pub fn calls(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.calls)
    }

    fn lost(statement: Statement) -> StoreError {
        let error = StoreError::transient(statement, "talk to the database", "the connection was closed");
        StoreError { connection_lost: true, ..error }
    }

    fn before(&mut self, statement: Statement) -> Result<(), StoreError> {
        let now = self.calls.fetch_add(1, Ordering::SeqCst);
        if self.when == Break::KillBefore(now) {
            std::process::abort();
        }
        let unsent = self.when == Break::CommitUnsent && statement == Statement::Commit;
        if self.when == Break::Before(now) || unsent { Err(Self::lost(statement)) } else { Ok(()) }
    }

    fn after<T>(&mut self, statement: Statement, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        let now = self.calls.load(Ordering::SeqCst) - 1;
        if self.when == Break::KillAfter(now) {
            std::process::abort();
        }
        let unanswered = self.when == Break::CommitUnanswered && statement == Statement::Commit;
        if self.when == Break::After(now) || unanswered { Err(Self::lost(statement)) } else { answer }
    }
}

macro_rules! through {
    ($self:ident, $statement:ident, $call:ident($($argument:expr),*)) => {{
        $self.before(Statement::$statement)?;
        let answer = $self.inner.$call($($argument),*).await;
        $self.after(Statement::$statement, answer)
    }};
}

#[async_trait]
impl Connection for Faulty {
    async fn begin(&mut self, consumer: &ConsumerName) -> Result<ConsumerState, StoreError> {
        through!(self, Begin, begin(consumer))
    }

    async fn insert_ledger(&mut self, consumer: &ConsumerName, rows: &[LedgerRow]) -> Result<Vec<usize>, StoreError> {
        through!(self, Ledger, insert_ledger(consumer, rows))
    }

    async fn lookup(
        &mut self,
        consumer: &ConsumerName,
        ids: &[MessageId],
    ) -> Result<HashMap<MessageId, Fingerprint>, StoreError> {
        through!(self, Ledger, lookup(consumer, ids))
    }

    async fn take_back(&mut self, consumer: &ConsumerName, ids: &[MessageId]) -> Result<(), StoreError> {
        through!(self, Ledger, take_back(consumer, ids))
    }

    async fn lock_states(&mut self, target: &Target, keys: &[RowKey]) -> Result<HashMap<RowKey, Cell>, StoreError> {
        through!(self, Lock, lock_states(target, keys))
    }

    async fn write(&mut self, targets: &[Target], changes: &[&TypedChange]) -> Result<Written, StoreError> {
        through!(self, Write, write(targets, changes))
    }

    async fn savepoint(&mut self) -> Result<(), StoreError> {
        through!(self, Savepoint, savepoint())
    }

    async fn release(&mut self) -> Result<(), StoreError> {
        through!(self, Deferred, release())
    }

    async fn rollback_to_savepoint(&mut self) -> Result<(), StoreError> {
        through!(self, Savepoint, rollback_to_savepoint())
    }

    async fn write_notes(&mut self, consumer: &ConsumerName, notes: &Notes) -> Result<(), StoreError> {
        through!(self, Notes, write_notes(consumer, notes))
    }

    async fn extend_chain(
        &mut self,
        consumer: &ConsumerName,
        plugin_digest: &[u8],
        state: ConsumerState,
        links: &[Link],
    ) -> Result<usize, StoreError> {
        through!(self, Checkpoint, extend_chain(consumer, plugin_digest, state, links))
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        through!(self, Commit, commit())
    }

    async fn rollback(&mut self) -> Result<(), StoreError> {
        through!(self, Rollback, rollback())
    }

    async fn find_checkpoints(&mut self, ids: &[Uuid]) -> Result<HashMap<Uuid, StoredLink>, StoreError> {
        through!(self, Checkpoint, find_checkpoints(ids))
    }

    async fn tips(
        &mut self,
        consumer: &ConsumerName,
        partitions: &[Arc<TopicPartition>],
    ) -> Result<Vec<Option<Tip>>, StoreError> {
        through!(self, Checkpoint, tips(consumer, partitions))
    }

    async fn topic_ids(
        &mut self,
        consumer: &ConsumerName,
        cluster_id: &str,
        topic: &str,
    ) -> Result<Vec<Uuid>, StoreError> {
        through!(self, Checkpoint, topic_ids(consumer, cluster_id, topic))
    }

    async fn move_chain(
        &mut self,
        consumer: &ConsumerName,
        partition: &Arc<TopicPartition>,
        tip: Option<Tip>,
        to: i64,
    ) -> Result<Option<Tip>, StoreError> {
        through!(self, Checkpoint, move_chain(consumer, partition, tip, to))
    }
}
