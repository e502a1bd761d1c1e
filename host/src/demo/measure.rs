//! What came of a run, asked of the broker (how much there is) and of the database (how far each consumer is, and what
//! it made of it). Nothing here knows what was to be expected.

use std::collections::BTreeMap;

use super::{broker::Broker, database::Database, error::DemoError, service::Service, story::Feed};

/// Outcomes of one consumer, added up over its checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcomes {
    pub(super) consumed: i64,
    pub(super) applied: i64,
    pub(super) duplicate: i64,
    pub(super) skipped: i64,
    pub(super) dead: i64,
    pub(super) too_old: i64,
}

impl std::ops::AddAssign for Outcomes {
    fn add_assign(&mut self, other: Self) {
        self.consumed += other.consumed;
        self.applied += other.applied;
        self.duplicate += other.duplicate;
        self.skipped += other.skipped;
        self.dead += other.dead;
        self.too_old += other.too_old;
    }
}

/// One partition's chain of checkpoints, for one consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) service: Service,
    pub(super) feed: Feed,
    pub(super) partition: i32,
    /// The first offset that no checkpoint covers.
    pub(super) next_offset: i64,
    pub(super) outcomes: Outcomes,
}

/// All chains, in one statement: cheap enough to ask many times a second.
const CHAINS: &str = "\
    SELECT c.consumer_name, c.topic, CAST(c.partition AS text), CAST(c.next_offset AS text), \
           CAST(s.consumed AS text), CAST(s.applied AS text), CAST(s.duplicate AS text), \
           CAST(s.skipped AS text), CAST(s.dead AS text), CAST(s.too_old AS text) \
    FROM checkpoints c JOIN ( \
        SELECT consumer_name, topic_id, partition, max(seq) AS seq, sum(consumed) AS consumed, sum(applied) AS applied, \
               sum(duplicate) AS duplicate, sum(skipped) AS skipped, sum(dead) AS dead, sum(too_old) AS too_old \
        FROM checkpoints GROUP BY consumer_name, topic_id, partition \
    ) s ON s.consumer_name = c.consumer_name AND s.topic_id = c.topic_id AND s.partition = c.partition AND s.seq = c.seq";

/// Links that do not begin where their predecessor ended: none, or the chain does not tile.
const TORN_LINKS: &str = "\
    FROM checkpoints c LEFT JOIN checkpoints p ON p.checkpoint_id = c.prev_id \
    WHERE c.seq > 0 AND (p.checkpoint_id IS NULL OR p.next_offset <> c.first_offset OR p.seq <> c.seq - 1)";

/// Links that move a position back.
const REWINDS: &str = "FROM checkpoints WHERE kind = 'm' AND next_offset < first_offset AND";

/// The query over all attempts that may give rows: a repeat is no fault.
pub(super) const REPEATED_ATTEMPTS: &str =
    "SELECT input_id, count(*) FROM processed_input_attempts GROUP BY input_id HAVING count(*) > 1";

const REPEATED_INPUTS: &str = "SELECT consumer_name, input_id FROM processed_input_attempts \
     GROUP BY consumer_name, input_id HAVING count(*) > 1";

/// How far every consumer is in every partition.
pub(super) async fn chains(database: &Database, broker: &Broker) -> Result<Vec<Chain>, DemoError> {
    let rows = database.ask(CHAINS).await?;
    rows.iter().filter_map(|row| chain(row, broker).transpose()).collect()
}

/// `None` for a consumer or a topic that is not the demo's.
fn chain(row: &[Option<String>], broker: &Broker) -> Result<Option<Chain>, DemoError> {
    let text = |i: usize| row.get(i).and_then(Option::as_deref).unwrap_or_default();
    let number = |i: usize| {
        text(i).parse::<i64>().map_err(|_| DemoError::Database {
            what: "read the checkpoints".into(),
            message: format!("column {i} is {:?}, expected a whole number", text(i)),
        })
    };
    let service = Service::ALL.into_iter().find(|s| s.name() == text(0));
    let feed = Feed::ALL.into_iter().find(|f| broker.topic(*f) == text(1));
    let (Some(service), Some(feed)) = (service, feed) else { return Ok(None) };
    let outcomes = Outcomes {
        consumed: number(4)?,
        applied: number(5)?,
        duplicate: number(6)?,
        skipped: number(7)?,
        dead: number(8)?,
        too_old: number(9)?,
    };
    let partition = i32::try_from(number(2)?).unwrap_or(-1);
    Ok(Some(Chain { service, feed, partition, next_offset: number(3)?, outcomes }))
}

/// The end of every partition, as the broker has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends(pub(super) BTreeMap<(Feed, i32), i64>);

impl Ends {
    /// Asks the broker; blocks.
    pub(super) fn ask(broker: &Broker) -> Result<Self, DemoError> {
        let mut ends = BTreeMap::new();
        for feed in Feed::ALL {
            for (partition, (_, end)) in (0..).zip(broker.watermarks(feed)?) {
                ends.insert((feed, partition), end);
            }
        }
        Ok(Self(ends))
    }

    /// Records in these topics.
    pub(super) fn records(&self, feeds: &[Feed]) -> i64 {
        self.0.iter().filter(|((feed, _), _)| feeds.contains(feed)).map(|(_, end)| end).sum()
    }

    /// Consumers that have not passed the end of a partition: (service, feed, partition, position, end).
    pub(super) fn behind(&self, chains: &[Chain]) -> Vec<(Service, Feed, i32, i64, i64)> {
        let position = |service, feed, partition| {
            chains
                .iter()
                .find(|c| c.service == service && c.feed == feed && c.partition == partition)
                .map_or(0, |c| c.next_offset)
        };
        let mut behind = Vec::new();
        for service in Service::ALL {
            for ((feed, partition), end) in self.0.iter().filter(|((f, _), _)| service.feeds().contains(f)) {
                let at = position(service, *feed, *partition);
                if at < *end {
                    behind.push((service, *feed, *partition, at, *end));
                }
            }
        }
        behind
    }
}

/// What the database says of one consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    pub(super) outcomes: Outcomes,
    /// Offsets that the consumer went back over, after a rebalance that lost a commit: met once more, no fault.
    pub(super) redelivered: i64,
    pub(super) ledger_rows: i64,
    pub(super) dead_letters: i64,
    pub(super) superseded: i64,
    pub(super) payload_conflicts: i64,
    pub(super) target_duplicates: i64,
    /// In the order of [`Service::totals`].
    pub(super) totals: Vec<i64>,
}

/// Everything that the summary says, in figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Measurements {
    /// Records in each topic, as the broker has it.
    pub(super) in_broker: BTreeMap<Feed, i64>,
    pub(super) services: BTreeMap<Service, Measured>,
    /// Rows of [`REPEATED_ATTEMPTS`]: an event that two consumers read is in it, too.
    pub(super) repeated_attempts: i64,
    /// Dead letters of all consumers by their code, the most frequent first.
    pub(super) dead_letter_codes: Vec<(String, i64)>,
    /// Inputs that came to the same consumer more than once.
    pub(super) repeated_inputs: i64,
    /// Offsets that each consumer's group has committed in Kafka, summed; only asked once the host has ended.
    pub(super) committed: BTreeMap<Service, i64>,
    /// Links of a chain that do not fit their predecessor.
    pub(super) torn_links: i64,
}

/// Asks for everything. Only makes sense once all consumers are at the ends.
pub(super) async fn measure(database: &Database, broker: &Broker, ends: &Ends) -> Result<Measurements, DemoError> {
    let chains = chains(database, broker).await?;
    let mut services = BTreeMap::new();
    for service in Service::ALL {
        let mut outcomes = Outcomes::default();
        chains.iter().filter(|c| c.service == service).for_each(|c| outcomes += c.outcomes);
        let of = format!("consumer_name = '{}'", service.name());
        let mut totals = Vec::new();
        for total in service.totals() {
            totals.push(database.number(total.expression, &format!("FROM {}", service.table())).await?);
        }
        let measured = Measured {
            outcomes,
            redelivered: database.number("sum(first_offset - next_offset)", &format!("{REWINDS} {of}")).await?,
            ledger_rows: database.number("count(*)", &format!("FROM processed_messages WHERE {of}")).await?,
            dead_letters: database.number("count(*)", &format!("FROM dead_letters WHERE {of}")).await?,
            superseded: database
                .number("count(*)", &format!("FROM dead_letters WHERE {of} AND status = 'superseded'"))
                .await?,
            payload_conflicts: database.number("count(*)", &format!("FROM payload_conflicts WHERE {of}")).await?,
            target_duplicates: database.count_rows(&service.duplicates_query()).await?,
            totals,
        };
        services.insert(service, measured);
    }
    Ok(Measurements {
        in_broker: Feed::ALL.into_iter().map(|f| (f, ends.records(&[f]))).collect(),
        services,
        repeated_attempts: database.count_rows(REPEATED_ATTEMPTS).await?,
        dead_letter_codes: dead_letter_codes(database).await?,
        repeated_inputs: database.count_rows(REPEATED_INPUTS).await?,
        committed: BTreeMap::new(),
        torn_links: database.number("count(*)", TORN_LINKS).await?,
    })
}

async fn dead_letter_codes(database: &Database) -> Result<Vec<(String, i64)>, DemoError> {
    let sql = "SELECT code, CAST(count(*) AS text) FROM dead_letters GROUP BY code ORDER BY count(*) DESC, code";
    let rows = database.ask(sql).await?;
    let code = |row: &Vec<Option<String>>| {
        let text = |i: usize| row.get(i).and_then(Clone::clone).unwrap_or_default();
        (text(0), text(1).parse().unwrap_or(0))
    };
    Ok(rows.iter().map(code).collect())
}
