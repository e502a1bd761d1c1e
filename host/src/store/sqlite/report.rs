//! Figures and proofs, read from the database.

use std::{collections::BTreeMap, str::FromStr, sync::Arc};

use bigdecimal::BigDecimal;
use futures_util::TryStreamExt;
use sqlx::{AssertSqlSafe, Row, SqliteConnection, sqlite::SqliteRow};
use uuid::Uuid;

use super::{
    super::{
        ChainFault, ConsumerRow, ConsumerStatus, PartitionStatus, Repeats, Statement, StoreError, TargetDuplicates,
        TargetTotal, Tip, Totals,
    },
    catalog::table_sql,
    error::store_error,
    statements::quoted,
};
use crate::{identity::ConsumerName, merge::TableInfo, record::TopicPartition};

fn failed(what: &str) -> impl Fn(sqlx::Error) -> StoreError + use<> {
    let context = format!("read {what}");
    move |error| store_error(Statement::Report, context.clone(), error)
}

fn decode(error: impl std::error::Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::Decode(Box::new(error))
}

fn count(row: &SqliteRow, at: usize) -> Result<u64, sqlx::Error> {
    u64::try_from(row.try_get::<i64, _>(at)?).map_err(decode)
}

pub(super) async fn consumers(
    conn: &mut SqliteConnection,
    consumer: Option<&ConsumerName>,
) -> Result<Vec<ConsumerRow>, StoreError> {
    let rows = sqlx::query(
        "SELECT consumer_name, group_id, key_version, plugin_digest, horizon, started_from, created_at \
         FROM consumers WHERE ?1 IS NULL OR consumer_name = ?1 ORDER BY consumer_name",
    )
    .bind(consumer.map(|name| name.as_str()))
    .fetch_all(conn)
    .await
    .map_err(failed("the consumers"))?;
    let read = |row: &SqliteRow| -> Result<ConsumerRow, sqlx::Error> {
        Ok(ConsumerRow {
            name: ConsumerName::new(row.try_get::<String, _>(0)?).map_err(decode)?,
            group: row.try_get(1)?,
            key_version: row.try_get(2)?,
            plugin_digest: row.try_get(3)?,
            horizon_us: row.try_get(4)?,
            lock_no: 0,
            started_from: serde_json::from_str(&row.try_get::<String, _>(5)?).map_err(decode)?,
            created_at_us: row.try_get(6)?,
        })
    };
    rows.iter().map(read).collect::<Result<_, _>>().map_err(failed("the consumers"))
}

pub(super) async fn status(
    conn: &mut SqliteConnection,
    consumer: Option<&ConsumerName>,
) -> Result<Vec<ConsumerStatus>, StoreError> {
    let mut all = Vec::new();
    for row in consumers(conn, consumer).await? {
        let name = row.name.clone();
        all.push(ConsumerStatus {
            consumer: row,
            ledger_rows: one_count(
                conn,
                &name,
                "the ledger",
                "SELECT count(*) FROM processed_messages WHERE consumer_name = ?",
            )
            .await?,
            partitions: partitions(conn, &name).await?,
            dead_letters: dead_letters(conn, &name).await?,
            repeats: repeats(conn, &name).await?,
            conflicts: one_count(
                conn,
                &name,
                "payload conflicts",
                "SELECT count(*) FROM payload_conflicts WHERE consumer_name = ?",
            )
            .await?,
        });
    }
    Ok(all)
}

async fn one_count(
    conn: &mut SqliteConnection,
    consumer: &ConsumerName,
    what: &str,
    sql: &'static str,
) -> Result<u64, StoreError> {
    let row = sqlx::query(sql).bind(consumer.as_str()).fetch_one(conn).await.map_err(failed(what))?;
    count(&row, 0).map_err(failed(what))
}

async fn partitions(conn: &mut SqliteConnection, consumer: &ConsumerName) -> Result<Vec<PartitionStatus>, StoreError> {
    let what = failed("the checkpoints");
    // Of a group with max(), SQLite takes the other columns from the row that has it.
    let rows = sqlx::query(
        "SELECT cluster_id, topic_id, topic, partition, max(seq), checkpoint_id, next_offset, committed_at \
         FROM checkpoints WHERE consumer_name = ? GROUP BY cluster_id, topic_id, partition \
         ORDER BY topic, cluster_id, topic_id, partition",
    )
    .bind(consumer.as_str())
    .fetch_all(&mut *conn)
    .await
    .map_err(&what)?;
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let read = || -> Result<(TopicPartition, Tip, i64), sqlx::Error> {
            let partition = TopicPartition {
                cluster_id: row.try_get::<String, _>(0)?.into(),
                topic_id: Uuid::from_str(row.try_get(1)?).map_err(decode)?,
                topic: row.try_get::<String, _>(2)?.into(),
                partition: row.try_get(3)?,
            };
            let id = Uuid::from_slice(row.try_get(5)?).map_err(decode)?;
            Ok((partition, Tip { seq: row.try_get(4)?, id, next_offset: row.try_get(6)? }, row.try_get(7)?))
        };
        let (partition, tip, committed_at_us) = read().map_err(&what)?;
        let sums = sqlx::query(
            "SELECT count(*), coalesce(sum(applied), 0), coalesce(sum(duplicate), 0), coalesce(sum(skipped), 0), \
             coalesce(sum(dead), 0), coalesce(sum(too_old), 0), \
             coalesce(sum(next_offset - first_offset - consumed) FILTER (WHERE kind = 'r'), 0) FROM checkpoints \
             WHERE consumer_name = ? AND cluster_id = ? AND topic_id = ? AND partition = ?",
        )
        .bind(consumer.as_str())
        .bind(&*partition.cluster_id)
        .bind(partition.topic_id.to_string())
        .bind(partition.partition)
        .fetch_one(&mut *conn)
        .await
        .map_err(&what)?;
        let totals = || -> Result<(u64, Totals, u64), sqlx::Error> {
            let totals = Totals {
                applied: count(&sums, 1)?,
                duplicate: count(&sums, 2)?,
                skipped: count(&sums, 3)?,
                dead: count(&sums, 4)?,
                too_old: count(&sums, 5)?,
            };
            Ok((count(&sums, 0)?, totals, count(&sums, 6)?))
        };
        let (links, totals, without_record) = totals().map_err(&what)?;
        let partition = Arc::new(partition);
        found.push(PartitionStatus { partition, tip, links, totals, without_record, committed_at_us });
    }
    Ok(found)
}

async fn dead_letters(
    conn: &mut SqliteConnection,
    consumer: &ConsumerName,
) -> Result<BTreeMap<String, u64>, StoreError> {
    let what = failed("the dead letters");
    let rows = sqlx::query("SELECT status, count(*) FROM dead_letters WHERE consumer_name = ? GROUP BY status")
        .bind(consumer.as_str())
        .fetch_all(conn)
        .await
        .map_err(&what)?;
    rows.iter().map(|row| Ok((row.try_get(0)?, count(row, 1)?))).collect::<Result<_, _>>().map_err(what)
}

async fn repeats(conn: &mut SqliteConnection, consumer: &ConsumerName) -> Result<Repeats, StoreError> {
    let what = failed("the repeated inputs");
    let sums = sqlx::query(
        "SELECT count(DISTINCT message_id), coalesce(sum(seen), 0) FROM duplicate_attempts WHERE consumer_name = ?",
    )
    .bind(consumer.as_str())
    .fetch_one(&mut *conn)
    .await
    .map_err(&what)?;
    // R3's first query, without spelling out every attempt: an id's duplicates, and the time it was applied.
    let examples = sqlx::query(
        "SELECT d.message_id, sum(d.seen) + EXISTS (SELECT 1 FROM processed_messages p \
         WHERE p.consumer_name = d.consumer_name AND p.message_id = d.message_id) AS attempts \
         FROM duplicate_attempts d WHERE d.consumer_name = ? GROUP BY d.message_id \
         ORDER BY attempts DESC, d.message_id LIMIT 5",
    )
    .bind(consumer.as_str())
    .fetch_all(conn)
    .await
    .map_err(&what)?;
    let read = || -> Result<Repeats, sqlx::Error> {
        Ok(Repeats {
            ids: count(&sums, 0)?,
            attempts: count(&sums, 1)?,
            examples: examples
                .iter()
                .map(|row| Ok((row.try_get(0)?, count(row, 1)?)))
                .collect::<Result<_, sqlx::Error>>()?,
        })
    };
    read().map_err(what)
}

pub(super) async fn chain_faults(
    conn: &mut SqliteConnection,
    consumer: &ConsumerName,
) -> Result<Vec<ChainFault>, StoreError> {
    let what = failed("the checkpoint chains");
    let rows = sqlx::query(
        "SELECT topic_id, partition, seq, pnext, first_offset, \
         CASE WHEN pseq IS NULL AND seq > 0 THEN 'link missing' WHEN seq <> pseq + 1 AND NOT (pseq = 0 AND seq > 1) \
         THEN 'link missing' WHEN prev_id IS NOT pid AND NOT (pseq = 0 AND seq > 1) THEN 'wrong predecessor' \
         WHEN consumed <> applied + duplicate + skipped + dead + too_old THEN 'counts' \
         WHEN kind = 'r' AND consumed > next_offset - first_offset THEN 'more records than offsets' \
         WHEN first_offset > pnext THEN 'hole' ELSE 'overlap' END \
         FROM (SELECT *, lag(checkpoint_id) OVER w AS pid, lag(next_offset) OVER w AS pnext, lag(seq) OVER w AS pseq \
               FROM checkpoints WHERE consumer_name = ? \
               WINDOW w AS (PARTITION BY cluster_id, topic_id, partition ORDER BY seq)) k \
         WHERE consumed <> applied + duplicate + skipped + dead + too_old \
            OR (kind = 'r' AND consumed > next_offset - first_offset) OR (pseq IS NULL AND seq > 0) \
            OR (pseq IS NOT NULL AND NOT (pseq = 0 AND seq > 1) \
                AND (seq <> pseq + 1 OR prev_id IS NOT pid OR first_offset <> pnext)) \
         ORDER BY topic_id, partition, seq LIMIT 100",
    )
    .bind(consumer.as_str())
    .fetch_all(conn)
    .await
    .map_err(&what)?;
    let read = |row: &SqliteRow| -> Result<ChainFault, sqlx::Error> {
        Ok(ChainFault {
            topic_id: Uuid::from_str(row.try_get(0)?).map_err(decode)?,
            partition: row.try_get(1)?,
            seq: row.try_get(2)?,
            expected: row.try_get(3)?,
            found: row.try_get(4)?,
            fault: row.try_get(5)?,
        })
    };
    rows.iter().map(read).collect::<Result<_, _>>().map_err(what)
}

/// The names as the catalog has them, or an error that says which is missing.
fn confirmed(info: &TableInfo, column: &str) -> Result<String, StoreError> {
    info.column(column).map(|c| quoted(&c.name)).ok_or_else(|| {
        StoreError::fatal(Statement::Report, format!("read table {}", info.table), format!("it has no column {column}"))
    })
}

pub(super) async fn target_duplicates(
    conn: &mut SqliteConnection,
    info: &TableInfo,
    key: &[String],
) -> Result<TargetDuplicates, StoreError> {
    let columns: Vec<String> = key.iter().map(|column| confirmed(info, column)).collect::<Result<_, _>>()?;
    let list = columns.join(", ");
    let query = format!("SELECT {list}, count(*) FROM {} GROUP BY {list} HAVING count(*) > 1", table_sql(&info.table));
    let what = failed(&format!("table {}", info.table));
    let row =
        sqlx::query(AssertSqlSafe(format!("SELECT count(*) FROM ({query})"))).fetch_one(conn).await.map_err(&what)?;
    Ok(TargetDuplicates { keys: count(&row, 0).map_err(what)?, query })
}

pub(super) async fn target_total(
    conn: &mut SqliteConnection,
    info: &TableInfo,
    sum: Option<&str>,
) -> Result<TargetTotal, StoreError> {
    let what = failed(&format!("table {}", info.table));
    let table = table_sql(&info.table);
    let row = sqlx::query(AssertSqlSafe(format!("SELECT count(*) FROM {table}")))
        .fetch_one(&mut *conn)
        .await
        .map_err(&what)?;
    let rows = count(&row, 0).map_err(&what)?;
    let sum = match sum {
        None => None,
        // Added here: SQLite would take decimals that are kept as text for doubles.
        Some(column) => {
            let column = confirmed(info, column)?;
            let sql = format!("SELECT CAST({column} AS TEXT) FROM {table} WHERE {column} IS NOT NULL");
            let mut values = sqlx::query_scalar::<_, String>(AssertSqlSafe(sql)).fetch(&mut *conn);
            let mut total = BigDecimal::from(0);
            while let Some(text) = values.try_next().await.map_err(&what)? {
                total += BigDecimal::from_str(&text).map_err(|error| what(decode(error)))?;
            }
            Some(total)
        }
    };
    Ok(TargetTotal { table: info.table.clone(), rows, sum })
}
