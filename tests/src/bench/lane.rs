//! The statements that an idempotent consumer cannot do without, as the roof and the hand-written consumer run them: the
//! ledger insert and the guarded upsert of the first-timers, by UNNEST, in one transaction.

use std::{
    collections::{HashMap, HashSet},
    time::{SystemTime, UNIX_EPOCH},
};

use sqlx::{Connection, Executor, PgConnection};

/// The consumer's name in all ledgers of the bench.
pub(super) const CONSUMER: &str = "bench";

const LEDGER: &str = "
INSERT INTO processed_messages (consumer_name, message_id, aggregate_id, source_topic, source_partition, source_offset, fingerprint)
SELECT $1, u.* FROM unnest($2::varchar[], $3::varchar[], $4::varchar[], $5::int[], $6::bigint[], $7::bytea[]) u
ON CONFLICT (consumer_name, message_id) DO NOTHING RETURNING message_id";

const UPSERT: &str = "
INSERT INTO settlements AS t (payment_id, order_id, amount, status, event_version, created_at)
SELECT u.p, u.o, u.a::numeric, u.s, u.v, u.c::timestamptz
FROM unnest($1::varchar[], $2::varchar[], $3::text[], $4::text[], $5::bigint[], $6::text[]) u(p, o, a, s, v, c)
ON CONFLICT (payment_id) DO UPDATE SET
  order_id = excluded.order_id, amount = excluded.amount, status = excluded.status,
  event_version = excluded.event_version, created_at = coalesce(t.created_at, excluded.created_at)
WHERE t.event_version IS NULL OR excluded.event_version > t.event_version";

/// One message, parsed.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) event_id: String,
    pub(super) order_id: String,
    pub(super) payment_id: String,
    pub(super) amount: String,
    pub(super) status: String,
    pub(super) version: i64,
    pub(super) occurred_at: String,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) fingerprint: [u8; 16],
}

/// A lane's connection and when its commits were.
pub(super) struct Lane {
    connection: PgConnection,
    /// Milliseconds since the epoch, and messages covered, of every commit.
    pub(super) commits: Vec<(u128, usize)>,
}

impl Lane {
    pub(super) async fn connect(url: &str) -> Result<Self, sqlx::Error> {
        Ok(Self { connection: PgConnection::connect(url).await?, commits: Vec::new() })
    }

    /// One batch in one transaction.
    pub(super) async fn apply(&mut self, topic: &str, rows: &[Row]) -> Result<(), sqlx::Error> {
        // The first of each id; sorted, so that two lanes lock in one order.
        let mut seen = HashSet::with_capacity(rows.len());
        let mut first: Vec<&Row> = rows.iter().filter(|row| seen.insert(row.event_id.as_str())).collect();
        first.sort_unstable_by(|a, b| a.event_id.cmp(&b.event_id));

        let mut transaction = self.connection.begin().await?;
        transaction.execute("SET LOCAL synchronous_commit = on").await?;
        let inserted: Vec<String> = sqlx::query_scalar(LEDGER)
            .bind(CONSUMER)
            .bind(first.iter().map(|row| row.event_id.as_str()).collect::<Vec<_>>())
            .bind(first.iter().map(|row| row.order_id.as_str()).collect::<Vec<_>>())
            .bind(vec![topic; first.len()])
            .bind(first.iter().map(|row| row.partition).collect::<Vec<_>>())
            .bind(first.iter().map(|row| row.offset).collect::<Vec<_>>())
            .bind(first.iter().map(|row| row.fingerprint.as_slice()).collect::<Vec<_>>())
            .fetch_all(&mut *transaction)
            .await?;

        // A key once per statement: under this guard the newest of a batch stands for all of them.
        let inserted: HashSet<&str> = inserted.iter().map(String::as_str).collect();
        let mut newest: HashMap<&str, &Row> = HashMap::with_capacity(inserted.len());
        for row in first.into_iter().filter(|row| inserted.contains(row.event_id.as_str())) {
            let kept = newest.entry(&row.payment_id).or_insert(row);
            if row.version > kept.version {
                *kept = row;
            }
        }
        let mut changes: Vec<&Row> = newest.into_values().collect();
        changes.sort_unstable_by(|a, b| a.payment_id.cmp(&b.payment_id));
        sqlx::query(UPSERT)
            .bind(changes.iter().map(|row| row.payment_id.as_str()).collect::<Vec<_>>())
            .bind(changes.iter().map(|row| row.order_id.as_str()).collect::<Vec<_>>())
            .bind(changes.iter().map(|row| row.amount.as_str()).collect::<Vec<_>>())
            .bind(changes.iter().map(|row| row.status.as_str()).collect::<Vec<_>>())
            .bind(changes.iter().map(|row| row.version).collect::<Vec<_>>())
            .bind(changes.iter().map(|row| row.occurred_at.as_str()).collect::<Vec<_>>())
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        self.commits.push((now_ms(), rows.len()));
        Ok(())
    }
}

pub(super) fn now_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis())
}
