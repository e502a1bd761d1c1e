//! Figures and proofs, read from the database.

use std::{collections::BTreeMap, sync::Arc};

use bigdecimal::BigDecimal;
use sqlx::postgres::PgRow;

use super::{
    super::{
        ChainFault, ConsumerRow, ConsumerStatus, PartitionStatus, Repeats, Statement, StoreError, TargetDuplicates,
        TargetTotal, Tip, Totals,
    },
    array::PgQuery,
    instant::Instant,
    lane::{Lane, safe},
    sql,
};
use crate::{
    identity::ConsumerName,
    merge::{TableInfo, TableName},
    record::TopicPartition,
};

impl Lane {
    async fn report(&mut self, what: &str, query: PgQuery<'_>) -> Result<Vec<PgRow>, StoreError> {
        self.rows(Statement::Report, what, query).await
    }

    async fn one_count(&mut self, what: &str, query: PgQuery<'_>) -> Result<u64, StoreError> {
        let rows = self.report(what, query).await?;
        rows.first().map_or(Ok(0), |row| count(row, 0))
    }

    /// The rows of all consumers, or of one.
    pub(super) async fn consumers(&mut self, consumer: Option<&ConsumerName>) -> Result<Vec<ConsumerRow>, StoreError> {
        let query = sqlx::query(
            "SELECT consumer_name, group_id, key_version, plugin_digest, horizon, started_from::text, created_at, lock_no \
             FROM consumers WHERE $1::text IS NULL OR consumer_name = $1 ORDER BY consumer_name",
        )
        .bind(consumer.map(ConsumerName::as_str));
        let rows = self.few_rows(Statement::Report, "read the consumers", query).await?;
        rows.iter()
            .map(|row| {
                let name: String = get(row, 0)?;
                let started_from: String = get(row, 5)?;
                Ok(ConsumerRow {
                    name: ConsumerName::new(name).map_err(unreadable)?,
                    group: get(row, 1)?,
                    key_version: get(row, 2)?,
                    plugin_digest: get(row, 3)?,
                    horizon_us: get::<Instant>(row, 4)?.0,
                    started_from: serde_json::from_str(&started_from).map_err(unreadable)?,
                    created_at_us: get::<Instant>(row, 6)?.0,
                    lock_no: get(row, 7)?,
                })
            })
            .collect()
    }

    /// See [`super::super::Store::status`].
    pub(super) async fn status(&mut self, consumer: Option<&ConsumerName>) -> Result<Vec<ConsumerStatus>, StoreError> {
        let mut all = Vec::new();
        for row in self.consumers(consumer).await? {
            let name = row.name.clone();
            let of = |sql: &'static str| sqlx::query(sql).bind(name.as_str());
            let ledger = of("SELECT count(*) FROM processed_messages WHERE consumer_name = $1");
            let conflicts = of("SELECT count(*) FROM payload_conflicts WHERE consumer_name = $1");
            let letters = of("SELECT status, count(*) FROM dead_letters WHERE consumer_name = $1 GROUP BY status");
            let mut dead_letters = BTreeMap::new();
            for row in &self.report("count the dead letters", letters).await? {
                dead_letters.insert(get(row, 0)?, count(row, 1)?);
            }
            all.push(ConsumerStatus {
                consumer: row,
                ledger_rows: self.one_count("count the ledger", ledger).await?,
                partitions: self.partitions(&name).await?,
                dead_letters,
                repeats: self.repeats(&name).await?,
                conflicts: self.one_count("count the payload conflicts", conflicts).await?,
            });
        }
        Ok(all)
    }

    async fn partitions(&mut self, consumer: &ConsumerName) -> Result<Vec<PartitionStatus>, StoreError> {
        let query = sqlx::query(
            "SELECT s.cluster_id, s.topic_id, coalesce(t.topic, ''), s.partition, t.checkpoint_id, t.seq, t.next_offset, \
             t.committed_at, s.links, s.applied, s.duplicate, s.skipped, s.dead, s.too_old, s.without_record \
             FROM (SELECT consumer_name, cluster_id, topic_id, partition, count(*) AS links, sum(applied) AS applied, \
               sum(duplicate) AS duplicate, sum(skipped) AS skipped, sum(dead) AS dead, sum(too_old) AS too_old, max(seq) AS tip, \
               coalesce(sum(next_offset - first_offset - consumed) FILTER (WHERE kind = 'r'), 0)::bigint AS without_record \
               FROM checkpoints WHERE consumer_name = $1 GROUP BY consumer_name, cluster_id, topic_id, partition) s \
             JOIN checkpoints t ON t.consumer_name = s.consumer_name AND t.cluster_id = s.cluster_id \
               AND t.topic_id = s.topic_id AND t.partition = s.partition AND t.seq = s.tip \
             ORDER BY 3, 1, 2, 4",
        )
        .bind(consumer.as_str());
        let rows = self.report("read the chains", query).await?;
        rows.iter()
            .map(|row| {
                let (cluster, topic): (String, String) = (get(row, 0)?, get(row, 2)?);
                Ok(PartitionStatus {
                    partition: Arc::new(TopicPartition {
                        cluster_id: cluster.into(),
                        topic_id: get(row, 1)?,
                        topic: topic.into(),
                        partition: get(row, 3)?,
                    }),
                    tip: Tip { id: get(row, 4)?, seq: get(row, 5)?, next_offset: get(row, 6)? },
                    committed_at_us: get::<Instant>(row, 7)?.0,
                    links: count(row, 8)?,
                    without_record: count(row, 14)?,
                    totals: Totals {
                        applied: count(row, 9)?,
                        duplicate: count(row, 10)?,
                        skipped: count(row, 11)?,
                        dead: count(row, 12)?,
                        too_old: count(row, 13)?,
                    },
                })
            })
            .collect()
    }

    async fn repeats(&mut self, consumer: &ConsumerName) -> Result<Repeats, StoreError> {
        const WHAT: &str = "count the duplicates";
        let sums = sqlx::query(
            "SELECT count(DISTINCT message_id), coalesce(sum(seen), 0)::bigint FROM duplicate_attempts WHERE consumer_name = $1",
        )
        .bind(consumer.as_str());
        let examples = sqlx::query(
            "SELECT d.message_id, sum(d.seen)::bigint + (EXISTS (SELECT FROM processed_messages p \
             WHERE p.consumer_name = $1 AND p.message_id = d.message_id))::int AS attempts \
             FROM duplicate_attempts d WHERE d.consumer_name = $1 GROUP BY d.message_id \
             ORDER BY attempts DESC, d.message_id LIMIT 5",
        )
        .bind(consumer.as_str());
        let sums = self.report(WHAT, sums).await?;
        let examples = self.report(WHAT, examples).await?;
        let Some(sums) = sums.first() else { return Ok(Repeats::default()) };
        Ok(Repeats {
            ids: count(sums, 0)?,
            attempts: count(sums, 1)?,
            examples: examples.iter().map(|row| Ok((get(row, 0)?, count(row, 1)?))).collect::<Result<_, _>>()?,
        })
    }

    /// See [`super::super::Store::chain_faults`].
    pub(super) async fn chain_faults(&mut self, consumer: &ConsumerName) -> Result<Vec<ChainFault>, StoreError> {
        // Between the genesis and what pruning left there is the one gap that a chain may have.
        let query = sqlx::query(
            "SELECT topic_id, partition, seq, pnext, first_offset, \
             CASE WHEN pseq IS NULL AND seq > 0 OR pruned IS FALSE AND seq <> pseq + 1 THEN 'link missing' \
                  WHEN pruned IS FALSE AND prev_id IS DISTINCT FROM pid THEN 'wrong predecessor' \
                  WHEN consumed <> applied + duplicate + skipped + dead + too_old THEN 'counts' \
                  WHEN kind = 'r' AND consumed > next_offset - first_offset THEN 'more records than offsets' \
                  WHEN first_offset > pnext THEN 'hole' ELSE 'overlap' END \
             FROM (SELECT *, pseq = 0 AND seq > 1 AS pruned FROM ( \
               SELECT *, lag(checkpoint_id) OVER w AS pid, lag(next_offset) OVER w AS pnext, lag(seq) OVER w AS pseq \
               FROM checkpoints WHERE consumer_name = $1 \
               WINDOW w AS (PARTITION BY cluster_id, topic_id, partition ORDER BY seq)) l) k \
             WHERE consumed <> applied + duplicate + skipped + dead + too_old \
                OR (kind = 'r' AND consumed > next_offset - first_offset) OR (pseq IS NULL AND seq > 0) \
                OR (pruned IS FALSE AND (seq <> pseq + 1 OR prev_id IS DISTINCT FROM pid OR first_offset <> pnext)) \
             ORDER BY topic_id, partition, seq LIMIT 100",
        )
        .bind(consumer.as_str());
        let rows = self.report("prove the chains", query).await?;
        rows.iter()
            .map(|row| {
                Ok(ChainFault {
                    topic_id: get(row, 0)?,
                    partition: get(row, 1)?,
                    seq: get(row, 2)?,
                    expected: get(row, 3)?,
                    found: get(row, 4)?,
                    fault: get(row, 5)?,
                })
            })
            .collect()
    }

    /// See [`super::super::Store::target_duplicates`].
    pub(super) async fn target_duplicates(
        &mut self,
        table: &TableName,
        key: &[String],
    ) -> Result<TargetDuplicates, StoreError> {
        let info = self.table_info(table).await?;
        let columns: Vec<String> = key.iter().map(|column| known(&info, column)).collect::<Result<_, _>>()?;
        let list = columns.join(", ");
        let query =
            format!("SELECT {list}, count(*) FROM {} GROUP BY {list} HAVING count(*) > 1", sql::table(&info.table));
        let counting = sqlx::query(safe(format!("SELECT count(*) FROM ({query}) d")));
        Ok(TargetDuplicates { keys: self.one_count("look for target duplicates", counting).await?, query })
    }

    /// See [`super::super::Store::target_total`].
    pub(super) async fn target_total(
        &mut self,
        table: &TableName,
        sum: Option<&str>,
    ) -> Result<TargetTotal, StoreError> {
        const WHAT: &str = "add a target up";
        let info = self.table_info(table).await?;
        let summed = match sum {
            Some(column) => format!("coalesce(sum({}), 0)::numeric::text", known(&info, column)?),
            None => "NULL::text".into(),
        };
        let query = sqlx::query(safe(format!("SELECT count(*), {summed} FROM {}", sql::table(&info.table))));
        let rows = self.report(WHAT, query).await?;
        let Some(row) = rows.first() else { return Err(unreadable("no row")) };
        let digits: Option<String> = get(row, 1)?;
        let sum = digits.map(|d| d.parse::<BigDecimal>().map_err(unreadable)).transpose()?;
        Ok(TargetTotal { rows: count(row, 0)?, sum, table: info.table })
    }
}

/// The column's name as the catalog has it, quoted.
fn known(info: &TableInfo, column: &str) -> Result<String, StoreError> {
    info.column(column).map(|c| sql::quoted(&c.name)).ok_or_else(|| {
        StoreError::fatal(Statement::Report, format!("read table {}", info.table), format!("it has no column {column}"))
    })
}

fn unreadable(what: impl std::fmt::Display) -> StoreError {
    StoreError::fatal(Statement::Report, "read a report", what.to_string())
}

fn get<'r, T>(row: &'r PgRow, at: usize) -> Result<T, StoreError>
where
    T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    Lane::get(row, at, Statement::Report, "read a report")
}

fn count(row: &PgRow, at: usize) -> Result<u64, StoreError> {
    u64::try_from(get::<i64>(row, at)?).map_err(unreadable)
}
