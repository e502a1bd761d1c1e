//! Looks at the database all the time: where the chains stand, and when somebody last committed.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use sqlx::PgPool;
use tokio::{sync::watch, time::sleep};
use uuid::Uuid;

use super::{chronicle::Chronicle, traffic::Reins};

/// How often.
const PAUSE: Duration = Duration::from_millis(100);
/// How long one look may take. A database that is down answers nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Per partition, the next offset; 0 where there is no chain yet.
    pub positions: Vec<i64>,
    /// Per partition, when the transaction of its newest link began: seconds since 1970, by the database's clock.
    pub committed: Vec<f64>,
}

impl Seen {
    /// When the newest transaction began.
    #[must_use]
    pub fn newest(&self) -> f64 {
        self.committed.iter().copied().fold(0.0, f64::max)
    }

    /// When the partition that waits longest was last moved.
    #[must_use]
    pub fn oldest(&self) -> f64 {
        self.committed.iter().copied().reduce(f64::min).unwrap_or(0.0)
    }
}

/// Seconds since 1970; the database runs on this machine and has the same clock.
#[must_use]
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// The newest life of a topic.
const LIFE: &str = "SELECT cluster_id, topic_id FROM checkpoints WHERE consumer_name = $1 AND topic = $2 AND seq = 0
ORDER BY committed_at DESC LIMIT 1";

/// The tips of a topic's chains, by the index that the product has.
const TIPS: &str = "
SELECT p.partition, t.next_offset, extract(epoch FROM t.committed_at)::float8
FROM generate_series(0, $4 - 1) AS p(partition)
CROSS JOIN LATERAL (
  SELECT next_offset, committed_at FROM checkpoints c
  WHERE c.consumer_name = $1 AND c.cluster_id = $2 AND c.topic_id = $3 AND c.partition = p.partition
  ORDER BY seq DESC LIMIT 1) t";

/// How long a topic's id is believed.
const BELIEVED: Duration = Duration::from_secs(10);

/// Whose chains are looked at.
#[derive(Debug)]
pub struct Look {
    pool: PgPool,
    consumer: &'static str,
    topic: String,
    life: Option<(String, Uuid, Instant)>,
}

impl Look {
    /// At this consumer's chains of this topic.
    #[must_use]
    pub fn new(pool: PgPool, consumer: &'static str, topic: &str) -> Self {
        Self { pool, consumer, topic: topic.to_owned(), life: None }
    }

    /// One look; `None` where the database does not answer.
    pub async fn at(&mut self, partitions: usize) -> Option<Seen> {
        let seen = tokio::time::timeout(PATIENCE, self.ask(partitions)).await;
        seen.ok()?.ok()
    }

    async fn ask(&mut self, partitions: usize) -> Result<Seen, sqlx::Error> {
        let mut seen = Seen { positions: vec![0; partitions], committed: vec![0.0; partitions] };
        if self.life.as_ref().is_none_or(|(_, _, since)| since.elapsed() > BELIEVED) {
            let found = sqlx::query_as::<_, (String, Uuid)>(LIFE).bind(self.consumer).bind(&self.topic);
            let found = found.fetch_optional(&self.pool).await?;
            self.life = found.map(|(cluster, topic)| (cluster, topic, Instant::now()));
        }
        let Some((cluster, topic, _)) = &self.life else { return Ok(seen) };
        let ask = sqlx::query_as::<_, (i32, i64, f64)>(TIPS).bind(self.consumer).bind(cluster).bind(topic);
        let rows = ask.bind(i32::try_from(partitions).unwrap_or(i32::MAX)).fetch_all(&self.pool).await?;
        for (partition, next, committed) in rows {
            if let Ok(at) = usize::try_from(partition) {
                seen.positions[at] = next;
                seen.committed[at] = committed;
            }
        }
        Ok(seen)
    }
}

/// Watches until nobody listens any more. Tells the producer how far the consumers are, and the chronicle about the
/// longest time without a commit.
pub async fn watch(mut look: Look, reins: Arc<Reins>, chronicle: Arc<Chronicle>, out: watch::Sender<Seen>) {
    let mut moved = Instant::now();
    let mut newest = 0.0;
    let mut longest = Duration::ZERO;
    while !out.is_closed() {
        if let Some(seen) = look.at(reins.partitions()).await {
            let consumed = seen.positions.iter().sum::<i64>();
            reins.consumed(u64::try_from(consumed).unwrap_or(0));
            if seen.newest() > newest {
                let gap = moved.elapsed();
                if gap > longest && newest > 0.0 && gap > Duration::from_secs(5) {
                    longest = gap;
                    chronicle.note(format_args!("the longest time without a commit: {:.1} s", gap.as_secs_f64()));
                }
                newest = seen.newest();
                moved = Instant::now();
            }
            out.send_replace(seen);
        }
        sleep(PAUSE).await;
    }
    chronicle.recovered("longest time without a commit", longest);
}
