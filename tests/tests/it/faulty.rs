//! A store whose connections fail, or stop the world, at chosen operations.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use tidegate::{
    config::Dialect,
    identity::{ConsumerName, Fingerprint, MessageId},
    merge::{Cell, TableInfo, TableName, Target, TypedChange},
    record::TopicPartition,
    store::{
        ChainFault, ChainMove, Connection, ConsumerChains, ConsumerRow, ConsumerState, ConsumerStatus, KeyChange,
        KeySample, KeyState, LedgerRow, Link, Notes, Pending, Registration, RowKey, SchemaState, SeekNote, Statement,
        Store, StoreError, StoredLink, TargetDuplicates, TargetTotal, Tip, Written,
    },
};
use tokio::sync::Notify;
use uuid::Uuid;

/// What happens at an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process dies before it reaches the database.
    CrashBefore,
    /// The process dies before it hears the database's answer.
    CrashAfter,
    /// The connection breaks before the database hears of it.
    LoseBefore,
    /// The connection breaks before the answer comes.
    LoseAfter,
}

/// The faults of one life, by the number of the operation.
pub(crate) struct Faults {
    pub(crate) at: BTreeMap<usize, Fault>,
    pub(crate) count: AtomicUsize,
    pub(crate) crashed: Notify,
}

impl Faults {
    fn next(&self) -> Option<Fault> {
        self.at.get(&self.count.fetch_add(1, Ordering::SeqCst)).copied()
    }

    /// Says that the process is dead, and never goes on.
    async fn crash<T>(&self) -> T {
        self.crashed.notify_one();
        std::future::pending().await
    }
}

fn lost() -> StoreError {
    StoreError { connection_lost: true, ..StoreError::transient(Statement::Connect, "test", "the connection broke") }
}

pub(crate) struct FaultyStore {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) faults: Arc<Faults>,
}

struct FaultyConnection {
    inner: Box<dyn Connection>,
    faults: Arc<Faults>,
    broken: bool,
}

/// One operation under its fault.
macro_rules! under {
    ($self:ident, $operation:expr) => {{
        if $self.broken {
            return Err(lost());
        }
        match $self.faults.next() {
            None => $operation.await,
            Some(Fault::CrashBefore) => $self.faults.crash().await,
            Some(Fault::LoseBefore) => {
                $self.broken = true;
                Err(lost())
            }
            Some(Fault::CrashAfter) => {
                drop($operation.await);
                $self.faults.crash().await
            }
            Some(Fault::LoseAfter) => {
                drop($operation.await);
                $self.broken = true;
                Err(lost())
            }
        }
    }};
}

#[async_trait]
impl Connection for FaultyConnection {
    async fn begin(&mut self, consumer: &ConsumerName) -> Result<ConsumerState, StoreError> {
        under!(self, self.inner.begin(consumer))
    }
    async fn insert_ledger(&mut self, c: &ConsumerName, rows: &[LedgerRow]) -> Result<Vec<usize>, StoreError> {
        under!(self, self.inner.insert_ledger(c, rows))
    }
    async fn lookup(
        &mut self,
        c: &ConsumerName,
        ids: &[MessageId],
    ) -> Result<HashMap<MessageId, Fingerprint>, StoreError> {
        under!(self, self.inner.lookup(c, ids))
    }
    async fn take_back(&mut self, c: &ConsumerName, ids: &[MessageId]) -> Result<(), StoreError> {
        under!(self, self.inner.take_back(c, ids))
    }
    async fn lock_states(&mut self, target: &Target, keys: &[RowKey]) -> Result<HashMap<RowKey, Cell>, StoreError> {
        under!(self, self.inner.lock_states(target, keys))
    }
    async fn write(&mut self, targets: &[Target], changes: &[&TypedChange]) -> Result<Written, StoreError> {
        under!(self, self.inner.write(targets, changes))
    }
    async fn savepoint(&mut self) -> Result<(), StoreError> {
        under!(self, self.inner.savepoint())
    }
    async fn release(&mut self) -> Result<(), StoreError> {
        under!(self, self.inner.release())
    }
    async fn rollback_to_savepoint(&mut self) -> Result<(), StoreError> {
        under!(self, self.inner.rollback_to_savepoint())
    }
    async fn write_notes(&mut self, c: &ConsumerName, notes: &Notes) -> Result<(), StoreError> {
        under!(self, self.inner.write_notes(c, notes))
    }
    async fn extend_chain(
        &mut self,
        c: &ConsumerName,
        digest: &[u8],
        state: ConsumerState,
        links: &[Link],
    ) -> Result<usize, StoreError> {
        under!(self, self.inner.extend_chain(c, digest, state, links))
    }
    async fn commit(&mut self) -> Result<(), StoreError> {
        under!(self, self.inner.commit())
    }
    async fn rollback(&mut self) -> Result<(), StoreError> {
        under!(self, self.inner.rollback())
    }
    async fn find_checkpoints(&mut self, ids: &[Uuid]) -> Result<HashMap<Uuid, StoredLink>, StoreError> {
        under!(self, self.inner.find_checkpoints(ids))
    }
    async fn tips(
        &mut self,
        c: &ConsumerName,
        partitions: &[Arc<TopicPartition>],
    ) -> Result<Vec<Option<Tip>>, StoreError> {
        under!(self, self.inner.tips(c, partitions))
    }
    async fn topic_ids(&mut self, c: &ConsumerName, cluster: &str, topic: &str) -> Result<Vec<Uuid>, StoreError> {
        under!(self, self.inner.topic_ids(c, cluster, topic))
    }
    async fn move_chain(
        &mut self,
        c: &ConsumerName,
        partition: &Arc<TopicPartition>,
        tip: Option<Tip>,
        to: i64,
    ) -> Result<Option<Tip>, StoreError> {
        under!(self, self.inner.move_chain(c, partition, tip, to))
    }
}

#[async_trait]
impl Store for FaultyStore {
    fn dialect(&self) -> Dialect {
        self.inner.dialect()
    }
    fn place(&self) -> String {
        self.inner.place()
    }
    async fn connect(&self) -> Result<Box<dyn Connection>, StoreError> {
        let inner = self.inner.connect().await?;
        Ok(Box::new(FaultyConnection { inner, faults: Arc::clone(&self.faults), broken: false }))
    }
    async fn schema_state(&self) -> Result<SchemaState, StoreError> {
        self.inner.schema_state().await
    }
    async fn pending(&self) -> Result<Pending, StoreError> {
        self.inner.pending().await
    }
    async fn migrate(&self) -> Result<SchemaState, StoreError> {
        self.inner.migrate().await
    }
    async fn register_consumer(&self, registration: &Registration) -> Result<ConsumerRow, StoreError> {
        self.inner.register_consumer(registration).await
    }
    async fn key_state(&self, consumer: &ConsumerName) -> Result<Option<KeyState>, StoreError> {
        self.inner.key_state(consumer).await
    }
    async fn keep_key_samples(
        &self,
        consumer: &ConsumerName,
        key_version: i32,
        samples: &[(i32, KeySample)],
    ) -> Result<(), StoreError> {
        self.inner.keep_key_samples(consumer, key_version, samples).await
    }
    async fn forget_key_samples(&self, consumer: &ConsumerName) -> Result<(), StoreError> {
        self.inner.forget_key_samples(consumer).await
    }
    async fn accept_key_change(&self, change: &KeyChange) -> Result<Option<i32>, StoreError> {
        self.inner.accept_key_change(change).await
    }
    async fn table_info(&self, table: &TableName) -> Result<TableInfo, StoreError> {
        self.inner.table_info(table).await
    }
    async fn status(&self, consumer: Option<&ConsumerName>) -> Result<Vec<ConsumerStatus>, StoreError> {
        self.inner.status(consumer).await
    }
    async fn chains(&self, consumer: &ConsumerName) -> Result<Option<ConsumerChains>, StoreError> {
        self.inner.chains(consumer).await
    }
    async fn seek(&self, consumer: &ConsumerName, moves: &[ChainMove], note: &SeekNote) -> Result<bool, StoreError> {
        self.inner.seek(consumer, moves, note).await
    }
    async fn chain_faults(&self, consumer: &ConsumerName) -> Result<Vec<ChainFault>, StoreError> {
        self.inner.chain_faults(consumer).await
    }
    async fn target_duplicates(&self, table: &TableName, key: &[String]) -> Result<TargetDuplicates, StoreError> {
        self.inner.target_duplicates(table, key).await
    }
    async fn target_total(&self, table: &TableName, sum: Option<&str>) -> Result<TargetTotal, StoreError> {
        self.inner.target_total(table, sum).await
    }
}
