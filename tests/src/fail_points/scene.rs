//! A topic, the tables, a consumer whose target *adds amounts up* (whatever is applied twice, or lost, is a wrong sum),
//! and what must be true in the end.

use super::load::{Expected, tables};
use crate::{
    Broker, Database,
    host::{self, Setup},
    intruder::Intruder,
    oracle::{self, Totals},
    servers::Servers,
    settlement::{self, ADDING_UP, CONSUMER, Settlement},
    wait,
};

const LANES: usize = 2;
const MAX_RECORDS: i64 = 100;

pub(super) struct Scene {
    pub(super) broker: Broker,
    pub(super) database: Database,
    pub(super) topic: String,
    pub(super) group: String,
    pub(super) partitions: usize,
}

impl Scene {
    /// What a death leaves for the ledger to find again.
    #[allow(clippy::cast_possible_wrap, reason = "a few")]
    pub(super) const AT_MOST_AGAIN: i64 = LANES as i64 * 2 * MAX_RECORDS;

    pub(super) async fn new(servers: &Servers, partitions: usize) -> Self {
        let (broker, database) = (servers.broker(), servers.database().await);
        let topic = broker.topic(i32::try_from(partitions).unwrap()).await;
        database.execute(&tables()).await;
        let group = format!("{CONSUMER}-{topic}");
        let scene = Self { broker, database, topic, group, partitions };
        let migrated = host::run_once(&scene.setup(), &["migrate"]);
        assert!(migrated.status.success(), "migrate: {}", String::from_utf8_lossy(&migrated.stderr));
        scene
    }

    /// A host's configuration.
    pub(super) fn setup(&self) -> Setup {
        let batch = format!("max_records = {MAX_RECORDS}, max_bytes = \"1MiB\", linger = \"5ms\"");
        let consumer = Settlement::of(&self.topic).in_group(&self.group).reading(LANES, &batch).merging(ADDING_UP);
        Setup::new(self.database.url(), &self.broker, consumer.toml())
    }

    /// The same for a member that the group knows again: a restarted host has its partitions at once, where an ordinary
    /// one waits for its predecessor's session to time out.
    pub(super) fn known_member(&self) -> Setup {
        self.setup().with_kafka("group.instance.id", "the-one")
    }

    /// Another member of the group, for a rebalance.
    pub(super) fn intruder(&self) -> Intruder {
        Intruder::join(&self.broker, &self.group, &self.topic, &[])
    }

    /// How many offsets the chains cover; 0 where there are none yet.
    pub(super) async fn covered(&self) -> i64 {
        self.positions().await.into_iter().sum()
    }

    pub(super) async fn positions(&self) -> Vec<i64> {
        oracle::positions(&self.database, CONSUMER, &self.topic, self.partitions).await
    }

    pub(super) async fn totals(&self) -> Totals {
        oracle::totals(&self.database, CONSUMER).await
    }

    pub(super) async fn until_consumed(&self) {
        oracle::until_consumed(&self.database, &self.broker, CONSUMER, &self.topic).await;
    }

    /// What the group knows, per partition.
    pub(super) fn committed(&self) -> Vec<Option<i64>> {
        self.broker.committed(&self.group, &self.topic)
    }

    /// How many records the group's offsets lie behind the chains.
    ///
    /// # Panics
    /// Where an offset was committed that no transaction covers.
    pub(super) async fn behind(&self) -> i64 {
        // In this order: an offset follows its checkpoint.
        let committed = self.committed();
        let covered = self.positions().await;
        let ahead = committed.iter().zip(&covered).any(|(committed, covered)| committed.is_some_and(|c| c > *covered));
        assert!(!ahead, "Kafka was told {committed:?}, but the database covers {covered:?}");
        committed.iter().zip(&covered).map(|(committed, covered)| committed.map_or(0, |c| covered - c)).sum()
    }

    /// Puts the group back by some records, as an operator does. Says by how many, over all partitions. Nobody may be a
    /// member; a killed one is until its session times out.
    pub(super) async fn put_back(&self) -> i64 {
        let mut sum = 0;
        for (partition, covered) in (0..).zip(self.positions().await) {
            let to = (covered - 50).max(0);
            let set = async || self.broker.try_set_committed(&self.group, &self.topic, &[(partition, to)]).is_ok();
            wait::until_true("the group is empty", set).await;
            sum += covered - to;
        }
        sum
    }

    /// How many records were gone back over.
    pub(super) async fn rewound(&self) -> i64 {
        self.database
            .number("SELECT sum(first_offset - next_offset) FROM checkpoints WHERE kind = 'm' AND next_offset < first_offset")
            .await
    }

    /// Everything that must be true once all that was published is consumed: nothing lost, nothing applied twice, and each
    /// record in a link with its outcome. Gives how many records came more than once.
    pub(super) async fn assert_each_applied_once(&self, expected: &Expected) -> i64 {
        oracle::assert_chain_tiles(&self.database, CONSUMER).await;
        oracle::assert_ledger(&self.database, CONSUMER, &expected.ids).await;
        settlement::assert_amounts(&self.database, &expected.cents).await;
        let letters = self.database.number("SELECT count(*) FROM dead_letters").await;
        assert_eq!(letters, expected.dead, "one dead letter for each record that cannot be applied");

        let (totals, rewound) = (self.totals().await, self.rewound().await);
        let applied = i64::try_from(expected.ids.len()).unwrap();
        assert_eq!(
            totals.consumed,
            expected.records + rewound,
            "{totals:?}: each record once, but for those gone back over"
        );
        assert_eq!((totals.applied, totals.too_old), (applied, 0), "{totals:?}");
        let again = totals.duplicate - expected.copies;
        assert!((0..=rewound).contains(&again), "{totals:?} of {} copies, {rewound} gone back over", expected.copies);
        assert!((expected.foreign..=expected.foreign + rewound).contains(&totals.skipped), "{totals:?}");
        rewound
    }
}
