//! PostgreSQL, and what speaks its protocol.
//!
//! A lane owns its connection; there is no pool. One value array per column, statements prepared once per connection,
//! a transaction's settings in one message with its BEGIN.

mod array;
mod catalog;
mod chain;
mod fault;
mod fold;
mod instant;
mod keys;
mod lane;
mod ledger;
mod notes;
mod report;
mod rights;
mod schema;
mod seek;
mod session;
mod sql;
mod texts;
mod unchanged;
mod write;

use std::{collections::HashMap, fmt, sync::Arc};

use async_trait::async_trait;
use sqlx::postgres::PgConnectOptions;
use uuid::Uuid;

use self::lane::Lane;
pub use self::session::Timeouts;
use super::{
    ChainFault, ChainMove, Connection, ConsumerChains, ConsumerRow, ConsumerState, ConsumerStatus, KeyChange,
    KeySample, KeyState, LedgerRow, Link, Notes, Pending, Registration, RowKey, SchemaState, SeekNote, Statement,
    Store, StoreError, StoredLink, TargetDuplicates, TargetTotal, Tip, Written, registration::unregistered,
};
use crate::{
    config::{Database, Dialect},
    identity::{ConsumerName, Fingerprint, MessageId},
    merge::{Cell, TableInfo, TableName, Target, TypedChange},
    record::TopicPartition,
};

/// A database.
pub struct PostgresStore {
    options: PgConnectOptions,
    timeouts: Timeouts,
}

impl fmt::Debug for PostgresStore {
    /// The driver's own form of the options has the password in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("place", &session::place(&self.options)).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Reads the URL; nothing is connected yet.
    ///
    /// # Errors
    /// Where the URL is not understood.
    pub fn open(database: &Database, timeouts: Timeouts) -> Result<Self, StoreError> {
        Ok(Self { options: session::connect_options(database.url.expose(), &timeouts)?, timeouts })
    }

    async fn lane(&self) -> Result<Lane, StoreError> {
        Lane::connect(&self.options, &self.place(), self.timeouts).await
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn place(&self) -> String {
        session::place(&self.options)
    }

    async fn connect(&self) -> Result<Box<dyn Connection>, StoreError> {
        Ok(Box::new(self.lane().await?))
    }

    async fn schema_state(&self) -> Result<SchemaState, StoreError> {
        self.lane().await?.schema_state().await
    }

    async fn pending(&self) -> Result<Pending, StoreError> {
        self.lane().await?.pending().await
    }

    async fn migrate(&self) -> Result<SchemaState, StoreError> {
        self.lane().await?.migrate().await?;
        // Asked anew: statements prepared before may still mean a table further down the search path.
        self.schema_state().await
    }

    async fn register_consumer(&self, registration: &Registration) -> Result<ConsumerRow, StoreError> {
        let mut lane = self.lane().await?;
        lane.note_declared(registration).await?;
        // One statement: the first registration makes the row, a later one of the same key version updates it.
        let query = sqlx::query(
            "INSERT INTO consumers AS c (consumer_name, key_version, plugin_digest, group_id, started_from) \
             VALUES ($1, $2, $3, $4, $5::text::jsonb) ON CONFLICT (consumer_name) DO UPDATE \
             SET plugin_digest = excluded.plugin_digest, group_id = excluded.group_id \
             WHERE c.key_version = excluded.key_version \
             AND (c.plugin_digest, c.group_id) IS DISTINCT FROM (excluded.plugin_digest, excluded.group_id)",
        )
        .bind(registration.name.as_str())
        .bind(registration.key_version)
        .bind(registration.plugin_digest.as_slice())
        .bind(&registration.group)
        .bind(registration.started_from.to_string());
        lane.run(Statement::Register, "register the consumer", query).await?;
        let rows = lane.consumers(Some(&registration.name)).await?;
        rows.into_iter().next().ok_or_else(|| unregistered(Statement::Register, &registration.name))
    }

    async fn key_state(&self, consumer: &ConsumerName) -> Result<Option<KeyState>, StoreError> {
        self.lane().await?.key_state(consumer).await
    }

    async fn keep_key_samples(
        &self,
        consumer: &ConsumerName,
        key_version: i32,
        samples: &[(i32, KeySample)],
    ) -> Result<(), StoreError> {
        self.lane().await?.keep_key_samples(consumer, key_version, samples).await
    }

    async fn forget_key_samples(&self, consumer: &ConsumerName) -> Result<(), StoreError> {
        self.lane().await?.forget_key_samples(consumer).await
    }

    async fn accept_key_change(&self, change: &KeyChange) -> Result<Option<i32>, StoreError> {
        self.lane().await?.accept_key_change(change).await
    }

    async fn table_info(&self, table: &TableName) -> Result<TableInfo, StoreError> {
        self.lane().await?.table_info(table).await
    }

    async fn missing_grants(&self, targets: &[Target]) -> Result<Vec<String>, StoreError> {
        self.lane().await?.missing_grants(targets).await
    }

    async fn status(&self, consumer: Option<&ConsumerName>) -> Result<Vec<ConsumerStatus>, StoreError> {
        self.lane().await?.status(consumer).await
    }

    async fn chains(&self, consumer: &ConsumerName) -> Result<Option<ConsumerChains>, StoreError> {
        self.lane().await?.chains(consumer).await
    }

    async fn seek(&self, consumer: &ConsumerName, moves: &[ChainMove], note: &SeekNote) -> Result<bool, StoreError> {
        self.lane().await?.seek(consumer, moves, note).await
    }

    async fn chain_faults(&self, consumer: &ConsumerName) -> Result<Vec<ChainFault>, StoreError> {
        self.lane().await?.chain_faults(consumer).await
    }

    async fn target_duplicates(&self, table: &TableName, key: &[String]) -> Result<TargetDuplicates, StoreError> {
        self.lane().await?.target_duplicates(table, key).await
    }

    async fn target_total(&self, table: &TableName, sum: Option<&str>) -> Result<TargetTotal, StoreError> {
        self.lane().await?.target_total(table, sum).await
    }
}

#[async_trait]
impl Connection for Lane {
    async fn begin(&mut self, consumer: &ConsumerName) -> Result<ConsumerState, StoreError> {
        self.begin(consumer).await
    }

    async fn insert_ledger(&mut self, consumer: &ConsumerName, rows: &[LedgerRow]) -> Result<Vec<usize>, StoreError> {
        self.insert_ledger(consumer, rows).await
    }

    async fn lookup(
        &mut self,
        consumer: &ConsumerName,
        ids: &[MessageId],
    ) -> Result<HashMap<MessageId, Fingerprint>, StoreError> {
        self.lookup(consumer, ids).await
    }

    async fn take_back(&mut self, consumer: &ConsumerName, ids: &[MessageId]) -> Result<(), StoreError> {
        self.take_back(consumer, ids).await
    }

    async fn lock_states(&mut self, target: &Target, keys: &[RowKey]) -> Result<HashMap<RowKey, Cell>, StoreError> {
        self.lock_states(target, keys).await
    }

    async fn write(&mut self, targets: &[Target], changes: &[&TypedChange]) -> Result<Written, StoreError> {
        self.write(targets, changes).await
    }

    async fn savepoint(&mut self) -> Result<(), StoreError> {
        self.savepoint().await
    }

    async fn release(&mut self) -> Result<(), StoreError> {
        self.release().await
    }

    async fn rollback_to_savepoint(&mut self) -> Result<(), StoreError> {
        self.rollback_to_savepoint().await
    }

    async fn write_notes(&mut self, consumer: &ConsumerName, notes: &Notes) -> Result<(), StoreError> {
        self.write_notes(consumer, notes).await
    }

    async fn extend_chain(
        &mut self,
        consumer: &ConsumerName,
        plugin_digest: &[u8],
        state: ConsumerState,
        links: &[Link],
    ) -> Result<usize, StoreError> {
        self.extend_chain(consumer, plugin_digest, state, links).await
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        self.commit().await
    }

    async fn rollback(&mut self) -> Result<(), StoreError> {
        self.rollback().await
    }

    async fn find_checkpoints(&mut self, ids: &[Uuid]) -> Result<HashMap<Uuid, StoredLink>, StoreError> {
        self.find_checkpoints(ids).await
    }

    async fn tips(
        &mut self,
        consumer: &ConsumerName,
        partitions: &[Arc<TopicPartition>],
    ) -> Result<Vec<Option<Tip>>, StoreError> {
        self.tips(consumer, partitions).await
    }

    async fn topic_ids(
        &mut self,
        consumer: &ConsumerName,
        cluster_id: &str,
        topic: &str,
    ) -> Result<Vec<Uuid>, StoreError> {
        self.topic_ids(consumer, cluster_id, topic).await
    }

    async fn move_chain(
        &mut self,
        consumer: &ConsumerName,
        partition: &Arc<TopicPartition>,
        tip: Option<Tip>,
        to: i64,
    ) -> Result<Option<Tip>, StoreError> {
        self.move_chain(consumer, partition, tip, to).await
    }
}
