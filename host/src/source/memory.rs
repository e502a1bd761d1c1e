//! A source without a broker, for tests: topics are lists in memory, members take their assignment from a script.
//!
//! It keeps Kafka's habits where the pipeline could depend on them: gaps and ends without a record, a committed offset
//! per group, lost offsets, topics made again, commits that get lost, records that are delivered again.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::watch;
use uuid::Uuid;

use super::{
    Fetched, LogEnds, Lost, Notice, Offered, PartitionName, Piece, Positions, Rebalance, Source, SourceError,
    StartPoint, StartPoints, StopReason,
};
use crate::{
    class::Class,
    config::BatchLimits,
    record::{Batch, Header, Record, TopicPartition},
    store::Receipt,
};

/// Of every commit.
const NUMBER: u64 = 0;

/// A broker's memory: logs, groups' offsets, and who is to have which partition.
#[derive(Debug, Default)]
pub struct MemoryBroker {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    topics: HashMap<Arc<str>, Topic>,
    incarnations: u128,
    committed: HashMap<(String, PartitionName), i64>,
    wanted: HashMap<(String, usize), BTreeSet<PartitionName>>,
    deaf_to_commits: bool,
}

#[derive(Debug)]
struct Topic {
    id: Uuid,
    partitions: Vec<Log>,
}

#[derive(Clone, Debug, Default)]
struct Log {
    first: i64,
    records: BTreeMap<i64, Record>,
    end: i64,
}

impl MemoryBroker {
    /// An empty one.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Makes a topic, or makes it again under another id: its old records are gone, and the groups' offsets with them.
    pub fn create_topic(&self, topic: &str, partitions: usize) {
        self.change(|state| {
            state.incarnations += 1;
            let id = Uuid::from_u128(state.incarnations);
            state.topics.insert(topic.into(), Topic { id, partitions: vec![Log::default(); partitions] });
            state.committed.retain(|(_, name), _| name.topic.as_ref() != topic);
        });
    }

    /// Appends a record and says at which offset. `None` where there is no such partition.
    pub fn produce(&self, name: &PartitionName, key: Option<&[u8]>, payload: Option<&[u8]>) -> Option<i64> {
        self.change(|state| {
            let log = log_mut(state, name)?;
            let offset = log.end;
            log.end += 1;
            let copied = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
            let record = Record {
                offset,
                timestamp_ms: Some(offset),
                key: key.map(copied),
                payload: payload.map(copied),
                headers: Vec::<Header>::new(),
            };
            log.records.insert(offset, record);
            Some(offset)
        })
    }

    /// Takes up offsets that carry no record, as a transaction's marker does.
    pub fn produce_gap(&self, name: &PartitionName, offsets: i64) {
        self.change(|state| log_mut(state, name).map(|log| log.end += offsets));
    }

    /// Deletes what stands before this offset, as retention does.
    pub fn delete_before(&self, name: &PartitionName, offset: i64) {
        self.change(|state| {
            if let Some(log) = log_mut(state, name) {
                log.first = log.first.max(offset);
                log.records = log.records.split_off(&offset);
            }
        });
    }

    /// The group's offset of a partition.
    #[must_use]
    pub fn committed(&self, group: &str, name: &PartitionName) -> Option<i64> {
        self.lock().committed.get(&(group.to_owned(), name.clone())).copied()
    }

    /// Sets the group's offset, as an operator does, or forgets it.
    pub fn set_committed(&self, group: &str, name: &PartitionName, offset: Option<i64>) {
        self.change(|state| {
            let key = (group.to_owned(), name.clone());
            match offset {
                Some(offset) => state.committed.insert(key, offset),
                None => state.committed.remove(&key),
            }
        });
    }

    /// While deaf, commits are lost without an error, as those under way at a crash are.
    pub fn deaf_to_commits(&self, deaf: bool) {
        self.lock().deaf_to_commits = deaf;
    }

    /// Gives a member of a group exactly these partitions, at its next poll. Two members may get the same one: then
    /// both believe that it is theirs.
    pub fn assign(&self, group: &str, member: usize, names: impl IntoIterator<Item = PartitionName>) {
        self.change(|state| state.wanted.insert((group.to_owned(), member), names.into_iter().collect()));
    }

    /// All partitions of a topic.
    #[must_use]
    pub fn names(&self, topic: &str) -> Vec<PartitionName> {
        let state = self.lock();
        let count = state.topics.get(topic).map_or(0, |topic| topic.partitions.len());
        let numbers = (0..count).filter_map(|number| i32::try_from(number).ok());
        numbers.map(|partition| PartitionName { topic: topic.into(), partition }).collect()
    }
}

fn log_mut<'a>(state: &'a mut State, name: &PartitionName) -> Option<&'a mut Log> {
    state.topics.get_mut(&name.topic)?.partitions.get_mut(usize::try_from(name.partition).ok()?)
}

fn log<'a>(state: &'a State, name: &PartitionName) -> Option<&'a Log> {
    state.topics.get(&name.topic)?.partitions.get(usize::try_from(name.partition).ok()?)
}

impl LogEnds for MemoryBroker {
    fn bounds(&self, name: &PartitionName) -> Result<(i64, i64), SourceError> {
        log(&self.lock(), name).map(|log| (log.first, log.end)).ok_or_else(|| unknown(name))
    }

    fn at_time(&self, name: &PartitionName, time_ms: i64) -> Result<i64, SourceError> {
        let state = self.lock();
        let log = log(&state, name).ok_or_else(|| unknown(name))?;
        let found = log.records.values().find(|record| record.timestamp_ms >= Some(time_ms));
        Ok(found.map_or(log.end, |record| record.offset))
    }

    fn partitions(&self, topic: &str) -> Result<i32, SourceError> {
        i32::try_from(self.names(topic).len()).map_err(|_| unknown(&topic))
    }
}

fn unknown(what: &dyn std::fmt::Display) -> SourceError {
    SourceError { context: format!("look at {what}"), message: "no such partition".into(), class: Class::Transient }
}

/// A member of a group of a [`MemoryBroker`].
pub struct MemorySource {
    broker: Arc<MemoryBroker>,
    group: String,
    member: usize,
    positions: Arc<Positions>,
    starts: Arc<dyn StartPoints>,
    revoke_deadline: Duration,
    mine: Mutex<BTreeSet<PartitionName>>,
    fenced: Mutex<Vec<PartitionName>>,
}

impl MemorySource {
    /// Joins; what it gets is up to [`MemoryBroker::assign`].
    #[must_use]
    pub fn new(
        broker: &Arc<MemoryBroker>,
        group: &str,
        member: usize,
        lanes: usize,
        revoke_deadline: Duration,
        starts: Arc<dyn StartPoints>,
    ) -> Self {
        Self {
            broker: Arc::clone(broker),
            group: group.to_owned(),
            member,
            positions: Positions::new(lanes),
            starts,
            revoke_deadline,
            mine: Mutex::default(),
            fenced: Mutex::default(),
        }
    }

    fn mine(&self) -> MutexGuard<'_, BTreeSet<PartitionName>> {
        self.mine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offers these to the pipeline and begins those that it places. Says which are to be offered again.
    fn offer(&self, names: &[PartitionName], fenced: bool) -> Vec<PartitionName> {
        let offered: Vec<Offered> = names
            .iter()
            .filter_map(|name| {
                let state = self.broker.lock();
                let partition = Arc::new(TopicPartition {
                    cluster_id: "memory".into(),
                    topic_id: state.topics.get(&name.topic)?.id,
                    topic: Arc::clone(&name.topic),
                    partition: name.partition,
                });
                let committed = state.committed.get(&(self.group.clone(), name.clone())).copied();
                Some(Offered { partition, committed, fenced })
            })
            .collect();
        let points = self.starts.resolve(&offered, self.broker.as_ref(), self.revoke_deadline);
        let hold = self.positions.hold(|| self.wake());
        let (mut begun, mut later, mut receipts) = (Vec::new(), Vec::new(), Vec::new());
        for (offered, point) in offered.into_iter().zip(points) {
            let name = PartitionName::from(offered.partition.as_ref());
            match point {
                StartPoint::At(offset, proof) => {
                    let lane = self.positions.lane_for(&name, &[]);
                    let generation = self.positions.install(&hold, offered.partition, lane, offset);
                    receipts.extend(proof.map(|proof| proof.under(generation)));
                    begun.push(name);
                }
                StartPoint::Stop(reason) => self.starts.notice(Notice::Stopped(name, reason)),
                StartPoint::Later(why) => {
                    self.starts.notice(Notice::Waiting(vec![name.clone()], why));
                    later.push(name);
                }
            }
        }
        drop(hold);
        self.commit(receipts);
        if !begun.is_empty() {
            self.starts.notice(Notice::Assigned(begun));
        }
        later
    }

    fn revoke(&self, names: Vec<PartitionName>) {
        let drained = self.positions.drain(&names, self.revoke_deadline);
        let hold = self.positions.hold(|| self.wake());
        self.positions.remove(&hold, &names);
        drop(hold);
        self.starts.notice(Notice::Rebalanced(Rebalance::Revoke));
        self.starts.notice(Notice::Revoked { partitions: names, drained, lost: false });
    }
}

/// What a lane finds in one look.
fn look(state: &State, read: &[(PartitionName, i64, bool)], limits: &BatchLimits) -> Vec<Piece> {
    let (mut records, mut bytes) = (0, 0);
    let mut pieces = Vec::new();
    for (name, next, at_end) in read {
        let Some(log) = log(state, name) else { continue };
        let mut piece = Piece::of(name.clone());
        if *next < log.first || *next > log.end {
            piece.lost = Some(Lost::Offset("offset out of range".to_owned()));
            pieces.push(piece);
            continue;
        }
        let mut all = true;
        for record in log.records.range(next..).map(|(_, record)| record) {
            if records >= limits.max_records || bytes >= limits.max_bytes {
                all = false;
                break;
            }
            records += 1;
            bytes += record.size();
            piece.records.push(record.clone());
        }
        piece.position = all.then_some(log.end);
        piece.at_end = all;
        if !piece.records.is_empty() || (all && !at_end) {
            pieces.push(piece);
        }
    }
    pieces
}

impl Source for MemorySource {
    fn positions(&self) -> &Arc<Positions> {
        &self.positions
    }

    fn fetch(&self, lane: usize, limits: &BatchLimits, idle: Duration) -> Fetched {
        let turn = self.positions.turn();
        let until = Instant::now() + idle;
        let read = self.positions.of_lane(lane);
        let mut state = self.broker.lock();
        let mut pieces = look(&state, &read, limits);
        if pieces.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            state = self.broker.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            pieces = look(&state, &read, limits);
        }
        drop(state);
        self.positions.take(turn, pieces, |name, _, reason| self.starts.notice(Notice::Stopped(name, reason)))
    }

    fn wake(&self) {
        // Who holds the lock is not asleep yet and would miss the call.
        drop(self.broker.lock());
        self.broker.changed.notify_all();
    }

    fn confirm(&self, batch: &Batch) -> Result<(), SourceError> {
        for run in &batch.runs {
            let name = PartitionName::from(run.partition.as_ref());
            let now = self.broker.lock().topics.get(&name.topic).map(|topic| topic.id);
            let topic = Arc::clone(&name.topic);
            let reason = match now {
                Some(now) if now == run.partition.topic_id => continue,
                Some(now) => {
                    StopReason::TopicRecreated { topic, was: run.partition.topic_id, now, from: None, end: None }
                }
                None => StopReason::TopicGone { topic },
            };
            if self.positions.stop(&name) {
                self.starts.notice(Notice::Stopped(name, reason));
            }
        }
        Ok(())
    }

    fn commit(&self, receipts: Vec<Receipt>) -> u64 {
        // Before the broker's lock is taken: who holds the positions may be waiting for it, to wake the lanes.
        let current = receipts.into_iter().filter_map(|receipt| {
            let name = PartitionName::from(receipt.partition().as_ref());
            self.positions.is_current(&name, receipt.generation()).then(|| (name, receipt.next_offset()))
        });
        let current: Vec<_> = current.collect();
        self.broker.change(|state| {
            if !state.deaf_to_commits {
                state.committed.extend(current.into_iter().map(|(name, next)| ((self.group.clone(), name), next)));
            }
        });
        NUMBER
    }

    fn confirmed(&self) -> watch::Receiver<u64> {
        // What a broker in the same memory was told it knows.
        watch::channel(NUMBER).1
    }

    fn reposition(&self, generations: &[u64]) {
        let names = self.positions.stop_generations(generations);
        self.fenced.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
        self.wake();
    }

    fn poll(&self, timeout: Duration) -> Result<(), SourceError> {
        let wanted = self.broker.lock().wanted.get(&(self.group.clone(), self.member)).cloned().unwrap_or_default();
        let mine = self.mine().clone();
        let (taken, given): (Vec<_>, Vec<_>) =
            (mine.difference(&wanted).cloned().collect(), wanted.difference(&mine).cloned().collect());
        let fenced = std::mem::take(&mut *self.fenced.lock().unwrap_or_else(PoisonError::into_inner));
        let idle = taken.is_empty() && given.is_empty() && fenced.is_empty();
        if !taken.is_empty() {
            self.revoke(taken);
        }
        let mut now = wanted;
        if !given.is_empty() {
            self.starts.notice(Notice::Rebalanced(Rebalance::Assign));
            // What cannot begin yet counts as not given, and is offered again.
            for name in self.offer(&given, false) {
                now.remove(&name);
            }
        }
        if !fenced.is_empty() {
            let fenced: Vec<_> = fenced.into_iter().filter(|name| now.contains(name)).collect();
            let later = self.offer(&fenced, true);
            self.fenced.lock().unwrap_or_else(PoisonError::into_inner).extend(later);
        }
        *self.mine() = now;
        if idle {
            let state = self.broker.lock();
            drop(self.broker.changed.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner));
        }
        Ok(())
    }

    fn watch(&self) -> HashMap<PartitionName, i64> {
        let ends = self.positions.assigned().into_iter().filter_map(|(partition, _)| {
            let name = PartitionName::from(partition.as_ref());
            self.broker.bounds(&name).ok().map(|(_, end)| (name, end))
        });
        ends.collect()
    }

    fn finish(&self) {
        let mine: Vec<_> = std::mem::take(&mut *self.mine()).into_iter().collect();
        if !mine.is_empty() {
            self.revoke(mine);
        }
    }
}
