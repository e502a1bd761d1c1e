//! SQLite: one process, one writer. For the demo, tests and small single-machine use; never a silent fallback.
//!
//! WAL, `synchronous = FULL`, `BEGIN IMMEDIATE`, STRICT tables. A lock file beside the database keeps a second process
//! out; reports need no lock.

mod catalog;
mod connection;
mod ddl;
mod error;
mod file;
mod keys;
mod notes;
mod report;
mod rows;
mod seek;
mod statements;

use std::{borrow::Cow, sync::Arc};

use async_trait::async_trait;
use sqlx::{
    SqliteConnection,
    migrate::{Migrate, MigrateError, Migrator},
};

use self::{connection::SqliteLane, error::store_error, file::DatabaseFile};
use super::{
    ChainFault, ChainMove, Connection, ConsumerChains, ConsumerRow, ConsumerStatus, KeyChange, KeySample, KeyState,
    MIGRATIONS_TABLE, Pending, Registration, SchemaState, SeekNote, Statement, Store, StoreError, TargetDuplicates,
    TargetTotal,
};
use crate::{
    config::{Database, Dialect},
    identity::ConsumerName,
    merge::{TableInfo, TableName},
};

static MIGRATIONS: Migrator =
    Migrator { table_name: Cow::Borrowed(MIGRATIONS_TABLE), ..sqlx::migrate!("../migrations/sqlite") };

/// A database file.
#[derive(Debug)]
pub(super) struct SqliteStore {
    file: Arc<DatabaseFile>,
}

impl SqliteStore {
    pub(super) fn open(database: &Database) -> Result<Self, StoreError> {
        Ok(Self { file: DatabaseFile::open(database.url.expose())? })
    }

    async fn lane(&self) -> Result<SqliteLane, StoreError> {
        self.file.lock()?;
        Ok(SqliteLane::new(self.file.connect(false).await?, self.file.clone()))
    }

    async fn state_of(&self, conn: &mut SqliteConnection) -> Result<SchemaState, StoreError> {
        let failed = |error| store_error(Statement::Migrate, format!("read the schema of {}", self.place()), error);
        let there: Option<i64> = sqlx::query_scalar("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?")
            .bind(MIGRATIONS_TABLE)
            .fetch_optional(&mut *conn)
            .await
            .map_err(failed)?;
        if there.is_none() {
            return Ok(SchemaState::Missing);
        }
        let failed = |error| self.migration_failed(error);
        let dirty = conn.dirty_version(MIGRATIONS_TABLE).await.map_err(failed)?;
        let applied = conn.list_applied_migrations(MIGRATIONS_TABLE).await.map_err(failed)?;
        Ok(SchemaState::of(&MIGRATIONS, &applied, dirty))
    }

    fn migration_failed(&self, error: MigrateError) -> StoreError {
        let context = format!("migrate {}", self.place());
        match error {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
                store_error(Statement::Migrate, context, error)
            }
            error => StoreError::fatal(Statement::Migrate, context, error.to_string()),
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn place(&self) -> String {
        self.file.place()
    }

    async fn connect(&self) -> Result<Box<dyn Connection>, StoreError> {
        Ok(Box::new(self.lane().await?))
    }

    async fn schema_state(&self) -> Result<SchemaState, StoreError> {
        if !self.file.exists() {
            return Ok(SchemaState::Missing);
        }
        let mut conn = self.file.connect(false).await?;
        self.state_of(&mut conn).await
    }

    async fn pending(&self) -> Result<Pending, StoreError> {
        let (creates, indexes) = Pending::names(&MIGRATIONS, self.schema_state().await?.applied());
        if !self.file.exists() {
            return Ok(Pending { creates, clashes: vec![] });
        }
        let mut conn = self.file.connect(false).await?;
        let there: Vec<String> = sqlx::query_scalar("SELECT name FROM sqlite_master")
            .fetch_all(&mut conn)
            .await
            .map_err(|error| store_error(Statement::Migrate, format!("read the schema of {}", self.place()), error))?;
        let taken = |name: &&String| there.iter().any(|there| there.eq_ignore_ascii_case(name));
        let clashes = Pending::taking(&creates, &indexes).filter(taken).cloned().collect();
        Ok(Pending { creates, clashes })
    }

    async fn migrate(&self) -> Result<SchemaState, StoreError> {
        self.file.lock()?;
        let _turn = self.file.turn.lock().await;
        let mut conn = self.file.connect(true).await?;
        match self.state_of(&mut conn).await? {
            SchemaState::Missing | SchemaState::Older { .. } => {}
            state => return Ok(state),
        }
        MIGRATIONS.run_direct(None, &mut conn, false).await.map_err(|error| self.migration_failed(error))?;
        self.state_of(&mut conn).await
    }

    async fn register_consumer(&self, registration: &Registration) -> Result<ConsumerRow, StoreError> {
        self.file.lock()?;
        let _turn = self.file.turn.lock().await;
        let mut conn = self.file.connect(false).await?;
        let name = &registration.name;
        let failed = |error| store_error(Statement::Register, format!("register consumer {name}"), error);
        keys::note_declared(&mut conn, registration).await?;
        // One statement: the first registration makes the row, a later one of the same key version updates it.
        sqlx::query(
            "INSERT INTO consumers AS c (consumer_name, key_version, plugin_digest, group_id, started_from, created_at) \
             VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (consumer_name) DO UPDATE \
             SET plugin_digest = excluded.plugin_digest, group_id = excluded.group_id \
             WHERE c.key_version = excluded.key_version",
        )
        .bind(name.as_str())
        .bind(registration.key_version)
        .bind(registration.plugin_digest.to_vec())
        .bind(&registration.group)
        .bind(registration.started_from.to_string())
        .bind(connection::now_us())
        .execute(&mut conn)
        .await
        .map_err(failed)?;
        let rows = report::consumers(&mut conn, Some(name)).await?;
        rows.into_iter().next().ok_or_else(|| {
            StoreError::fatal(Statement::Register, format!("register consumer {name}"), "its row is not there")
        })
    }

    async fn key_state(&self, consumer: &ConsumerName) -> Result<Option<KeyState>, StoreError> {
        keys::state(&mut self.file.connect(false).await?, consumer).await
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
        catalog::table_info(&mut self.file.connect(false).await?, table).await
    }

    async fn status(&self, consumer: Option<&ConsumerName>) -> Result<Vec<ConsumerStatus>, StoreError> {
        report::status(&mut self.file.connect(false).await?, consumer).await
    }

    async fn chains(&self, consumer: &ConsumerName) -> Result<Option<ConsumerChains>, StoreError> {
        seek::chains(&mut self.file.connect(false).await?, consumer).await
    }

    async fn seek(&self, consumer: &ConsumerName, moves: &[ChainMove], note: &SeekNote) -> Result<bool, StoreError> {
        self.lane().await?.seek(consumer, moves, note).await
    }

    async fn chain_faults(&self, consumer: &ConsumerName) -> Result<Vec<ChainFault>, StoreError> {
        report::chain_faults(&mut self.file.connect(false).await?, consumer).await
    }

    async fn target_duplicates(&self, table: &TableName, key: &[String]) -> Result<TargetDuplicates, StoreError> {
        let mut conn = self.file.connect(false).await?;
        let info = catalog::table_info(&mut conn, table).await?;
        report::target_duplicates(&mut conn, &info, key).await
    }

    async fn target_total(&self, table: &TableName, sum: Option<&str>) -> Result<TargetTotal, StoreError> {
        let mut conn = self.file.connect(false).await?;
        let info = catalog::table_info(&mut conn, table).await?;
        report::target_total(&mut conn, &info, sum).await
    }
}
