//! Where an assigned partition begins: min(Kafka, chain), written as a link before anything is read (Invariant 1).
//!
//! A chain begins with its genesis. A topic's first host makes the geneses of *all* its partitions, from the highest
//! number down, so that `start = "latest"` means one moment for the whole topic whoever gets which partition. A partition
//! above the highest genesis is therefore new, and begins at 0; one below it was left out by a crash.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::runtime::Handle;

use crate::{
    class::Class,
    config::Start,
    health::ConsumerHealth,
    identity::ConsumerName,
    metrics::ConsumerMetrics,
    record::TopicPartition,
    source::{LogEnds, Notice, Offered, PartitionName, SourceError, StartPoint, StartPoints, StopReason},
    store::{Connection, Statement, Store, StoreError, Tip, Tips},
};

/// How long the database may take. A rebalance waits for it; what takes longer is asked again.
const PATIENCE: Duration = Duration::from_secs(4);
/// How often somebody else may be faster in one attempt.
const TRIES: usize = 3;

/// Asks the database where partitions begin, and reports what the source notices.
pub(super) struct Starts {
    pub(super) consumer: ConsumerName,
    pub(super) start: Start,
    pub(super) store: Arc<dyn Store>,
    pub(super) runtime: Handle,
    pub(super) tips: Arc<Mutex<Tips>>,
    pub(super) health: Arc<ConsumerHealth>,
    pub(super) metrics: ConsumerMetrics,
    pub(super) connection: Mutex<Option<Box<dyn Connection>>>,
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
        // An ordinary crash before the offset commit, or an operator's rewind.
        Some(offset) if offset < tip.next_offset => Step::Rewind(offset),
        // Kafka ahead of the database: a failover or a restore lost commits, and the database knows best.
        Some(_) | None => Step::GoOn,
    }
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
    async fn resolve_all(
        &self,
        connection: &mut dyn Connection,
        offered: &[Offered],
        log: &dyn LogEnds,
    ) -> Vec<Result<(Arc<TopicPartition>, Tip), Unknown>> {
        let mut resolved = Vec::with_capacity(offered.len());
        for one in offered {
            resolved.push(self.resolve_one(connection, one, log).await.map(|tip| (Arc::clone(&one.partition), tip)));
        }
        resolved
    }

    async fn resolve_one(
        &self,
        connection: &mut dyn Connection,
        offered: &Offered,
        log: &dyn LogEnds,
    ) -> Result<Tip, Unknown> {
        for _ in 0..TRIES {
            let Some(tip) = self.tip(connection, &offered.partition).await? else {
                self.begin_topic(connection, &offered.partition, log).await?;
                continue;
            };
            let Step::Rewind(offset) = decide(&tip, offered.committed, offered.fenced) else {
                if let Some(offset) = offered.committed.filter(|offset| *offset > tip.next_offset) {
                    tracing::warn!(
                        consumer = %self.consumer, partition = %offered.partition, kafka = offset,
                        database = tip.next_offset,
                        "the group's offset is ahead of the database, which goes on where it knows to be"
                    );
                }
                return Ok(tip);
            };
            // What retention took below was processed before: the chain covers it.
            let (first, _) = log.bounds(&PartitionName::from(offered.partition.as_ref()))?;
            let offset = offset.max(first.min(tip.next_offset));
            if offset == tip.next_offset {
                return Ok(tip);
            }
            tracing::info!(
                consumer = %self.consumer, partition = %offered.partition, from = tip.next_offset, to = offset,
                "going back to the group's offset; what was processed shows as duplicates"
            );
            let moved = connection.move_chain(&self.consumer, &offered.partition, Some(tip), offset).await?;
            if let Some(tip) = moved {
                return Ok(tip);
            }
        }
        let context = format!("place consumer {} at {}", self.consumer, offered.partition);
        Err(StoreError::transient(Statement::Checkpoint, context, "another host keeps moving the chain").into())
    }

    async fn tip(
        &self,
        connection: &mut dyn Connection,
        partition: &Arc<TopicPartition>,
    ) -> Result<Option<Tip>, StoreError> {
        Ok(connection.tips(&self.consumer, std::slice::from_ref(partition)).await?.into_iter().next().flatten())
    }

    /// Makes the geneses of a topic's partitions that have none.
    async fn begin_topic(
        &self,
        connection: &mut dyn Connection,
        of: &Arc<TopicPartition>,
        log: &dyn LogEnds,
    ) -> Result<(), Unknown> {
        let ids = connection.topic_ids(&self.consumer, &of.cluster_id, &of.topic).await?;
        if let Some(was) = ids.iter().copied().find(|id| *id != of.topic_id)
            && !ids.contains(&of.topic_id)
        {
            return Err(Unknown::Stop(StopReason::TopicRecreated {
                topic: Arc::clone(&of.topic),
                was,
                now: of.topic_id,
            }));
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
            }
        }
        Ok(())
    }

    /// With the connection of this consumer's poll thread, made anew where it was lost.
    async fn with_connection(
        &self,
        offered: &[Offered],
        log: &dyn LogEnds,
        kept: &mut Option<Box<dyn Connection>>,
    ) -> Result<Vec<Result<(Arc<TopicPartition>, Tip), Unknown>>, StoreError> {
        // Taken out while in use: cut off by the deadline, it is in an unknown state and never comes back.
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => self.store.connect().await?,
        };
        let resolved = self.resolve_all(connection.as_mut(), offered, log).await;
        if !resolved.iter().any(|one| matches!(one, Err(Unknown::Store(_)))) {
            *kept = Some(connection);
        }
        Ok(resolved)
    }
}

impl StartPoints for Starts {
    fn resolve(&self, offered: &[Offered], log: &dyn LogEnds) -> Vec<StartPoint> {
        let mut kept = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let work = self.with_connection(offered, log, &mut kept);
        let resolved = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await });
        let later = |why: String| offered.iter().map(|_| StartPoint::Later(why.clone())).collect();
        let resolved = match resolved {
            Ok(Ok(resolved)) => resolved,
            Ok(Err(error)) => return later(error.to_string()),
            Err(_) => return later(format!("the database did not answer within {} s", PATIENCE.as_secs())),
        };
        let mut tips: HashMap<_, _> = HashMap::new();
        let points = resolved.into_iter().map(|one| match one {
            Ok((partition, tip)) => {
                tips.insert(partition, tip);
                StartPoint::At(tip.next_offset)
            }
            Err(Unknown::Store(error)) => StartPoint::Later(error.to_string()),
            Err(Unknown::Source(error)) if error.class() == Class::Transient => StartPoint::Later(error.to_string()),
            Err(Unknown::Source(error)) => StartPoint::Stop(StopReason::Unreadable { broker: error.to_string() }),
            Err(Unknown::Stop(reason)) => StartPoint::Stop(reason),
        });
        let points = points.collect();
        self.tips.lock().unwrap_or_else(PoisonError::into_inner).extend(tips);
        points
    }

    fn notice(&self, notice: Notice) {
        let consumer = &self.consumer;
        let list = |names: &[PartitionName]| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match notice {
            Notice::Assigned(names) => {
                self.metrics.assigned();
                self.health.assigned(&names);
                tracing::info!(%consumer, partitions = list(&names), "assigned");
            }
            Notice::Revoked { partitions, drained } => {
                self.metrics.revoked(&partitions);
                self.health.revoked(&partitions);
                tracing::info!(%consumer, partitions = list(&partitions), drained, "revoked");
            }
            Notice::Stopped(name, reason) => {
                self.health.partition_stopped(&name, &reason);
                tracing::error!(%consumer, partition = %name, code = reason.code(), "stopped: {reason}");
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
                self.health.trouble(text.clone());
                tracing::warn!(%consumer, "Kafka client: {text}");
            }
        }
        let (read, stopped) = self.health.partitions();
        self.metrics.partitions(read, stopped);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn tip(next_offset: i64) -> Tip {
        Tip { id: Uuid::nil(), seq: 3, next_offset }
    }

    #[test]
    fn the_lesser_of_kafka_and_the_chain() {
        assert_eq!(decide(&tip(10), None, false), Step::GoOn, "offsets deleted: the chain remembers");
        assert_eq!(decide(&tip(10), Some(10), false), Step::GoOn);
        assert_eq!(decide(&tip(10), Some(99), false), Step::GoOn, "the database was restored");
        assert_eq!(decide(&tip(10), Some(7), false), Step::Rewind(7), "a crash before the offset commit");
        assert_eq!(decide(&tip(10), Some(7), true), Step::GoOn, "fenced: the chain alone says where");
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
