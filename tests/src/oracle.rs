//! What must be true after everything that can happen, asked of the database: nothing lost, nothing applied twice, and a
//! checkpoint chain without a hole.

use std::collections::BTreeSet;

use crate::{broker::Broker, sql::Sql};

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

/// Every fault of a consumer's chains; none is expected, whatever happened. In words that both databases understand.
fn faults(consumer: &str) -> String {
    format!(
        "SELECT topic_id || '[' || partition || '] link ' || seq || ': expected ' || coalesce(CAST(pnext AS text), 'none')
  || ', found ' || first_offset || ': ' ||
  CASE WHEN seq <> pseq + 1 THEN 'link missing' WHEN prev_id IS DISTINCT FROM pid THEN 'wrong predecessor'
       WHEN first_offset > pnext THEN 'hole' WHEN first_offset < pnext THEN 'overlap'
       WHEN consumed <> applied + duplicate + skipped + dead + too_old THEN 'counts'
       ELSE 'more records than offsets, or no genesis' END
FROM (SELECT *, lag(checkpoint_id) OVER w AS pid, lag(next_offset) OVER w AS pnext, lag(seq) OVER w AS pseq
      FROM checkpoints WHERE consumer_name = '{consumer}'
      WINDOW w AS (PARTITION BY cluster_id, topic_id, partition ORDER BY seq)) k
WHERE consumed <> applied + duplicate + skipped + dead + too_old
   OR (kind = 'r' AND consumed > next_offset - first_offset)
   OR (pseq IS NULL AND seq > 0)
   -- The one gap that pruning leaves is behind the genesis.
   OR (pseq IS NOT NULL AND NOT (pseq = 0 AND seq > 1)
       AND (seq <> pseq + 1 OR prev_id IS DISTINCT FROM pid OR first_offset <> pnext))"
    )
}

/// Fails with every fault of the consumer's checkpoint chains.
///
/// # Panics
/// Where there is one, or the consumer has no checkpoint at all.
pub async fn assert_chain_tiles(database: &impl Sql, consumer: &str) {
    let faults = chain_faults(database, consumer).await;
    assert!(faults.is_empty(), "the chain of {consumer} is broken:\n{}", faults.join("\n"));
    let links = database.number(&format!("SELECT count(*) FROM checkpoints WHERE consumer_name = '{consumer}'")).await;
    assert!(links > 0, "{consumer} has no checkpoint");
}

/// Every fault of the consumer's checkpoint chains.
///
/// # Panics
/// Where the database does not answer.
pub async fn chain_faults(database: &impl Sql, consumer: &str) -> Vec<String> {
    database.texts(&faults(consumer)).await
}

/// The consumer's outcomes so far; zeros where the tables are not there yet or the server is down.
pub async fn totals(database: &impl Sql, consumer: &str) -> Totals {
    let sums = ["consumed", "applied", "duplicate", "skipped", "dead", "too_old"]
        .map(|column| format!("CAST(coalesce(sum({column}), 0) AS bigint)"))
        .join(", ");
    let sql = format!("SELECT {sums} FROM checkpoints WHERE consumer_name = '{consumer}'");
    let Ok(rows) = database.integers(&sql).await else { return Totals::default() };
    let [consumed, applied, duplicate, skipped, dead, too_old] = rows[0][..] else { panic!("{rows:?}") };
    Totals { consumed, applied, duplicate, skipped, dead, too_old }
}

/// The most records that one of the consumer's chains was ever moved back over; 0 where none was.
///
/// # Panics
/// Where the database does not answer.
pub async fn longest_way_back(database: &impl Sql, consumer: &str) -> i64 {
    let sql = format!(
        "SELECT coalesce(max(first_offset - next_offset), 0) FROM checkpoints
         WHERE consumer_name = '{consumer}' AND kind = 'm' AND first_offset > next_offset"
    );
    database.number(&sql).await
}

/// Where the consumer's chains stand: per partition of the topic the next offset, 0 where there is no chain yet. All zeros
/// where the tables are not there yet or the server is down.
pub async fn positions(database: &impl Sql, consumer: &str, topic: &str, partitions: usize) -> Vec<i64> {
    let sql = format!(
        "SELECT CAST(partition AS bigint), next_offset
         FROM (SELECT *, row_number() OVER (PARTITION BY partition ORDER BY seq DESC) AS age
               FROM checkpoints WHERE consumer_name = '{consumer}' AND topic = '{topic}') c WHERE age = 1"
    );
    let mut positions = vec![0; partitions];
    for row in database.integers(&sql).await.unwrap_or_default() {
        if let Some(position) = usize::try_from(row[0]).ok().and_then(|at| positions.get_mut(at)) {
            *position = row[1];
        }
    }
    positions
}

/// Waits until the consumer's chains cover everything that stands in the topic now.
///
/// # Panics
/// Where they stop moving before.
pub async fn until_consumed(database: &impl Sql, broker: &Broker, consumer: &str, topic: &str) {
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
pub async fn assert_ledger(database: &impl Sql, consumer: &str, expected: &BTreeSet<String>) {
    let found =
        database.texts(&format!("SELECT message_id FROM processed_messages WHERE consumer_name = '{consumer}'")).await;
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
pub async fn target_duplicates(database: &impl Sql, table: &str, key: &str) -> i64 {
    database.number(&format!("SELECT count(*) FROM (SELECT 1 FROM {table} GROUP BY {key} HAVING count(*) > 1) d")).await
}
