//! The checkpoint chain's statements.

use std::{collections::HashMap, sync::Arc};

use sqlx::{
    Row as _,
    postgres::{PgBindIterExt, PgRow},
};
use uuid::Uuid;

use super::{
    super::{ConsumerState, Link, Statement, StoreError, StoredLink, Tip, registration::unregistered},
    instant::Instant,
    lane::Lane,
};
use crate::{identity::ConsumerName, outcome::Counts, record::TopicPartition};

impl Lane {
    /// See [`super::super::Connection::extend_chain`].
    // Invariant 5, 10: a link is inserted only behind its tip, where that ended, under the key version and horizon that
    // this transaction began with. Its snapshot is newer than the ledger's insert, so a horizon that moved is seen.
    pub(super) async fn extend_chain(
        &mut self,
        consumer: &ConsumerName,
        plugin_digest: &[u8],
        state: ConsumerState,
        links: &[Link],
    ) -> Result<usize, StoreError> {
        self.check_deferred().await?;
        // One order for all hosts: whoever meets another's uncommitted link waits, and none in a circle.
        let mut sorted: Vec<&Link> = links.iter().collect();
        sorted.sort_unstable_by_key(|link| link.prev);
        let query = sqlx::query(
            "INSERT INTO checkpoints (checkpoint_id, prev_id, seq, consumer_name, cluster_id, topic_id, topic, partition, \
             first_offset, next_offset, consumed, applied, duplicate, skipped, dead, too_old, key_version, plugin_digest) \
             SELECT n.id, n.prev_id, p.seq + 1, c.consumer_name, p.cluster_id, p.topic_id, p.topic, p.partition, \
             p.next_offset, n.next_offset, n.consumed, n.applied, n.duplicate, n.skipped, n.dead, n.too_old, c.key_version, \
             $14 \
             FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::uuid[], $5::int[], $6::bigint[], $7::bigint[], $8::int[], \
             $9::int[], $10::int[], $11::int[], $12::int[], $13::int[]) WITH ORDINALITY \
             n(id, prev_id, cluster_id, topic_id, partition, first_offset, next_offset, consumed, applied, duplicate, skipped, \
             dead, too_old, ord) \
             JOIN checkpoints p ON p.checkpoint_id = n.prev_id AND p.next_offset = n.first_offset AND p.consumer_name = $15 \
             AND p.cluster_id = n.cluster_id AND p.topic_id = n.topic_id AND p.partition = n.partition \
             JOIN consumers c ON c.consumer_name = p.consumer_name AND c.key_version = $16 AND c.horizon = $17 \
             ORDER BY n.ord \
             ON CONFLICT DO NOTHING",
        )
        .bind(sorted.iter().map(|l| l.id).bind_iter())
        .bind(sorted.iter().map(|l| l.prev).bind_iter())
        .bind(sorted.iter().map(|l| &*l.partition.cluster_id).bind_iter())
        .bind(sorted.iter().map(|l| l.partition.topic_id).bind_iter())
        .bind(sorted.iter().map(|l| l.partition.partition).bind_iter())
        .bind(sorted.iter().map(|l| l.first_offset).bind_iter())
        .bind(sorted.iter().map(|l| l.next_offset).bind_iter())
        .bind(sorted.iter().map(|l| number(l.counts.consumed())).bind_iter())
        .bind(sorted.iter().map(|l| number(l.counts.applied)).bind_iter())
        .bind(sorted.iter().map(|l| number(l.counts.duplicate)).bind_iter())
        .bind(sorted.iter().map(|l| number(l.counts.skipped)).bind_iter())
        .bind(sorted.iter().map(|l| number(l.counts.dead)).bind_iter())
        .bind(sorted.iter().map(|l| number(l.counts.too_old)).bind_iter())
        .bind(plugin_digest)
        .bind(consumer.as_str())
        .bind(state.key_version)
        .bind(Instant(state.horizon_us));
        let inserted = self.run(Statement::Checkpoint, "extend the checkpoint chain", query).await?;
        Ok(usize::try_from(inserted).unwrap_or(usize::MAX))
    }

    /// See [`super::super::Connection::find_checkpoints`].
    pub(super) async fn find_checkpoints(&mut self, ids: &[Uuid]) -> Result<HashMap<Uuid, StoredLink>, StoreError> {
        const CONTEXT: &str = "look checkpoints up";
        let query = sqlx::query(
            "SELECT checkpoint_id, seq, next_offset, applied, duplicate, skipped, dead, too_old FROM checkpoints \
             WHERE checkpoint_id = ANY ($1)",
        )
        .bind(ids);
        let rows = self.rows(Statement::Checkpoint, CONTEXT, query).await?;
        rows.iter()
            .map(|row| stored_link(row).map_err(|e| StoreError::fatal(Statement::Checkpoint, CONTEXT, e.to_string())))
            .collect()
    }

    /// See [`super::super::Connection::tips`].
    pub(super) async fn tips(
        &mut self,
        consumer: &ConsumerName,
        partitions: &[Arc<TopicPartition>],
    ) -> Result<Vec<Option<Tip>>, StoreError> {
        const CONTEXT: &str = "read the chains' tips";
        let query = sqlx::query(
            "SELECT w.ord, t.checkpoint_id, t.seq, t.next_offset \
             FROM unnest($1::text[], $2::uuid[], $3::int[]) WITH ORDINALITY w(cluster_id, topic_id, partition, ord) \
             CROSS JOIN LATERAL (SELECT checkpoint_id, seq, next_offset FROM checkpoints k \
             WHERE k.consumer_name = $4 AND k.cluster_id = w.cluster_id AND k.topic_id = w.topic_id \
             AND k.partition = w.partition ORDER BY seq DESC LIMIT 1) t",
        )
        .bind(partitions.iter().map(|p| &*p.cluster_id).bind_iter())
        .bind(partitions.iter().map(|p| p.topic_id).bind_iter())
        .bind(partitions.iter().map(|p| p.partition).bind_iter())
        .bind(consumer.as_str());
        let rows = self.rows(Statement::Checkpoint, CONTEXT, query).await?;
        let mut tips = vec![None; partitions.len()];
        for row in &rows {
            let get = |at| Self::get::<i64>(row, at, Statement::Checkpoint, CONTEXT);
            let tip =
                Tip { id: Self::get(row, 1, Statement::Checkpoint, CONTEXT)?, seq: get(2)?, next_offset: get(3)? };
            if let Some(place) = usize::try_from(get(0)? - 1).ok().and_then(|at| tips.get_mut(at)) {
                *place = Some(tip);
            }
        }
        Ok(tips)
    }

    /// See [`super::super::Connection::topic_ids`].
    pub(super) async fn topic_ids(
        &mut self,
        consumer: &ConsumerName,
        cluster_id: &str,
        topic: &str,
    ) -> Result<Vec<Uuid>, StoreError> {
        const CONTEXT: &str = "read the topic's ids";
        // From one topic id to the next by the index: a chain may have a million links.
        let query = sqlx::query(
            "WITH RECURSIVE i AS ( \
               (SELECT topic_id, partition FROM checkpoints WHERE consumer_name = $1 AND cluster_id = $2 \
                ORDER BY topic_id, partition LIMIT 1) \
               UNION ALL \
               SELECT n.topic_id, n.partition FROM i CROSS JOIN LATERAL ( \
                 SELECT topic_id, partition FROM checkpoints \
                 WHERE consumer_name = $1 AND cluster_id = $2 AND topic_id > i.topic_id \
                 ORDER BY topic_id, partition LIMIT 1) n) \
             SELECT i.topic_id FROM i CROSS JOIN LATERAL ( \
               SELECT topic FROM checkpoints k WHERE k.consumer_name = $1 AND k.cluster_id = $2 \
               AND k.topic_id = i.topic_id AND k.partition = i.partition ORDER BY seq LIMIT 1) k WHERE k.topic = $3",
        )
        .bind(consumer.as_str())
        .bind(cluster_id)
        .bind(topic);
        let rows = self.rows(Statement::Checkpoint, CONTEXT, query).await?;
        rows.iter().map(|row| Self::get(row, 0, Statement::Checkpoint, CONTEXT)).collect()
    }

    /// See [`super::super::Connection::move_chain`]. In a transaction with the settings of all: a zombie's uncommitted
    /// link must not block it for ever, and a session's `synchronous_commit` is not ours.
    pub(super) async fn move_chain(
        &mut self,
        consumer: &ConsumerName,
        partition: &Arc<TopicPartition>,
        tip: Option<Tip>,
        to: i64,
    ) -> Result<Option<Tip>, StoreError> {
        const CONTEXT: &str = "move the checkpoint chain";
        self.open(CONTEXT, "").await?;
        let moved = self.insert_move(consumer, partition, tip, to, CONTEXT).await;
        match moved {
            Ok(moved) => {
                self.commit().await?;
                Ok(moved)
            }
            Err(error) => {
                if !error.connection_lost {
                    self.rollback().await?;
                }
                Err(error)
            }
        }
    }

    pub(super) async fn insert_move(
        &mut self,
        consumer: &ConsumerName,
        partition: &Arc<TopicPartition>,
        tip: Option<Tip>,
        to: i64,
        context: &str,
    ) -> Result<Option<Tip>, StoreError> {
        let id = Uuid::now_v7();
        let query = match tip {
            Some(tip) => sqlx::query(
                "INSERT INTO checkpoints (checkpoint_id, prev_id, seq, consumer_name, cluster_id, topic_id, topic, partition, \
                 kind, first_offset, next_offset, consumed, applied, duplicate, skipped, dead, too_old, key_version, plugin_digest) \
                 SELECT $1, p.checkpoint_id, p.seq + 1, p.consumer_name, p.cluster_id, p.topic_id, p.topic, p.partition, \
                 'm', p.next_offset, $2, 0, 0, 0, 0, 0, 0, c.key_version, c.plugin_digest \
                 FROM checkpoints p JOIN consumers c USING (consumer_name) \
                 WHERE p.checkpoint_id = $3 AND p.consumer_name = $4 AND p.cluster_id = $5 AND p.topic_id = $6 AND p.partition = $7 \
                 ON CONFLICT DO NOTHING RETURNING seq",
            )
            .bind(id)
            .bind(to)
            .bind(tip.id)
            .bind(consumer.as_str())
            .bind(&*partition.cluster_id)
            .bind(partition.topic_id)
            .bind(partition.partition),
            None => sqlx::query(
                "INSERT INTO checkpoints (checkpoint_id, prev_id, seq, consumer_name, cluster_id, topic_id, topic, partition, \
                 kind, first_offset, next_offset, consumed, applied, duplicate, skipped, dead, too_old, key_version, plugin_digest) \
                 SELECT $1, NULL, 0, c.consumer_name, $2, $3, $4, $5, 'm', $6, $6, 0, 0, 0, 0, 0, 0, c.key_version, c.plugin_digest \
                 FROM consumers c WHERE c.consumer_name = $7 \
                 ON CONFLICT DO NOTHING RETURNING seq",
            )
            .bind(id)
            .bind(&*partition.cluster_id)
            .bind(partition.topic_id)
            .bind(&*partition.topic)
            .bind(partition.partition)
            .bind(to)
            .bind(consumer.as_str()),
        };
        let rows = self.rows(Statement::Checkpoint, context, query).await?;
        if let Some(row) = rows.first() {
            let seq = Self::get(row, 0, Statement::Checkpoint, context)?;
            return Ok(Some(Tip { id, seq, next_offset: to }));
        }
        // Taken by somebody else, unless there is no such consumer at all.
        let query = sqlx::query("SELECT FROM consumers WHERE consumer_name = $1").bind(consumer.as_str());
        if self.rows(Statement::Checkpoint, context, query).await?.is_empty() {
            return Err(unregistered(Statement::Checkpoint, consumer));
        }
        Ok(None)
    }
}

fn stored_link(row: &PgRow) -> Result<(Uuid, StoredLink), sqlx::Error> {
    let number = |at| -> Result<u32, sqlx::Error> {
        u32::try_from(row.try_get::<i32, _>(at)?).map_err(|e| sqlx::Error::Decode(e.into()))
    };
    let counts = Counts {
        applied: number(3)?,
        duplicate: number(4)?,
        skipped: number(5)?,
        dead: number(6)?,
        too_old: number(7)?,
    };
    Ok((row.try_get(0)?, StoredLink { seq: row.try_get(1)?, next_offset: row.try_get(2)?, counts }))
}

/// A batch never has so many records; were it to, the table's own check on the counts refuses the link.
fn number(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
