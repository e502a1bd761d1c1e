//! Moving a consumer: its chains' tips, and the links that move them.

use std::{str::FromStr, sync::Arc};

use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};
use uuid::Uuid;

use super::{
    super::{ChainMove, Connection, ConsumerChains, SeekNote, Statement, StoreError, Tip},
    connection::{SqliteLane, now_us},
    error::store_error,
    report,
};
use crate::{identity::ConsumerName, record::TopicPartition};

/// See [`super::super::Store::chains`].
pub(super) async fn chains(
    conn: &mut SqliteConnection,
    consumer: &ConsumerName,
) -> Result<Option<ConsumerChains>, StoreError> {
    let Some(row) = report::consumers(conn, Some(consumer)).await?.into_iter().next() else { return Ok(None) };
    let failed = |error| store_error(Statement::Report, "read the chains' tips", error);
    let decode = |error: Box<dyn std::error::Error + Send + Sync>| sqlx::Error::Decode(error);
    // Of a group with max(), SQLite takes the other columns from the row that has it.
    let rows = sqlx::query(
        "SELECT cluster_id, topic_id, topic, partition, max(seq), checkpoint_id, next_offset FROM checkpoints \
         WHERE consumer_name = ? GROUP BY cluster_id, topic_id, partition ORDER BY topic, cluster_id, topic_id, partition",
    )
    .bind(consumer.as_str())
    .fetch_all(conn)
    .await
    .map_err(failed)?;
    let read = |row: &SqliteRow| -> Result<(Arc<TopicPartition>, Tip), sqlx::Error> {
        let partition = TopicPartition {
            cluster_id: row.try_get::<String, _>(0)?.into(),
            topic_id: Uuid::from_str(row.try_get(1)?).map_err(|error| decode(error.into()))?,
            topic: row.try_get::<String, _>(2)?.into(),
            partition: row.try_get(3)?,
        };
        let id = Uuid::from_slice(row.try_get(5)?).map_err(|error| decode(error.into()))?;
        Ok((Arc::new(partition), Tip { id, seq: row.try_get(4)?, next_offset: row.try_get(6)? }))
    };
    let tips = rows.iter().map(read).collect::<Result<_, _>>().map_err(failed)?;
    Ok(Some(ConsumerChains { consumer: row, tips }))
}

impl SqliteLane {
    /// See [`super::super::Store::seek`].
    pub(super) async fn seek(
        &mut self,
        consumer: &ConsumerName,
        moves: &[ChainMove],
        note: &SeekNote,
    ) -> Result<bool, StoreError> {
        self.begin(consumer).await?;
        let done = self.insert_seeks(consumer, moves, note).await;
        self.end(done.map(|moved| moved.then_some(()))).await.map(|moved| moved.is_some())
    }

    async fn insert_seeks(
        &mut self,
        consumer: &ConsumerName,
        moves: &[ChainMove],
        note: &SeekNote,
    ) -> Result<bool, StoreError> {
        for one in moves {
            let moved = self.insert_move(consumer, &one.partition, one.tip, one.to).await?;
            let Some(moved) = moved else { return Ok(false) };
            sqlx::query(
                "INSERT INTO seeks (checkpoint_id, consumer_name, cluster_id, topic_id, topic, partition, from_offset, \
                 to_offset, how, made_by, reason, made_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )
            .bind(moved.id.as_bytes().to_vec())
            .bind(consumer.as_str())
            .bind(&*one.partition.cluster_id)
            .bind(one.partition.topic_id.to_string())
            .bind(&*one.partition.topic)
            .bind(one.partition.partition)
            .bind(one.tip.map(|tip| tip.next_offset))
            .bind(one.to)
            .bind(&note.how)
            .bind(&note.by)
            .bind(&note.reason)
            .bind(now_us())
            .execute(&mut self.conn)
            .await
            .map_err(|error| store_error(Statement::Checkpoint, "write down who moved the chains", error))?;
        }
        Ok(true)
    }
}
