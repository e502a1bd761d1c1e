//! The Kafka source: a consumer group's member, read by one queue per lane.
//!
//! `raw`, `raw_admin` and `raw_group` speak C, `outside` looks at a group without joining it, `glance` reads topics
//! without it, `aside` asks what must not wait behind a fetch, `closing` lets go of clients, `context` answers rebalances,
//! `settle` finds out where partitions begin, `commits` decides what to commit when, `topic_ids` tells a topic from its
//! successor of the same name, `missing` when it is gone, `gone` who waits for it, `properties` pins what safety needs.

mod aside;
mod budget;
mod closing;
mod commits;
mod context;
mod ends;
mod glance;
mod gone;
mod learnt;
mod missing;
mod outside;
mod properties;
mod raw;
mod raw_admin;
mod raw_group;
mod settle;
mod topic_ids;
mod waiting;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

pub(crate) use aside::config as bystander_config;
pub(crate) use closing::{Closing, left_behind};
pub use glance::{Begin, Glance, Seen};
pub use outside::{Member, Outside};
pub use properties::{ClientOptions, client_config};
use rdkafka::{
    config::FromClientConfigAndContext,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, RDKafkaErrorCode},
};
use tokio::sync::watch;

pub use self::topic_ids::is_embedded;
use self::{
    budget::Budget,
    context::{Context, list_of, notice, unknown_topic},
    ends::Ends,
    raw::{LaneQueue, Reading},
    topic_ids::{PATIENCE, Standing, TopicIds},
};
use super::{Fetched, LogEnds, Notice, PartitionName, Piece, Positions, Source, SourceError, StartPoints, StopReason};
use crate::{
    class::Class,
    config::BatchLimits,
    fail_point::{FailPoint, reach},
    record::Batch,
    store::Receipt,
};

/// Entries of one read. Between reads the batch's bytes are counted.
const READ: usize = 512;
/// How often a busy lane looks for offsets without records in its other partitions.
const COMPARE: Duration = Duration::from_secs(1);
/// What is being done while a topic's id is compared with its chain's.
const CONFIRM: &str = "confirm the topics' ids";
/// How long leaving the group may take at least: a goodbye to the broker, which may hang.
const LEAVING: Duration = Duration::from_secs(5);
/// How long a log that a partition has lost its place in is asked for what it holds.
const LEARN: Duration = Duration::from_secs(10);
/// How long one look at the logs' ends may take; what was not reached comes next time.
const LOOK: Duration = Duration::from_millis(300);

/// A log filter to add to every other: the client, once it has left its group, cannot leave it again when it is dropped,
/// and calls that an error. What it has to say of itself comes through the client's own log.
pub const QUIET: &str = "rdkafka::consumer::base_consumer=off";

/// A member of a consumer group. See [`Source`] for its threads.
pub struct KafkaSource {
    // Before the consumer: a queue goes before its client.
    lanes: Closing<Arc<Vec<LaneQueue<Context>>>>,
    consumer: Closing<Arc<BaseConsumer<Context>>>,
    aside: Closing<BaseConsumer<aside::Silent>>,
    topics: Vec<Arc<str>>,
    looked_at: Mutex<usize>,
    /// By lane: when all its positions were last compared.
    compared: Vec<Mutex<Instant>>,
}

fn fatal(context: &str, message: impl std::fmt::Display) -> SourceError {
    SourceError { context: context.to_owned(), message: message.to_string(), class: Class::Fatal }
}

impl KafkaSource {
    /// A client of this cluster with one queue per lane. Nothing goes over the network before the first
    /// [`poll`](Source::poll), which joins the group.
    ///
    /// # Errors
    /// Fatal, for properties that the client does not take.
    pub fn new(
        properties: &BTreeMap<String, String>,
        options: &ClientOptions,
        topics: Vec<Arc<str>>,
        lanes: usize,
        starts: Arc<dyn StartPoints>,
    ) -> Result<Self, SourceError> {
        let config = client_config(properties, options);
        let positions = Positions::new(lanes);
        let context = Context::new(positions, starts, options.revoke_deadline);
        let consumer = BaseConsumer::from_config_and_context(&config, context)
            .map_err(|error| fatal("make the Kafka client", error))?;
        let consumer = Arc::new(consumer);
        let aside = aside::client(properties).map_err(|error| fatal("make the Kafka client for questions", error))?;
        let lanes: Arc<Vec<_>> = Arc::new((0..lanes.max(1)).map(|_| LaneQueue::new(&consumer)).collect());
        // Set once, here.
        let _ = consumer.context().lanes.set(Arc::downgrade(&lanes));
        let compared = lanes.iter().map(|_| Mutex::new(Instant::now())).collect();
        let (lanes, consumer, aside) = (Closing::new(lanes), Closing::new(consumer), Closing::new(aside));
        Ok(Self { lanes, consumer, aside, topics, looked_at: Mutex::new(0), compared })
    }

    fn context(&self) -> &Context {
        self.consumer.context()
    }

    /// Joins the group as soon as a broker says which cluster this is.
    fn join(&self) -> Result<(), SourceError> {
        match TopicIds::probe(&self.consumer) {
            Ok(ids) => {
                // Set once, by the poll thread.
                let _ = self.context().ids.set(ids);
                let topics: Vec<&str> = self.topics.iter().map(AsRef::as_ref).collect();
                self.consumer.subscribe(&topics).map_err(|error| fatal("subscribe to the topics", error))
            }
            Err(error) => {
                self.context().starts.notice(Notice::Away(error.to_string()));
                Ok(())
            }
        }
    }

    fn send_commits(&self) {
        let Some(offsets) = self.context().commits().next() else { return };
        let list = commits::list_of(&offsets);
        match list.and_then(|list| raw::commit(&self.consumer, &list)) {
            Ok(()) => reach(FailPoint::OffsetsSent),
            Err(error) => {
                self.context().commits().answered(false);
                self.context().starts.notice(Notice::CommitFailed(error.to_string()));
            }
        }
    }

    /// Stops partitions whose topic is another one by now, given what the broker says.
    fn stop_changed(&self, standings: &HashMap<Arc<str>, Standing>) {
        for (partition, generation) in self.positions().generations() {
            let (topic, name) = (Arc::clone(&partition.topic), PartitionName::from(partition.as_ref()));
            let reason = match standings.get(&topic) {
                None | Some(Standing::Unsure) => continue,
                Some(Standing::Is(now)) if *now == partition.topic_id => continue,
                Some(Standing::Is(now)) => {
                    let end = self.positions().end(&name);
                    StopReason::TopicRecreated { topic, was: partition.topic_id, now: *now, from: None, end }
                }
                Some(Standing::Gone) => StopReason::TopicGone { topic },
            };
            let gone = matches!(reason, StopReason::TopicGone { .. });
            let stop = || {
                let stops = self.positions().is_current(&name, generation) && self.positions().stop(&name);
                if stops && gone {
                    self.context().topic_gone(name.clone(), true);
                }
                stops
            };
            if self.context().say_stopped(&name, reason, stop) && !gone {
                // Nothing of it is taken any more; pausing only spares the network. The client never forgets it.
                let _ = self.consumer.pause(&list_of([&name]));
            }
        }
    }

    /// Adds up to where the client handed partitions out, which lies beyond their last records where control records
    /// follow: for those just read, and now and then (or when idle) for all of the lane. Within the lane's turn.
    fn with_positions(&self, lane: usize, mut pieces: Vec<Piece>) -> Vec<Piece> {
        let mut compared = self.compared[lane].lock().unwrap_or_else(PoisonError::into_inner);
        if pieces.is_empty() || compared.elapsed() >= COMPARE {
            *compared = Instant::now();
            for (name, ..) in self.positions().of_lane(lane) {
                if !pieces.iter().any(|piece| piece.name == name) {
                    pieces.push(Piece::of(name));
                }
            }
        }
        let names: Vec<_> = pieces.iter().map(|piece| piece.name.clone()).collect();
        for (name, position) in raw::positions(&self.consumer, &names) {
            if let Some(piece) = pieces.iter_mut().find(|piece| piece.name == name) {
                // An error entry has counted as a record: the position is not to be trusted.
                piece.position = piece.lost.is_none().then_some(position);
            }
        }
        pieces
    }

    /// What these topics are now, having stopped partitions that belong to others of the same name. Nobody is asked before
    /// the cluster is known.
    fn ask_ids(&self, topics: &BTreeSet<Arc<str>>) -> Result<HashMap<Arc<str>, Standing>, SourceError> {
        let Some(ids) = self.context().ids.get().filter(|_| !topics.is_empty()) else { return Ok(HashMap::new()) };
        let topics: Vec<_> = topics.iter().cloned().collect();
        let standings = ids.ask(&self.aside, &topics, PATIENCE)?;
        self.stop_changed(&standings);
        Ok(standings)
    }
}

/// Why it is not known yet what all of these are; `None` = it is.
fn unsure(standings: &HashMap<Arc<str>, Standing>) -> Option<SourceError> {
    let (topic, _) = standings.iter().find(|(_, standing)| **standing == Standing::Unsure)?;
    Some(SourceError { context: CONFIRM.to_owned(), message: unknown_topic(topic), class: Class::Transient })
}

/// How many entries to read next, so that a batch ends near its limits: by the mean size so far.
fn next_read(limits: &BatchLimits, reading: &Reading) -> usize {
    let found = &reading.found;
    let room = limits.max_records.saturating_sub(found.records);
    let bytes = limits.max_bytes.saturating_sub(found.bytes);
    let mean = found.bytes.checked_div(found.records).unwrap_or(0).max(1);
    if bytes == 0 { 0 } else { room.min(READ).min((bytes / mean).max(1)) }
}

impl Source for KafkaSource {
    fn positions(&self) -> &Arc<Positions> {
        &self.context().positions
    }

    fn fetch(&self, lane: usize, limits: &BatchLimits, idle: Duration) -> Fetched {
        let queue = &self.lanes[lane];
        let mut reading = Reading::default();
        let turn = self.positions().turn();
        // A read waits for *all* it asks for: so one entry first, then what is there.
        if queue.read(idle, 1, &mut reading) > 0 {
            loop {
                let wanted = next_read(limits, &reading);
                if wanted == 0 || queue.read(Duration::ZERO, wanted, &mut reading) < wanted {
                    break;
                }
            }
            // A free lane does not wait for a full batch, only a thin one to be filled a little.
            let records = reading.found.records;
            if records > 0 && records < limits.max_records / 4 && !limits.linger.is_zero() {
                queue.read(limits.linger, next_read(limits, &reading).max(1), &mut reading);
            }
        }
        let found = reading.found;
        let pieces = self.with_positions(lane, found.pieces);
        let starts = &self.context().starts;
        let fetched = self.positions().take(turn, pieces, |name, generation, mut reason| {
            // What is gone is told by how much is there.
            if let StopReason::OffsetLost { log, .. } = &mut reason {
                *log = Ends(self.consumer.as_ref(), Budget::new(LEARN)).bounds(&name).ok();
            }
            // Offsets of another topic of this name are lost, too, and that is told by this.
            let _ = self.ask_ids(&BTreeSet::from([Arc::clone(&name.topic)]));
            // All of that took its time: it may be stopped for a better reason, or be another's.
            self.context().say_stopped(&name, reason, || self.positions().is_current(&name, generation));
        });
        for (name, words) in found.shaken {
            starts.notice(Notice::Client(format!("{name} begins anew after: {words}")));
            if self.positions().stop(&name) {
                self.context().wait_for_start(&[name], true);
            }
        }
        fetched
    }

    fn wake(&self) {
        self.lanes.iter().for_each(LaneQueue::wake);
    }

    fn confirm(&self, batch: &Batch) -> Result<(), SourceError> {
        let standings = self.ask_ids(&batch.runs.iter().map(|run| Arc::clone(&run.partition.topic)).collect())?;
        unsure(&standings).map_or(Ok(()), Err)
    }

    fn commit(&self, receipts: Vec<Receipt>) -> u64 {
        let number = self.context().commits().spend(receipts, self.positions());
        self.send_commits();
        number
    }

    fn confirmed(&self) -> watch::Receiver<u64> {
        self.context().commits().confirmed()
    }

    fn reposition(&self, generations: &[u64]) {
        let names = self.positions().stop_generations(generations);
        self.context().wait_for_start(&names, true);
    }

    fn poll(&self, timeout: Duration) -> Result<(), SourceError> {
        if self.context().ids.get().is_none() {
            self.join()?;
        }
        match self.consumer.poll(timeout) {
            None => {}
            Some(Ok(message)) => {
                use rdkafka::Message;
                let place = format!("{}[{}]@{}", message.topic(), message.partition(), message.offset());
                return Err(fatal("poll the group", format!("a record outside the lanes' queues: {place}")));
            }
            Some(Err(error)) => match self.consumer.client().fatal_error() {
                // What the error itself says is only that it is fatal.
                Some((code, reason)) => return Err(ended(code, &reason)),
                None => self.context().starts.notice(notice(&error, advice(&error))),
            },
        }
        self.send_commits();
        self.context().look_for_membership(&self.consumer);
        self.context().serve_waiting(&self.consumer);
        self.context().broken().map_or(Ok(()), |why| Err(fatal("serve the group", why)))
    }

    fn watch(&self) -> HashMap<PartitionName, i64> {
        let assigned = self.positions().assigned();
        // Also those of which this member has no partition: it would not hear that one is gone, or there at last; and who
        // has no partition at all needs an answer, too, for health.
        let mut topics: BTreeSet<_> = self.topics.iter().cloned().collect();
        topics.extend(assigned.iter().map(|(partition, _)| Arc::clone(&partition.topic)));
        let starts = &self.context().starts;
        match self.ask_ids(&topics) {
            Ok(standings) if standings.is_empty() => {}
            Ok(standings) => {
                starts.notice(Notice::Answers);
                // A broker that does not know a topic has answered.
                if let Some(error) = unsure(&standings) {
                    starts.notice(Notice::Client(error.to_string()));
                }
                for (topic, standing) in standings {
                    match standing {
                        Standing::Is(_) => {
                            self.context().topic_is_there(&topic);
                            starts.notice(Notice::Topic(topic, true));
                        }
                        Standing::Gone => starts.notice(Notice::Topic(topic, false)),
                        Standing::Unsure => {}
                    }
                }
            }
            Err(error) => starts.notice(Notice::Away(error.to_string())),
        }
        let mut ends = HashMap::new();
        if assigned.is_empty() {
            return ends;
        }
        let mut at = self.looked_at.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, budget) = (Instant::now() + LOOK, Budget::new(PATIENCE));
        for _ in 0..assigned.len() {
            let name = PartitionName::from(assigned[*at % assigned.len()].0.as_ref());
            *at = at.wrapping_add(1);
            if let Ok((_, end)) = Ends(self.consumer.as_ref(), budget).bounds(&name) {
                ends.insert(name, end);
            }
            if Instant::now() >= until {
                break;
            }
        }
        self.positions().look(&ends);
        ends
    }

    fn finish(&self) {
        let context = self.context();
        let names: Vec<_> =
            self.positions().assigned().iter().map(|(partition, _)| PartitionName::from(partition.as_ref())).collect();
        let budget = Budget::new(context.revoke_deadline);
        self.positions().drain(&names, budget.work());
        reach(FailPoint::StopDrained);
        // While still a member: once the client is closing it no longer says so to the broker, and a commit may come
        // too late.
        let names = context.commits().names();
        context.commit_now(&self.consumer, &names, budget.left());
        reach(FailPoint::StopCommitted);
        if let Err(error) = self.consumer.close_queue() {
            context.starts.notice(Notice::Client(format!("leave the group: {error}")));
            return;
        }
        let until = Instant::now() + budget.left().max(LEAVING);
        while !self.consumer.closed() && Instant::now() < until {
            // What comes now is the last revoke; records cannot.
            let _ = self.consumer.poll(Duration::from_millis(50));
        }
    }
}

/// The client can do no more. A new one may where a static member was fenced: a coordinator that restarts amid a rebalance
/// knows such a member by the id that it had before, and fences it although nobody has taken its place.
fn ended(code: RDKafkaErrorCode, reason: &str) -> SourceError {
    match code {
        RDKafkaErrorCode::FencedInstanceId | RDKafkaErrorCode::UnreleasedInstanceId => {
            let message = format!(
                "{reason}: another process is the group's member under this `group.instance.id`; give each its own, or \
                 stop one of them"
            );
            SourceError { class: Class::Transient, ..fatal("serve the group", message) }
        }
        _ => fatal("serve the group", reason),
    }
}

fn advice(error: &KafkaError) -> String {
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
            format!("{error}: a topic does not exist; tidegate never creates one")
        }
        Some(RDKafkaErrorCode::TopicAuthorizationFailed | RDKafkaErrorCode::GroupAuthorizationFailed) => {
            format!("{error}: the principal needs READ on the topics and the group")
        }
        Some(RDKafkaErrorCode::PollExceeded) => {
            format!("{error}: the group was not served for max.poll.interval.ms")
        }
        _ => error.to_string(),
    }
}
