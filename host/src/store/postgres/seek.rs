//! Moving a consumer: its chains' tips, and the links that move them.

use std::sync::Arc;

use super::{
    super::{ChainMove, ConsumerChains, SeekNote, Statement, StoreError, Tip},
    lane::Lane,
};
use crate::{identity::ConsumerName, record::TopicPartition};

const CONTEXT: &str = "move the checkpoint chains";

impl Lane {
    /// See [`super::super::Store::chains`].
    pub(super) async fn chains(&mut self, consumer: &ConsumerName) -> Result<Option<ConsumerChains>, StoreError> {
        const CONTEXT: &str = "read the chains' tips";
        let Some(row) = self.consumers(Some(consumer)).await?.into_iter().next() else { return Ok(None) };
        // From one chain to the next by the index: a chain may have a million links.
        let query = sqlx::query(
            "WITH RECURSIVE i AS ( \
               (SELECT cluster_id, topic_id, partition FROM checkpoints WHERE consumer_name = $1 \
                ORDER BY cluster_id, topic_id, partition LIMIT 1) \
               UNION ALL \
               SELECT n.cluster_id, n.topic_id, n.partition FROM i CROSS JOIN LATERAL ( \
                 SELECT cluster_id, topic_id, partition FROM checkpoints WHERE consumer_name = $1 \
                 AND (cluster_id, topic_id, partition) > (i.cluster_id, i.topic_id, i.partition) \
                 ORDER BY cluster_id, topic_id, partition LIMIT 1) n) \
             SELECT t.cluster_id, t.topic_id, coalesce(t.topic, ''), t.partition, t.checkpoint_id, t.seq, t.next_offset \
             FROM i CROSS JOIN LATERAL (SELECT * FROM checkpoints k WHERE k.consumer_name = $1 \
               AND k.cluster_id = i.cluster_id AND k.topic_id = i.topic_id AND k.partition = i.partition \
               ORDER BY seq DESC LIMIT 1) t \
             ORDER BY 3, 1, 2, 4",
        )
        .bind(consumer.as_str());
        let rows = self.rows(Statement::Report, CONTEXT, query).await?;
        let mut tips = Vec::with_capacity(rows.len());
        for row in &rows {
            let text = |at| Self::get::<String>(row, at, Statement::Report, CONTEXT);
            let partition = TopicPartition {
                cluster_id: text(0)?.into(),
                topic_id: Self::get(row, 1, Statement::Report, CONTEXT)?,
                topic: text(2)?.into(),
                partition: Self::get(row, 3, Statement::Report, CONTEXT)?,
            };
            let tip = Tip {
                id: Self::get(row, 4, Statement::Report, CONTEXT)?,
                seq: Self::get(row, 5, Statement::Report, CONTEXT)?,
                next_offset: Self::get(row, 6, Statement::Report, CONTEXT)?,
            };
            tips.push((Arc::new(partition), tip));
        }
        Ok(Some(ConsumerChains { consumer: row, tips }))
    }

    /// See [`super::super::Store::seek`]. With the settings of every transaction: a zombie's uncommitted link on one of
    /// the tips is waited for, but not for ever.
    pub(super) async fn seek(
        &mut self,
        consumer: &ConsumerName,
        moves: &[ChainMove],
        note: &SeekNote,
    ) -> Result<bool, StoreError> {
        self.open(CONTEXT, "").await?;
        let done = self.insert_seeks(consumer, moves, note).await;
        self.end(done.map(|moved| moved.then_some(()))).await.map(|moved| moved.is_some())
    }

    async fn insert_seeks(
        &mut self,
        consumer: &ConsumerName,
        moves: &[ChainMove],
        note: &SeekNote,
    ) -> Result<bool, StoreError> {
        // One order for all who extend chains: none waits in a circle.
        let mut sorted: Vec<&ChainMove> = moves.iter().collect();
        sorted.sort_unstable_by_key(|one| one.tip.map(|tip| tip.id));
        for one in sorted {
            let moved = self.insert_move(consumer, &one.partition, one.tip, one.to, CONTEXT).await?;
            let Some(moved) = moved else { return Ok(false) };
            let query = sqlx::query(
                "INSERT INTO seeks (checkpoint_id, consumer_name, cluster_id, topic_id, topic, partition, from_offset, \
                 to_offset, how, made_by, reason) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
            )
            .bind(moved.id)
            .bind(consumer.as_str())
            .bind(&*one.partition.cluster_id)
            .bind(one.partition.topic_id)
            .bind(&*one.partition.topic)
            .bind(one.partition.partition)
            .bind(one.tip.map(|tip| tip.next_offset))
            .bind(one.to)
            .bind(&note.how)
            .bind(&note.by)
            .bind(&note.reason);
            self.run(Statement::Checkpoint, "write down who moved the chains", query).await?;
        }
        Ok(true)
    }
}
