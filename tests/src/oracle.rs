//! What must be true after everything that can happen, asked of the database: nothing lost, nothing applied twice, and a
//! checkpoint chain without a hole.

use std::collections::BTreeSet;

use sqlx::Row;

use crate::{broker::Broker, database::Database};

/// The outcomes of a consumer, added up over its chains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records that some transaction covered.
    pub consumed: i64,
    /// Applied for the first time.
    pub applied: i64,
    /// Skipped as known.
    pub duplicate: i64,
    /// Not for this consumer.
    pub skipped: i64,
    /// Put among the dead letters.
    pub dead: i64,
    /// Older than the ledger remembers.
    pub too_old: i64,
}

/// Every fault of a consumer's chains; none is expected, whatever happened.
const FAULTS: &str = "
SELECT format('%s[%s] link %s (%s): expected %s, found %s: %s', topic_id, partition, seq, checkpoint_id, pnext, first_offset,
  CASE WHEN seq <> pseq + 1 THEN 'link missing' WHEN prev_id IS DISTINCT FROM pid THEN 'wrong predecessor'
       WHEN first_offset > pnext THEN 'hole' WHEN first_offset < pnext THEN 'overlap'
       WHEN consumed <> applied + duplicate + skipped + dead + too_old THEN 'counts'
       ELSE 'more records than offsets, or no genesis' END) AS fault
FROM (SELECT *, lag(checkpoint_id) OVER w AS pid, lag(next_offset) OVER w AS pnext, lag(seq) OVER w AS pseq
      FROM checkpoints WHERE consumer_name = $1
      WINDOW w AS (PARTITION BY cluster_id, topic_id, partition ORDER BY seq)) k
WHERE consumed <> applied + duplicate + skipped + dead + too_old
   OR (kind = 'r' AND consumed > next_offset - first_offset)
   OR (pseq IS NULL AND seq > 0)
   -- The one gap that pruning leaves is behind the genesis.
   OR (pseq IS NOT NULL AND NOT (pseq = 0 AND seq > 1)
       AND (seq <> pseq + 1 OR prev_id IS DISTINCT FROM pid OR first_offset <> pnext))";

/// Fails with every fault of the consumer's checkpoint chains.
///
/// # Panics
/// Where there is one, or the consumer has no checkpoint at all.
pub async fn assert_chain_tiles(database: &Database, consumer: &str) {
    let faults: Vec<String> = sqlx::query_scalar(FAULTS).bind(consumer).fetch_all(database.pool()).await.unwrap();
    assert!(faults.is_empty(), "the chain of {consumer} is broken:\n{}", faults.join("\n"));
    let links: i64 = sqlx::query_scalar("SELECT count(*) FROM checkpoints WHERE consumer_name = $1")
        .bind(consumer)
        .fetch_one(database.pool())
        .await
        .unwrap();
    assert!(links > 0, "{consumer} has no checkpoint");
}

/// The consumer's outcomes so far; zeros where the tables are not there yet or the server is down.
pub async fn totals(database: &Database, consumer: &str) -> Totals {
    let row = sqlx::query(
        "SELECT coalesce(sum(consumed), 0)::bigint AS consumed, coalesce(sum(applied), 0)::bigint AS applied,
         coalesce(sum(duplicate), 0)::bigint AS duplicate, coalesce(sum(skipped), 0)::bigint AS skipped,
         coalesce(sum(dead), 0)::bigint AS dead, coalesce(sum(too_old), 0)::bigint AS too_old
         FROM checkpoints WHERE consumer_name = $1",
    )
    .bind(consumer)
    .fetch_one(database.pool())
    .await;
    let Ok(row) = row else { return Totals::default() };
    Totals {
        consumed: row.get("consumed"),
        applied: row.get("applied"),
        duplicate: row.get("duplicate"),
        skipped: row.get("skipped"),
        dead: row.get("dead"),
        too_old: row.get("too_old"),
    }
}

/// Where the consumer's chains stand: per partition of the topic the next offset, 0 where there is no chain yet. All zeros
/// where the tables are not there yet or the server is down.
pub async fn positions(database: &Database, consumer: &str, topic: &str, partitions: usize) -> Vec<i64> {
    let rows: Result<Vec<(i32, i64)>, _> = sqlx::query_as(
        "SELECT DISTINCT ON (partition) partition, next_offset FROM checkpoints
         WHERE consumer_name = $1 AND topic = $2 ORDER BY partition, seq DESC",
    )
    .bind(consumer)
    .bind(topic)
    .fetch_all(database.pool())
    .await;
    let mut positions = vec![0; partitions];
    for (partition, next) in rows.unwrap_or_default() {
        if let Some(position) = usize::try_from(partition).ok().and_then(|at| positions.get_mut(at)) {
            *position = next;
        }
    }
    positions
}

/// Waits until the consumer's chains cover everything that stands in the topic now.
///
/// # Panics
/// Where they stop moving before.
pub async fn until_consumed(database: &Database, broker: &Broker, consumer: &str, topic: &str) {
    let ends: Vec<i64> = broker.watermarks(topic).into_iter().map(|(_, end)| end).collect();
    let what = format!("{consumer} has consumed {topic} up to {ends:?}");
    crate::wait::until(
        &what,
        async || positions(database, consumer, topic, ends.len()).await,
        |at| at.iter().zip(&ends).all(|(at, end)| at >= end),
    )
    .await;
}

/// Fails unless the consumer's ledger holds exactly these ids.
///
/// # Panics
/// With the first ids that are missing or too many.
pub async fn assert_ledger(database: &Database, consumer: &str, expected: &BTreeSet<String>) {
    let found: Vec<String> = sqlx::query_scalar("SELECT message_id FROM processed_messages WHERE consumer_name = $1")
        .bind(consumer)
        .fetch_all(database.pool())
        .await
        .unwrap();
    let found: BTreeSet<String> = found.into_iter().collect();
    let few = |ids: Vec<&String>| format!("{} such as {:?}", ids.len(), &ids[..ids.len().min(5)]);
    let missing: Vec<_> = expected.difference(&found).collect();
    let strange: Vec<_> = found.difference(expected).collect();
    assert!(
        missing.is_empty() && strange.is_empty(),
        "the ledger of {consumer}: missing {}; unexpected {}",
        few(missing),
        few(strange)
    );
}

/// How many keys of a target have more than one row: the second proof, 0 whatever happened.
///
/// # Panics
/// Where the table cannot be read.
pub async fn target_duplicates(database: &Database, table: &str, key: &str) -> i64 {
    database.number(&format!("SELECT count(*) FROM (SELECT 1 FROM {table} GROUP BY {key} HAVING count(*) > 1) d")).await
}
