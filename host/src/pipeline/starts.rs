//! Where an assigned partition begins: where its chain stands, or where the group's offset is if that is behind, written
//! as a link before anything is read (Invariant 1). The group is told at once where it does not know.
//!
//! A chain begins with its genesis. A topic's first host makes the geneses of *all* its partitions, from the highest
//! number down, so that `start = "latest"` means one moment for the whole topic whoever gets which partition. A partition
//! above the highest genesis is therefore new, and begins at 0; one below it was left out by a crash.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::runtime::Handle;

use super::{
    database::{Aside, connecting, register_again},
    in_time::InTime,
};
use crate::{
    class::Class,
    config::Start,
    fail_point::{FailPoint, reach},
    health::{ConsumerHealth, Dependency},
    identity::ConsumerName,
    metrics::ConsumerMetrics,
    outage::Outages,
    record::TopicPartition,
    seek::WayOut,
    source::{LogEnds, Notice, Offered, PartitionName, SourceError, StartPoint, StartPoints, StopReason},
    store::{self, Connection, Registration, Standing, Statement, Store, StoreError, Tip, Tips},
};

/// How long database and broker may take together at most, but for the question that was begun last. A rebalance waits
/// for them; what was not reached is asked again.
const PATIENCE: Duration = Duration::from_secs(4);
/// How often the chain is looked at in one attempt: its genesis, an operator's rewind, and twice somebody who was faster.
const TRIES: usize = 5;

/// Asks the database where partitions begin, and reports what the source notices.
pub(super) struct Starts {
    pub(super) consumer: ConsumerName,
    /// For a database that has lost it: what it would say of itself now.
    pub(super) registration: Box<dyn Fn() -> Registration + Send + Sync>,
    /// Says the commands that go on.
    pub(super) way_out: WayOut,
    pub(super) start: Start,
    pub(super) store: Arc<dyn Store>,
    pub(super) runtime: Handle,
    pub(super) tips: Arc<Mutex<Tips>>,
    pub(super) health: Arc<ConsumerHealth>,
    pub(super) metrics: ConsumerMetrics,
    pub(super) connection: Arc<Aside>,
    /// What the client was heard to say.
    pub(super) outages: Mutex<Outages>,
}

/// Why no start point was found.
enum Unknown {
    Store(StoreError),
    Source(SourceError),
    Stop(StopReason),
}

impl From<StoreError> for Unknown {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<SourceError> for Unknown {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

/// Where to go on, given the chain's tip and the group's offset. Pure.
fn decide(tip: &Tip, committed: Option<i64>, fenced: bool) -> Step {
    match committed {
        // Whoever lost its place has read on from there; the group's offset, which follows a little behind, would only
        // fence the one that took it.
        _ if fenced => Step::GoOn,
        // Invariant 1: behind, be it that a crash came before the offset commit, or that an operator wants it read again.
        // Nobody can tell which, and the ledger finds what was applied.
        Some(offset) if offset < tip.next_offset => Step::Rewind(offset),
        // Kafka ahead of the database: a failover or a restore lost commits, and the database knows best.
        Some(_) | None => Step::GoOn,
    }
}

/// Whether the group knows already where it goes on. Pure.
fn is_told(tip: &Tip, committed: Option<i64>) -> bool {
    committed == Some(tip.next_offset)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    GoOn,
    Rewind(i64),
}

/// How a topic's partitions without a genesis begin. `known` are the numbers that have one, of `count` in all. The order
/// is the order to make them in. Pure.
fn geneses(known: &[i32], count: i32) -> Vec<(i32, Origin)> {
    let highest = known.iter().copied().max().unwrap_or(-1);
    let missing = |number: &i32| !known.contains(number);
    let reference = if highest < 0 { count - 1 } else { highest };
    // Down from the highest, so that a crash in between leaves holes below, never a partition that looks new above.
    let holes = (0..=reference).rev().filter(missing).map(|number| (number, Origin::Start));
    let new = (reference + 1..count).map(|number| (number, Origin::Zero));
    holes.chain(new).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// As the consumer's `start` says.
    Start,
    /// A partition that was added later: from its first record.
    Zero,
}

impl Starts {
    fn outage_begins(&self, trouble: &str) -> bool {
        self.outages.lock().unwrap_or_else(PoisonError::into_inner).begins(Instant::now(), trouble)
    }

    /// Up to where a partition was processed whose topic is another one now: what the source handed out may not be.
    fn say_from(&self, name: &PartitionName, reason: &mut StopReason) {
        if let StopReason::TopicRecreated { was, from, .. } = reason {
            let tips = self.tips.lock().unwrap_or_else(PoisonError::into_inner);
            let of = tips.iter().find(|(p, _)| p.topic_id == *was && PartitionName::from(p.as_ref()) == *name);
            *from = of.map(|(_, tip)| tip.next_offset).or(*from);
        }
    }

    async fn resolve_one(
        &self,
        connection: &mut dyn Connection,
        offered: &Offered,
        mut known: Option<(Tip, Standing)>,
        log: &InTime<'_>,
    ) -> Result<(Tip, Standing), Unknown> {
        let partition = std::slice::from_ref(&offered.partition);
        for _ in 0..TRIES {
            log.check()?;
            if known.is_none() {
                known = store::standings(connection, &self.consumer, partition).await?.pop().flatten();
            }
            let Some((tip, standing)) = known.take() else {
                self.begin_topic(connection, &offered.partition, log).await?;
                continue;
            };
            let Step::Rewind(offset) = decide(&tip, offered.committed, offered.fenced) else {
                if let Some(ahead) = offered.committed.filter(|committed| *committed > tip.next_offset) {
                    tracing::warn!(
                        consumer = %self.consumer, partition = %offered.partition, kafka = ahead,
                        database = tip.next_offset,
                        "the group's offset is ahead of the database, which goes on where it knows to be"
                    );
                }
                return Ok((tip, standing));
            };
            // What retention took below was processed before: the chain covers it.
            let (first, _) = log.bounds(&PartitionName::from(offered.partition.as_ref()))?;
            let offset = offset.max(first.min(tip.next_offset));
            if offset == tip.next_offset {
                return Ok((tip, standing));
            }
            tracing::info!(
                consumer = %self.consumer, partition = %offered.partition, from = tip.next_offset, to = offset,
                "going back to the group's offset; what was processed shows as duplicates"
            );
            // Moved, or somebody else was faster: either way the next look tells where it stands.
            if connection.move_chain(&self.consumer, &offered.partition, Some(tip), offset).await?.is_some() {
                reach(FailPoint::ChainMoved);
            }
        }
        let context = format!("place consumer {} at {}", self.consumer, offered.partition);
        Err(StoreError::transient(Statement::Checkpoint, context, "another host keeps moving the chain").into())
    }

    /// Makes the geneses of a topic's partitions that have none.
    async fn begin_topic(
        &self,
        connection: &mut dyn Connection,
        of: &Arc<TopicPartition>,
        log: &InTime<'_>,
    ) -> Result<(), Unknown> {
        let ids = connection.topic_ids(&self.consumer, &of.cluster_id, &of.topic).await?;
        if let Some(was) = ids.iter().copied().find(|id| *id != of.topic_id)
            && !ids.contains(&of.topic_id)
        {
            let old = Arc::new(TopicPartition { topic_id: was, ..of.as_ref().clone() });
            let tips = connection.tips(&self.consumer, &[old]).await?;
            let from = tips.first().copied().flatten().map(|tip| tip.next_offset);
            let (topic, now) = (Arc::clone(&of.topic), of.topic_id);
            return Err(Unknown::Stop(StopReason::TopicRecreated { topic, was, now, from, end: None }));
        }
        let count = log.partitions(&of.topic)?.max(of.partition + 1);
        let all: Vec<Arc<TopicPartition>> =
            (0..count).map(|partition| Arc::new(TopicPartition { partition, ..of.as_ref().clone() })).collect();
        let tips = connection.tips(&self.consumer, &all).await?;
        let known: Vec<i32> =
            all.iter().zip(&tips).filter(|(_, tip)| tip.is_some()).map(|(partition, _)| partition.partition).collect();
        for (number, origin) in geneses(&known, count) {
            let Some(partition) = usize::try_from(number).ok().and_then(|index| all.get(index)) else { continue };
            let name = PartitionName::from(partition.as_ref());
            let at = match (origin, self.start) {
                (Origin::Zero, _) => 0,
                (Origin::Start, Start::Earliest) => log.bounds(&name)?.0,
                (Origin::Start, Start::Latest) => log.bounds(&name)?.1,
                (Origin::Start, Start::Time(time_ms)) => log.at_time(&name, time_ms)?,
            };
            // `None`: another host was faster, and its genesis counts.
            if connection.move_chain(&self.consumer, partition, None, at).await?.is_some() {
                tracing::info!(consumer = %self.consumer, partition = %partition, offset = at, "begins");
                reach(FailPoint::GenesisWritten);
            }
        }
        Ok(())
    }

    /// Adds an answer for each of these, in their order, until it is cut off. With the connection of this consumer's poll
    /// thread, made anew where it was lost.
    async fn resolve_all(
        &self,
        offered: &[Offered],
        log: &InTime<'_>,
        resolved: &mut Vec<Result<(Tip, Standing), Unknown>>,
    ) -> Result<(), StoreError> {
        // Cut off by the deadline, it is in an unknown state and never comes back.
        let mut connection = self.connection.take(connecting(&self.store)).await?;
        // One question for all, since each takes a while where the machine is busy.
        let partitions: Vec<_> = offered.iter().map(|one| Arc::clone(&one.partition)).collect();
        let known = store::standings(connection.as_mut(), &self.consumer, &partitions).await?;
        for (one, known) in offered.iter().zip(known) {
            let mut answer = self.resolve_one(connection.as_mut(), one, known, log).await;
            if let Err(Unknown::Store(error)) = &answer
                && error.is_unregistered()
            {
                register_again(self.store.as_ref(), &(self.registration)()).await?;
                answer = self.resolve_one(connection.as_mut(), one, None, log).await;
            }
            resolved.push(answer);
        }
        if !resolved.iter().any(|one| matches!(one, Err(Unknown::Store(_)))) {
            self.connection.give_back(connection);
        }
        Ok(())
    }

    fn resolve_in_time(&self, offered: &[Offered], log: &InTime<'_>, within: Duration) -> Vec<StartPoint> {
        let mut resolved = Vec::with_capacity(offered.len());
        let work = self.resolve_all(offered, log, &mut resolved);
        let ended = self.runtime.block_on(async { tokio::time::timeout(within, work).await });
        let cut = match ended {
            Ok(Ok(())) => String::new(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("the database did not answer within {} ms", within.as_millis()),
        };
        // What was found before the cut counts.
        let (found, not_reached) = offered.split_at(resolved.len().min(offered.len()));
        let mut tips: HashMap<_, _> = HashMap::new();
        let points = found.iter().zip(resolved).map(|(one, resolved)| match resolved {
            Ok((tip, standing)) => {
                tips.insert(Arc::clone(&one.partition), tip);
                StartPoint::At(tip.next_offset, (!is_told(&tip, one.committed)).then_some(standing))
            }
            Err(Unknown::Store(error)) => StartPoint::Later(error.to_string()),
            Err(Unknown::Source(error)) if error.class() == Class::Transient => StartPoint::Later(error.to_string()),
            Err(Unknown::Source(error)) => StartPoint::Stop(StopReason::Unreadable { broker: error.to_string() }),
            Err(Unknown::Stop(reason)) => StartPoint::Stop(reason),
        });
        let points = points.chain(not_reached.iter().map(|_| StartPoint::Later(cut.clone()))).collect();
        self.tips.lock().unwrap_or_else(PoisonError::into_inner).extend(tips);
        points
    }
}

impl StartPoints for Starts {
    fn resolve(&self, offered: &[Offered], log: &dyn LogEnds, within: Duration) -> Vec<StartPoint> {
        let within = within.min(PATIENCE);
        self.resolve_in_time(offered, &InTime::new(log, within, &Instant::now), within)
    }

    fn notice(&self, notice: Notice) {
        let consumer = &self.consumer;
        let list = |names: &[PartitionName]| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match notice {
            Notice::Rebalanced(step) => self.metrics.rebalanced(step),
            Notice::Assigned(names) => {
                self.health.assigned(&names);
                if names.is_empty() {
                    tracing::debug!(%consumer, "the group gave nothing more");
                } else {
                    tracing::info!(%consumer, partitions = list(&names), "assigned");
                }
            }
            Notice::Revoked { partitions, drained, lost } => {
                self.metrics.revoked(&partitions);
                self.health.revoked(&partitions);
                tracing::info!(%consumer, partitions = list(&partitions), drained, lost, "revoked");
            }
            Notice::Stopped(name, mut reason) => {
                self.say_from(&name, &mut reason);
                let way_out = self.way_out.of(&name, &reason);
                self.health.partition_stopped(&name, &reason, way_out.clone());
                let way_out = way_out.map(|way_out| format!(". {way_out}")).unwrap_or_default();
                tracing::error!(%consumer, partition = %name, code = reason.code(), "stopped: {reason}{way_out}");
            }
            Notice::Waiting(names, why) => {
                self.health.waiting(&names, &why);
                tracing::warn!(%consumer, partitions = list(&names), "no start point yet: {why}");
            }
            Notice::CommitFailed(why) => {
                self.metrics.commit_failed();
                tracing::warn!(%consumer, "an offset commit failed, the next covers it: {why}");
            }
            Notice::Client(text) => {
                self.metrics.client_event();
                if self.outage_begins(&text) {
                    tracing::warn!(%consumer, "Kafka client: {text}");
                } else {
                    tracing::debug!(%consumer, "Kafka client: {text}");
                }
                self.health.trouble(text);
            }
            Notice::Away(text) => {
                self.metrics.client_event();
                if self.outage_begins("away") {
                    tracing::warn!(%consumer, "Kafka does not answer, trying again until it does: {text}");
                } else {
                    tracing::debug!(%consumer, "Kafka does not answer: {text}");
                }
                self.health.silent(Dependency::Kafka, text.clone());
                self.health.trouble(text);
            }
            Notice::Answers => self.health.answers(Dependency::Kafka),
            Notice::Topic(topic, true) => {
                if self.health.topic_found(&topic) {
                    tracing::info!(%consumer, "topic {topic} is there");
                }
            }
            Notice::Topic(topic, false) => {
                let gone = StopReason::TopicGone { topic: Arc::clone(&topic) }.to_string();
                if self.health.topic_missing(&topic, gone.clone()) {
                    tracing::warn!(%consumer, "{gone}");
                }
            }
            Notice::Member(is) => self.health.member(is),
        }
        let (read, stopped) = self.health.partitions();
        self.metrics.partitions(read, stopped);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use std::{cell::Cell, path::Path};

    use uuid::Uuid;

    use super::*;
    use crate::{
        config::{Database, Dialect, Secret},
        metrics::Metrics,
        store::{self, Registration},
    };

    /// A log whose every answer takes a second of a time that only it moves.
    struct Slow {
        now: Cell<Instant>,
        asked: Cell<u32>,
        partitions: i32,
    }

    impl Slow {
        fn answer<T>(&self, answer: T) -> Result<T, SourceError> {
            self.now.set(self.now.get() + Duration::from_secs(1));
            self.asked.set(self.asked.get() + 1);
            Ok(answer)
        }
    }

    impl LogEnds for Slow {
        fn bounds(&self, name: &PartitionName) -> Result<(i64, i64), SourceError> {
            self.answer((0, 100 + i64::from(name.partition)))
        }

        fn at_time(&self, _: &PartitionName, _: i64) -> Result<i64, SourceError> {
            self.answer(0)
        }

        fn partitions(&self, _: &str) -> Result<i32, SourceError> {
            self.answer(self.partitions)
        }
    }

    /// Of a consumer that begins at the end, in a database of its own.
    fn starts(runtime: &tokio::runtime::Runtime, folder: &Path) -> Starts {
        let url = format!("sqlite://{}", folder.join("tidegate.db").display());
        let store = store::open(&Database::new(Secret::new(&url), Dialect::Sqlite)).unwrap();
        let consumer = ConsumerName::new("slow").unwrap();
        let registration = Registration {
            name: consumer.clone(),
            group: "slow".into(),
            key_version: 1,
            declared: 1,
            plugin_digest: [0; 32],
            started_from: serde_json::json!({}),
        };
        runtime.block_on(store.migrate()).unwrap();
        runtime.block_on(store.register_consumer(&registration)).unwrap();
        Starts {
            registration: Box::new(move || registration.clone()),
            way_out: WayOut { consumer: consumer.clone(), config: None },
            start: Start::Latest,
            store,
            runtime: runtime.handle().clone(),
            tips: Arc::default(),
            health: ConsumerHealth::new(consumer.clone(), 1),
            metrics: Metrics::new().consumer(&consumer),
            connection: Arc::default(),
            outages: Mutex::default(),
            consumer,
        }
    }

    #[test]
    fn slow_brokers_are_asked_for_four_seconds_and_then_again() {
        let (runtime, folder) = (tokio::runtime::Runtime::new().unwrap(), tempfile::tempdir().unwrap());
        let starts = starts(&runtime, folder.path());
        let log = Slow { now: Cell::new(Instant::now()), asked: Cell::new(0), partitions: 10 };
        let offered: Vec<Offered> = (0..10)
            .map(|partition| TopicPartition {
                cluster_id: "cluster".into(),
                topic_id: Uuid::nil(),
                topic: "orders".into(),
                partition,
            })
            .map(|partition| Offered { partition: Arc::new(partition), committed: None, fenced: false })
            .collect();
        let (mut rounds, clock) = (0, || log.now.get());
        let points = loop {
            log.asked.set(0);
            let points = starts.resolve_in_time(&offered, &InTime::new(&log, PATIENCE, &clock), PATIENCE);
            assert_eq!(points.len(), offered.len());
            assert!(log.asked.get() <= 4, "asked {} times in one rebalance", log.asked.get());
            if points.iter().all(|point| matches!(point, StartPoint::At(..))) {
                break points;
            }
            rounds += 1;
            let waits = |point: &StartPoint| matches!(point, StartPoint::Later(why) if !why.is_empty());
            assert!(points.iter().all(|point| waits(point) || matches!(point, StartPoint::At(..))), "{points:?}");
        };
        // One question for the number of partitions and three geneses a round, nothing asked twice.
        assert!(rounds >= 3, "{rounds} rounds");
        let at = |point: &StartPoint| match point {
            StartPoint::At(at, told) => Some((*at, told.is_some())),
            _ => None,
        };
        let expected: Vec<_> = (100..110).map(|at| Some((at, true))).collect();
        assert_eq!(points.iter().map(at).collect::<Vec<_>>(), expected, "and the group is told, which knew nothing");
    }

    fn tip(next_offset: i64) -> Tip {
        Tip { id: Uuid::nil(), seq: 3, next_offset }
    }

    #[test]
    fn where_the_chain_stands_or_the_group_s_offset_behind_it() {
        assert_eq!(decide(&tip(10), None, false), Step::GoOn, "offsets deleted: the chain remembers");
        assert_eq!(decide(&tip(10), Some(10), false), Step::GoOn);
        assert_eq!(
            decide(&tip(10), Some(99), false),
            Step::GoOn,
            "the database was restored, or somebody set it too far"
        );
        assert_eq!(decide(&tip(10), Some(7), false), Step::Rewind(7), "a crash, or an operator's rewind");
        assert_eq!(decide(&tip(10), Some(7), true), Step::GoOn, "fenced: the chain alone says where");
    }

    #[test]
    fn the_group_is_told_what_it_does_not_know() {
        assert!(is_told(&tip(10), Some(10)));
        assert!([None, Some(7), Some(99)].into_iter().all(|committed| !is_told(&tip(10), committed)));
    }

    #[test]
    fn a_new_topic_begins_whole_and_later_partitions_at_zero() {
        use Origin::{Start, Zero};
        assert_eq!(geneses(&[], 3), [(2, Start), (1, Start), (0, Start)]);
        assert_eq!(geneses(&[2], 3), [(1, Start), (0, Start)], "a crash after the first genesis");
        assert_eq!(geneses(&[0, 1, 2], 3), []);
        assert_eq!(geneses(&[0, 1, 2], 5), [(3, Zero), (4, Zero)]);
        assert_eq!(geneses(&[2, 0], 4), [(1, Start), (3, Zero)]);
    }
}
