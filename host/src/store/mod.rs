//! The database side: one transaction per batch holds ledger, target rows, dead letters and checkpoint (Invariant 2).
//!
//! [`Applier`] is the logic, written once: outcomes, careful mode, the breaker, the ambiguous commit. It drives a
//! [`Connection`], of which there are two; a dialect holds only its SQL and its types. One conformance suite runs on both.

mod applied;
mod applier;
mod breaker;
mod connection;
mod error;
pub mod headers;
mod keys;
mod ledger;
mod plan;
pub mod postgres;
mod prepared;
mod receipt;
mod registration;
mod report;
mod schema;
#[cfg(test)]
mod scripted;
mod settle;
mod sqlite;
mod sqlstate;
mod write;

use std::sync::Arc;

pub use applied::{Applied, ApplyError, BatchReport, FirstDead, Tips};
pub use applier::{Applier, Policy};
use async_trait::async_trait;
use breaker::Breaker;
pub use breaker::{Refusals, Tripped};
pub use connection::*;
pub use error::{Statement, StoreError};
use headers::{headers_from_json, headers_to_json};
use keys::REGISTERED_AGAIN;
pub use keys::{KEY_SAMPLES, KeyChange, KeySample, KeyState};
pub use prepared::{PrepareContext, Prepared};
pub use receipt::{Receipt, Standing, standings};
pub use registration::{ConsumerRow, Registration};
pub use report::*;
pub use schema::{MIGRATIONS_TABLE, Pending, SchemaState};
pub use settle::TOO_OLD;
pub use write::REFUSED_BY_DATABASE;

use crate::{
    config::{Database, Dialect},
    identity::ConsumerName,
    merge::{TableInfo, TableName, Target},
};

/// A database that holds ledgers and targets. Cheap to share; every lane has a connection of its own.
#[async_trait]
pub trait Store: Send + Sync {
    /// Which dialect it speaks.
    fn dialect(&self) -> Dialect;
    /// Where it is, for people, without secrets: `127.0.0.1:5432/shop`.
    fn place(&self) -> String;
    /// A connection for one lane.
    ///
    /// # Errors
    /// Where the database cannot be reached (transient) or refuses us (fatal).
    async fn connect(&self) -> Result<Box<dyn Connection>, StoreError>;
    /// Whether the schema is what this binary needs. Creates nothing. Ask [`SchemaState::refusal`] before any work.
    async fn schema_state(&self) -> Result<SchemaState, StoreError>;
    /// What [`Self::migrate`] would create, and which of the names are taken. Changes nothing.
    async fn pending(&self) -> Result<Pending, StoreError>;
    /// Brings the schema to this binary's version; several hosts at once do it once. Answers the state afterwards.
    async fn migrate(&self) -> Result<SchemaState, StoreError>;
    /// Makes the consumer's row where there is none and answers what is there. Ask [`ConsumerRow::refusal`] next.
    async fn register_consumer(&self, registration: &Registration) -> Result<ConsumerRow, StoreError>;

    /// What a plugin's keys are held against before it runs; `None` where the consumer never ran.
    async fn key_state(&self, consumer: &ConsumerName) -> Result<Option<KeyState>, StoreError>;
    /// Keeps samples, each in the place of the one that had its number ([`KEY_SAMPLES`] at most, distinct in one call).
    /// Nothing where another key version is active by now.
    async fn keep_key_samples(
        &self,
        consumer: &ConsumerName,
        key_version: i32,
        samples: &[(i32, KeySample)],
    ) -> Result<(), StoreError>;
    /// Removes a consumer's samples: whoever keeps no more must not keep the old ones either.
    async fn forget_key_samples(&self, consumer: &ConsumerName) -> Result<(), StoreError>;
    /// Raises the key version, in one transaction with the note of who did it, once whatever commits under the old one is
    /// over; answers the new one. `None` where another version is active by now: nothing was changed.
    async fn accept_key_change(&self, change: &KeyChange) -> Result<Option<i32>, StoreError>;

    /// What the catalog says of a table, for [`crate::merge::resolve`].
    ///
    /// # Errors
    /// Where there is no such table (fatal), or it cannot be read.
    async fn table_info(&self, table: &TableName) -> Result<TableInfo, StoreError>;
    /// What the role that we connect as lacks for a consumer of these targets, as statements to issue; none = nothing. A
    /// database without roles lacks nothing.
    async fn missing_grants(&self, targets: &[Target]) -> Result<Vec<String>, StoreError> {
        let _ = targets;
        Ok(vec![])
    }
    /// Every registered consumer, or the one named, by name.
    async fn status(&self, consumer: Option<&ConsumerName>) -> Result<Vec<ConsumerStatus>, StoreError>;
    /// Where one consumer stands, cheaply; `None` where it never ran.
    async fn chains(&self, consumer: &ConsumerName) -> Result<Option<ConsumerChains>, StoreError>;
    /// Moves chains, all or none, in one transaction with the note of who did it. `false`: somebody extended one of the
    /// tips meanwhile, and nothing was changed. Whoever holds an old tip is fenced from here on.
    async fn seek(&self, consumer: &ConsumerName, moves: &[ChainMove], note: &SeekNote) -> Result<bool, StoreError>;
    /// Faults of the consumer's chains: none, or the proof has failed. At most 100.
    async fn chain_faults(&self, consumer: &ConsumerName) -> Result<Vec<ChainFault>, StoreError>;
    /// R3's second proof, over a table and the columns of its business key.
    async fn target_duplicates(&self, table: &TableName, key: &[String]) -> Result<TargetDuplicates, StoreError>;
    /// Rows of a table, and the sum of a numeric column (SQLite: decimals kept as text too, exactly).
    async fn target_total(&self, table: &TableName, sum: Option<&str>) -> Result<TargetTotal, StoreError>;
}

/// Opens the database that the configuration names. Nothing is connected yet.
///
/// # Errors
/// Where the URL is not understood.
pub fn open(database: &Database) -> Result<Arc<dyn Store>, StoreError> {
    match database.dialect {
        Dialect::Postgres => Ok(Arc::new(postgres::PostgresStore::open(database, database.timeouts)?)),
        Dialect::Sqlite => Ok(Arc::new(sqlite::SqliteStore::open(database)?)),
    }
}
