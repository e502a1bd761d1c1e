//! The single statements of a transaction, in SQLite's SQL.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use sqlx::{Arguments, AssertSqlSafe, Row, SqliteConnection, sqlite::SqliteArguments};
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

use super::{
    super::{
        Connection, ConsumerState, LedgerRow, Link, Notes, RowKey, Statement, StoreError, StoredLink, Tip, Written,
        registration::unregistered,
    },
    error::store_error,
    file::{DatabaseFile, LOCK_TIMEOUT},
    notes,
    rows::Writer,
};
use crate::{
    identity::{ConsumerName, Fingerprint, MessageId},
    merge::{Cell, Target, TypedChange},
    outcome::Counts,
    record::TopicPartition,
};

/// Rows of one ledger statement at most.
const LEDGER_ROWS: usize = 64;

/// A lane's connection.
#[derive(Debug)]
pub(super) struct SqliteLane {
    pub(super) conn: SqliteConnection,
    file: Arc<DatabaseFile>,
    /// Held from BEGIN to the end of the transaction.
    turn: Option<OwnedMutexGuard<()>>,
    writer: Writer,
    /// The transaction's time.
    now_us: i64,
}

/// Microseconds since the epoch.
pub(super) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A JSON array of ids: one bound value for any number of them.
fn id_list(ids: &[MessageId]) -> String {
    serde_json::Value::from(ids.iter().map(MessageId::as_str).collect::<Vec<_>>()).to_string()
}

impl SqliteLane {
    /// Commits what was done; rolls back where there was nothing to do, or it failed.
    pub(super) async fn end<T: Send>(&mut self, done: Result<Option<T>, StoreError>) -> Result<Option<T>, StoreError> {
        match &done {
            Ok(Some(_)) => self.commit().await?,
            Ok(None) | Err(_) => self.rollback().await?,
        }
        done
    }

    pub(super) fn new(conn: SqliteConnection, file: Arc<DatabaseFile>) -> Self {
        Self { conn, file, turn: None, writer: Writer::default(), now_us: 0 }
    }

    async fn run(&mut self, statement: Statement, context: &str, sql: &'static str) -> Result<(), StoreError> {
        sqlx::query(sql)
            .execute(&mut self.conn)
            .await
            .map(|_| ())
            .map_err(|error| store_error(statement, context, error))
    }

    async fn take_turn(&self) -> Result<OwnedMutexGuard<()>, StoreError> {
        tokio::time::timeout(LOCK_TIMEOUT, self.file.turn.clone().lock_owned()).await.map_err(|_| {
            let message = format!("another lane of this process has been writing for {} s", LOCK_TIMEOUT.as_secs());
            StoreError::transient(Statement::Begin, format!("wait for {}", self.file.place()), message)
        })
    }
}

#[async_trait]
impl Connection for SqliteLane {
    async fn begin(&mut self, consumer: &ConsumerName) -> Result<ConsumerState, StoreError> {
        self.turn = Some(self.take_turn().await?);
        // IMMEDIATE: the one write lock at once, so that nothing read here can change before the COMMIT.
        self.run(Statement::Begin, "begin", "BEGIN IMMEDIATE").await?;
        self.now_us = now_us();
        let row = sqlx::query(
            "SELECT key_version, horizon, EXISTS (SELECT 1 FROM dead_letters WHERE consumer_name = ?1 AND status = 'open') \
             FROM consumers WHERE consumer_name = ?1",
        )
        .bind(consumer.as_str())
        .fetch_optional(&mut self.conn)
        .await
        .map_err(|error| store_error(Statement::Begin, format!("read consumer {consumer}"), error))?;
        let Some(row) = row else {
            return Err(unregistered(Statement::Begin, consumer));
        };
        let read = || -> Result<ConsumerState, sqlx::Error> {
            Ok(ConsumerState {
                key_version: row.try_get(0)?,
                horizon_us: row.try_get(1)?,
                open_dead_letters: row.try_get(2)?,
            })
        };
        read().map_err(|error| store_error(Statement::Begin, format!("read consumer {consumer}"), error))
    }

    async fn insert_ledger(&mut self, consumer: &ConsumerName, rows: &[LedgerRow]) -> Result<Vec<usize>, StoreError> {
        let failed = |error| store_error(Statement::Ledger, "insert into the ledger", error);
        let mut inserted = Vec::with_capacity(rows.len());
        let mut rest = rows;
        while !rest.is_empty() {
            // Powers of two, so that few statements are enough for all lengths.
            let count = 1 << rest.len().min(LEDGER_ROWS).ilog2();
            let (now, later) = rest.split_at(count);
            rest = later;
            let values = vec!["(?, ?, ?, ?, ?, ?, ?, ?)"; count].join(", ");
            let sql = format!(
                "INSERT INTO processed_messages (consumer_name, message_id, aggregate_id, source_topic, \
                 source_partition, source_offset, processed_at, fingerprint) VALUES {values} \
                 ON CONFLICT (consumer_name, message_id) DO NOTHING RETURNING message_id"
            );
            let mut args = SqliteArguments::default();
            for row in now {
                let mut add = || {
                    args.add(consumer.as_str())?;
                    args.add(row.message_id.as_str())?;
                    args.add(row.aggregate_id.as_str())?;
                    args.add(&*row.partition.topic)?;
                    args.add(row.partition.partition)?;
                    args.add(row.offset)?;
                    args.add(self.now_us)?;
                    args.add(row.fingerprint.0.to_vec())
                };
                add().map_err(|error| failed(sqlx::Error::Encode(error)))?;
            }
            let ids: Vec<String> =
                sqlx::query_scalar_with(AssertSqlSafe(sql), args).fetch_all(&mut self.conn).await.map_err(failed)?;
            // Few are missing, and both stand in the same order.
            let mut ids = ids.into_iter().peekable();
            for (row, place) in now.iter().zip(rows.len() - rest.len() - count..) {
                if ids.next_if(|id| id == row.message_id.as_str()).is_some() {
                    inserted.push(place);
                }
            }
            if ids.peek().is_some() {
                return Err(StoreError::fatal(
                    Statement::Ledger,
                    "insert into the ledger",
                    "the answer is not in the order of the rows; this is a defect of the host",
                ));
            }
        }
        Ok(inserted)
    }

    async fn lookup(
        &mut self,
        consumer: &ConsumerName,
        ids: &[MessageId],
    ) -> Result<HashMap<MessageId, Fingerprint>, StoreError> {
        let found: Vec<(String, Vec<u8>)> = sqlx::query_as(
            "SELECT message_id, fingerprint FROM processed_messages \
             WHERE consumer_name = ? AND message_id IN (SELECT value FROM json_each(?))",
        )
        .bind(consumer.as_str())
        .bind(id_list(ids))
        .fetch_all(&mut self.conn)
        .await
        .map_err(|error| store_error(Statement::Ledger, "look up ids in the ledger", error))?;
        let bad = || StoreError::fatal(Statement::Ledger, "look up ids in the ledger", "a row holds no valid id");
        found
            .into_iter()
            .map(|(id, fingerprint)| {
                let fingerprint = fingerprint.try_into().map_err(|_| bad())?;
                Ok((MessageId::new(id).map_err(|_| bad())?, Fingerprint(fingerprint)))
            })
            .collect()
    }

    async fn take_back(&mut self, consumer: &ConsumerName, ids: &[MessageId]) -> Result<(), StoreError> {
        sqlx::query(
            "DELETE FROM processed_messages \
             WHERE consumer_name = ? AND message_id IN (SELECT value FROM json_each(?))",
        )
        .bind(consumer.as_str())
        .bind(id_list(ids))
        .execute(&mut self.conn)
        .await
        .map(|_| ())
        .map_err(|error| store_error(Statement::Ledger, "take rows back from the ledger", error))
    }

    async fn lock_states(&mut self, target: &Target, keys: &[RowKey]) -> Result<HashMap<RowKey, Cell>, StoreError> {
        Ok(self.writer.states(&mut self.conn, target, keys).await?.into_iter().collect())
    }

    async fn write(&mut self, targets: &[Target], changes: &[&TypedChange]) -> Result<Written, StoreError> {
        self.writer.write(&mut self.conn, targets, changes, self.now_us).await
    }

    async fn savepoint(&mut self) -> Result<(), StoreError> {
        self.run(Statement::Savepoint, "open a savepoint", "SAVEPOINT careful").await
    }

    async fn release(&mut self) -> Result<(), StoreError> {
        self.run(Statement::Deferred, "release a savepoint", "RELEASE careful").await
    }

    async fn rollback_to_savepoint(&mut self) -> Result<(), StoreError> {
        self.run(Statement::Savepoint, "go back to a savepoint", "ROLLBACK TO careful").await?;
        self.run(Statement::Savepoint, "forget a savepoint", "RELEASE careful").await
    }

    async fn write_notes(&mut self, consumer: &ConsumerName, notes: &Notes) -> Result<(), StoreError> {
        notes::write(&mut self.conn, consumer, notes, self.now_us).await
    }

    async fn extend_chain(
        &mut self,
        consumer: &ConsumerName,
        plugin_digest: &[u8],
        state: ConsumerState,
        links: &[Link],
    ) -> Result<usize, StoreError> {
        let mut extended = 0;
        for link in links {
            let counts = link.counts;
            let done = sqlx::query(
                "INSERT INTO checkpoints (checkpoint_id, prev_id, seq, consumer_name, cluster_id, topic_id, topic, \
                 partition, kind, first_offset, next_offset, consumed, applied, duplicate, skipped, dead, too_old, \
                 key_version, plugin_digest, committed_at) \
                 SELECT ?1, p.checkpoint_id, p.seq + 1, c.consumer_name, p.cluster_id, p.topic_id, p.topic, p.partition, \
                 'r', p.next_offset, ?2, ?3, ?4, ?5, ?6, ?7, ?8, c.key_version, ?9, ?10 \
                 FROM checkpoints p JOIN consumers c ON c.consumer_name = p.consumer_name \
                 WHERE p.checkpoint_id = ?11 AND p.next_offset = ?12 AND p.consumer_name = ?13 AND p.cluster_id = ?14 \
                 AND p.topic_id = ?15 AND p.partition = ?16 AND c.key_version = ?17 AND c.horizon = ?18 \
                 ON CONFLICT DO NOTHING",
            )
            .bind(link.id.as_bytes().to_vec())
            .bind(link.next_offset)
            .bind(counts.consumed())
            .bind(counts.applied)
            .bind(counts.duplicate)
            .bind(counts.skipped)
            .bind(counts.dead)
            .bind(counts.too_old)
            .bind(plugin_digest.to_vec())
            .bind(self.now_us)
            .bind(link.prev.as_bytes().to_vec())
            .bind(link.first_offset)
            .bind(consumer.as_str())
            .bind(&*link.partition.cluster_id)
            .bind(link.partition.topic_id.to_string())
            .bind(link.partition.partition)
            .bind(state.key_version)
            .bind(state.horizon_us)
            .execute(&mut self.conn)
            .await
            .map_err(|error| {
                store_error(Statement::Checkpoint, format!("extend the chain of {}", link.partition), error)
            })?;
            extended += usize::from(done.rows_affected() > 0);
        }
        Ok(extended)
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        self.run(Statement::Commit, "commit", "COMMIT").await?;
        self.turn = None;
        Ok(())
    }

    async fn rollback(&mut self) -> Result<(), StoreError> {
        // A full disk or an I/O error may have rolled back already; then there is nothing to undo.
        let done = sqlx::query("ROLLBACK").execute(&mut self.conn).await;
        let result = match done {
            Ok(_) => Ok(()),
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("1") => Ok(()),
            Err(error) => {
                Err(StoreError { connection_lost: true, ..store_error(Statement::Rollback, "roll back", error) })
            }
        };
        self.turn = None;
        result
    }

    async fn find_checkpoints(&mut self, ids: &[Uuid]) -> Result<HashMap<Uuid, StoredLink>, StoreError> {
        let failed = |error| store_error(Statement::Checkpoint, "look up checkpoints", error);
        let mut found = HashMap::new();
        for id in ids {
            let row = sqlx::query(
                "SELECT seq, next_offset, applied, duplicate, skipped, dead, too_old FROM checkpoints \
                 WHERE checkpoint_id = ?",
            )
            .bind(id.as_bytes().to_vec())
            .fetch_optional(&mut self.conn)
            .await
            .map_err(failed)?;
            if let Some(row) = row {
                let read = || -> Result<StoredLink, sqlx::Error> {
                    Ok(StoredLink {
                        seq: row.try_get(0)?,
                        next_offset: row.try_get(1)?,
                        counts: Counts {
                            applied: row.try_get(2)?,
                            duplicate: row.try_get(3)?,
                            skipped: row.try_get(4)?,
                            dead: row.try_get(5)?,
                            too_old: row.try_get(6)?,
                        },
                    })
                };
                found.insert(*id, read().map_err(failed)?);
            }
        }
        Ok(found)
    }

    async fn tips(
        &mut self,
        consumer: &ConsumerName,
        partitions: &[Arc<TopicPartition>],
    ) -> Result<Vec<Option<Tip>>, StoreError> {
        let mut tips = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let row: Option<(Vec<u8>, i64, i64)> = sqlx::query_as(
                "SELECT checkpoint_id, seq, next_offset FROM checkpoints WHERE consumer_name = ? AND cluster_id = ? \
                 AND topic_id = ? AND partition = ? ORDER BY seq DESC LIMIT 1",
            )
            .bind(consumer.as_str())
            .bind(&*partition.cluster_id)
            .bind(partition.topic_id.to_string())
            .bind(partition.partition)
            .fetch_optional(&mut self.conn)
            .await
            .map_err(|error| store_error(Statement::Checkpoint, format!("read the tip of {partition}"), error))?;
            let tip = row.map(|(id, seq, next_offset)| {
                let id = Uuid::from_slice(&id).map_err(|error| {
                    StoreError::fatal(Statement::Checkpoint, format!("read the tip of {partition}"), error.to_string())
                })?;
                Ok(Tip { id, seq, next_offset })
            });
            tips.push(tip.transpose()?);
        }
        Ok(tips)
    }

    async fn topic_ids(
        &mut self,
        consumer: &ConsumerName,
        cluster_id: &str,
        topic: &str,
    ) -> Result<Vec<Uuid>, StoreError> {
        let context = || format!("read the ids of topic {topic}");
        let ids: Vec<String> = sqlx::query_scalar(
            "SELECT DISTINCT topic_id FROM checkpoints WHERE consumer_name = ? AND cluster_id = ? AND topic = ? \
             ORDER BY topic_id",
        )
        .bind(consumer.as_str())
        .bind(cluster_id)
        .bind(topic)
        .fetch_all(&mut self.conn)
        .await
        .map_err(|error| store_error(Statement::Checkpoint, context(), error))?;
        let id = |text: String| {
            Uuid::try_parse(&text)
                .map_err(|error| StoreError::fatal(Statement::Checkpoint, context(), error.to_string()))
        };
        ids.into_iter().map(id).collect()
    }

    async fn move_chain(
        &mut self,
        consumer: &ConsumerName,
        partition: &Arc<TopicPartition>,
        tip: Option<Tip>,
        to: i64,
    ) -> Result<Option<Tip>, StoreError> {
        let _turn = self.take_turn().await?;
        self.insert_move(consumer, partition, tip, to).await
    }
}

impl SqliteLane {
    /// Inserts a move; `None` where somebody else extended the tip. By whose turn it is to write.
    pub(super) async fn insert_move(
        &mut self,
        consumer: &ConsumerName,
        partition: &Arc<TopicPartition>,
        tip: Option<Tip>,
        to: i64,
    ) -> Result<Option<Tip>, StoreError> {
        let id = Uuid::now_v7();
        let seq = tip.map_or(0, |tip| tip.seq + 1);
        let columns = "INSERT INTO checkpoints (checkpoint_id, prev_id, seq, consumer_name, cluster_id, topic_id, topic, \
                       partition, kind, first_offset, next_offset, consumed, applied, duplicate, skipped, dead, too_old, \
                       key_version, plugin_digest, committed_at) ";
        // The genesis begins where it leads to: nothing is before it.
        let source = if tip.is_some() {
            "SELECT ?1, p.checkpoint_id, p.seq + 1, c.consumer_name, p.cluster_id, p.topic_id, p.topic, p.partition, 'm', \
             p.next_offset, ?2, 0, 0, 0, 0, 0, 0, c.key_version, c.plugin_digest, ?3 \
             FROM checkpoints p JOIN consumers c ON c.consumer_name = p.consumer_name \
             WHERE p.consumer_name = ?4 AND p.cluster_id = ?5 AND p.topic_id = ?6 AND p.partition = ?8 \
             AND p.checkpoint_id = ?9 AND ?7 IS NOT NULL ON CONFLICT DO NOTHING"
        } else {
            "SELECT ?1, ?9, 0, c.consumer_name, ?5, ?6, ?7, ?8, 'm', ?2, ?2, 0, 0, 0, 0, 0, 0, c.key_version, \
             c.plugin_digest, ?3 FROM consumers c WHERE c.consumer_name = ?4 ON CONFLICT DO NOTHING"
        };
        let done = sqlx::query(AssertSqlSafe(format!("{columns}{source}")))
            .bind(id.as_bytes().to_vec())
            .bind(to)
            .bind(now_us())
            .bind(consumer.as_str())
            .bind(&*partition.cluster_id)
            .bind(partition.topic_id.to_string())
            .bind(&*partition.topic)
            .bind(partition.partition)
            .bind(tip.map(|tip| tip.id.as_bytes().to_vec()))
            .execute(&mut self.conn)
            .await
            .map_err(|error| store_error(Statement::Checkpoint, format!("move the chain of {partition}"), error))?;
        if done.rows_affected() > 0 {
            return Ok(Some(Tip { id, seq, next_offset: to }));
        }
        // Taken by somebody else, unless there is no such consumer at all.
        let there = sqlx::query("SELECT 1 FROM consumers WHERE consumer_name = ?")
            .bind(consumer.as_str())
            .fetch_optional(&mut self.conn)
            .await
            .map_err(|error| store_error(Statement::Checkpoint, format!("read consumer {consumer}"), error))?;
        if there.is_none() {
            return Err(unregistered(Statement::Checkpoint, consumer));
        }
        Ok(None)
    }
}
