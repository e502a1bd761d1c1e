//! Rebalances: what happens between the group giving or taking a partition and a lane reading it or letting go.
//!
//! Everything here runs on the poll thread, inside the client's callback or right after it.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::{Duration, Instant},
};

use rdkafka::{
    ClientContext, Offset, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::{KafkaError, KafkaResult, RDKafkaErrorCode},
    types::RDKafkaRespErr,
};

use super::{
    super::{Notice, PartitionName, Positions, Rebalance, StartPoints, StopReason},
    budget::Budget,
    commits::{self, Commits},
    gone::Gone,
    learnt::Learnt,
    raw::{self, LaneQueue},
    settle::{Beginning, Settled},
    topic_ids::TopicIds,
    waiting::Waiting,
};
use crate::fail_point::{FailPoint, reach};

/// How long a partition waits for its start point to be asked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// The client's callbacks, and what they share with the rest of the source.
pub(super) struct Context {
    pub(super) positions: Arc<Positions>,
    pub(super) starts: Arc<dyn StartPoints>,
    pub(super) revoke_deadline: Duration,
    /// Set right after the consumer is made; gone while it is being dropped.
    pub(super) lanes: OnceLock<Weak<Vec<LaneQueue<Context>>>>,
    pub(super) ids: OnceLock<TopicIds>,
    /// Set once the group has taken this member in.
    joined: OnceLock<()>,
    /// When it was last asked whether it still is one.
    asked: Mutex<Option<Instant>>,
    commits: Mutex<Commits>,
    waiting: Mutex<Waiting>,
    gone: Mutex<Gone>,
    /// Who says why a partition is stopped: one at a time, and only as long as that is true.
    word: Mutex<()>,
    pub(super) learnt: Mutex<Learnt>,
    broken: Mutex<Option<String>>,
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a topic's partitions have to wait that a broker does not know.
pub(super) fn unknown_topic(topic: &str) -> String {
    format!("the broker does not know topic {topic}; it is asked again, for it may have just started")
}

pub(super) fn names_of(list: &TopicPartitionList) -> Vec<PartitionName> {
    let elements = list.elements();
    elements.iter().map(|e| PartitionName { topic: e.topic().into(), partition: e.partition() }).collect()
}

pub(super) fn list_of<'a>(names: impl IntoIterator<Item = &'a PartitionName>) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for name in names {
        list.add_partition(&name.topic, name.partition);
    }
    list
}

/// A list with offsets.
///
/// # Errors
/// For offsets that no log has.
pub(super) fn offsets_of<'a>(
    offsets: impl IntoIterator<Item = (&'a PartitionName, i64)>,
) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for (name, offset) in offsets {
        list.add_partition_offset(&name.topic, name.partition, Offset::Offset(offset))?;
    }
    Ok(list)
}

impl Context {
    pub(super) fn new(positions: Arc<Positions>, starts: Arc<dyn StartPoints>, revoke_deadline: Duration) -> Self {
        Self {
            positions,
            starts,
            revoke_deadline,
            lanes: OnceLock::new(),
            ids: OnceLock::new(),
            joined: OnceLock::new(),
            asked: Mutex::default(),
            commits: Mutex::default(),
            waiting: Mutex::default(),
            gone: Mutex::default(),
            word: Mutex::default(),
            learnt: Mutex::default(),
            broken: Mutex::default(),
        }
    }

    pub(super) fn commits(&self) -> MutexGuard<'_, Commits> {
        locked(&self.commits)
    }

    /// Why the client cannot go on, once something said so.
    pub(super) fn broken(&self) -> Option<String> {
        locked(&self.broken).clone()
    }

    fn break_down(&self, what: &str, error: &dyn std::fmt::Display) {
        locked(&self.broken).get_or_insert_with(|| format!("{what}: {error}"));
    }

    /// Says so once the group has taken this member in, also where it has no partition for it; and from then on, about
    /// every second, whether it still is one.
    pub(super) fn look_for_membership(&self, consumer: &BaseConsumer<Self>) {
        let now = Instant::now();
        let lately = locked(&self.asked).is_some_and(|asked| now.saturating_duration_since(asked) < AGAIN);
        if self.ids.get().is_none() || (lately && self.joined.get().is_some()) {
            return;
        }
        *locked(&self.asked) = Some(now);
        let member = raw::is_member(consumer);
        if member && self.joined.set(()).is_ok() {
            self.starts.notice(Notice::Assigned(Vec::new()));
        }
        if self.joined.get().is_some() {
            self.starts.notice(Notice::Member(member));
        }
    }

    /// Lets these begin anew at the next poll.
    pub(super) fn wait_for_start(&self, names: &[PartitionName], fenced: bool) {
        locked(&self.learnt).forget(names);
        let mut waiting = locked(&self.waiting);
        waiting.names.extend(names.iter().map(|name| (name.clone(), fenced)));
        if fenced {
            waiting.not_before = None;
        }
    }

    /// Says why a partition is stopped, if `still` agrees; nobody can say anything else of it in between, and it cannot be
    /// taken away. Whether it was said.
    pub(super) fn say_stopped(&self, name: &PartitionName, reason: StopReason, still: impl FnOnce() -> bool) -> bool {
        let _word = locked(&self.word);
        let says = still();
        if says {
            self.starts.notice(Notice::Stopped(name.clone(), reason));
        }
        says
    }

    /// This one is stopped because its topic is gone. `held` = the client has it.
    pub(super) fn topic_gone(&self, name: PartitionName, held: bool) {
        locked(&self.gone).stopped(name, held);
    }

    /// A topic is there.
    pub(super) fn topic_is_there(&self, topic: &str) {
        locked(&self.gone).is_there(topic);
    }

    /// Asks again for the start points of those that wait, if it is time.
    pub(super) fn serve_waiting(&self, consumer: &BaseConsumer<Self>) {
        // Here, on the thread that gives partitions back: what was revoked meanwhile is no longer among them, or is no
        // longer the client's.
        let back = locked(&self.gone).take();
        for (name, held) in back {
            self.wait_for_start(&[name], held);
        }
        let mut wanted: Vec<(PartitionName, bool)> = {
            let mut waiting = locked(&self.waiting);
            if waiting.names.is_empty() || waiting.not_before.is_some_and(|time| Instant::now() < time) {
                return;
            }
            waiting.take()
        };
        // What was fenced is still assigned to the client: it is taken back first, since only a fresh assignment takes
        // an offset for sure. If it is not, it was revoked while its lane found out: it is not ours to begin.
        let assigned: HashSet<_> = self.assigned(consumer).into_iter().collect();
        wanted.retain(|(name, fenced)| !fenced || assigned.contains(name));
        let held: Vec<_> =
            wanted.iter().map(|(name, _)| name).filter(|name| assigned.contains(name)).cloned().collect();
        let mut settled = self.settle(consumer, &wanted);
        let begun: HashSet<_> = settled.begin.iter().map(Beginning::name).collect();
        let again: Vec<_> = held.into_iter().filter(|name| begun.contains(name)).collect();
        let begun = self.begin(consumer, std::mem::take(&mut settled.begin), &again);
        if !begun.is_empty() {
            self.starts.notice(Notice::Assigned(begun));
        }
        self.after(settled, &wanted);
    }

    fn assigned(&self, consumer: &BaseConsumer<Self>) -> Vec<PartitionName> {
        match consumer.assignment() {
            Ok(list) => names_of(&list),
            Err(error) => {
                self.break_down("read the client's assignment", &error);
                Vec::new()
            }
        }
    }

    /// Gives the client these partitions with their offsets, no lane reading meanwhile, and names those that have begun.
    /// Answers a rebalance even where there is nothing to give.
    fn begin(
        &self,
        consumer: &BaseConsumer<Self>,
        beginnings: Vec<Beginning>,
        again: &[PartitionName],
    ) -> Vec<PartitionName> {
        let Some(lanes) = self.lanes.get().and_then(Weak::upgrade) else { return Vec::new() };
        let hold = self.positions.hold(|| lanes.iter().for_each(LaneQueue::wake));
        if !again.is_empty() {
            // The client stops a partition on a thread of its own, and its queue leads nowhere afterwards: forwarded before
            // that, it would be read by nobody, in silence. The same thread answers the second question after the stop.
            let stopped = consumer.incremental_unassign(&list_of(again)).and_then(|()| consumer.assignment());
            if let Err(error) = stopped {
                self.break_down("take partitions back from the client", &error);
                return Vec::new();
            }
        }
        let names: Vec<_> = beginnings.iter().map(Beginning::name).collect();
        let mut picked = Vec::new();
        for name in &names {
            let lane = self.positions.lane_for(name, &picked);
            // Before the assignment: afterwards some records may already stand in the main queue.
            lanes[lane].forward(name);
            picked.push(lane);
        }
        let assigned = offsets_of(names.iter().zip(beginnings.iter().map(|beginning| beginning.at)));
        if let Err(error) = assigned.and_then(|list| consumer.incremental_assign(&list)) {
            self.break_down("assign partitions to the client", &error);
            return Vec::new();
        }
        let mut receipts = Vec::new();
        for (beginning, lane) in beginnings.into_iter().zip(picked) {
            let generation = self.positions.install(&hold, beginning.partition, lane, beginning.at);
            receipts.extend(beginning.proof.map(|proof| proof.under(generation)));
        }
        if !names.is_empty() {
            reach(FailPoint::Assigned);
        }
        drop(hold);
        locked(&self.learnt).begun(&names);
        // Sent by the poll that this is within.
        self.commits().spend(receipts, &self.positions);
        names
    }

    fn after(&self, settled: Settled, wanted: &[(PartitionName, bool)]) {
        let fenced: HashMap<_, _> = wanted.iter().cloned().collect();
        for (name, reason) in settled.stop {
            if matches!(reason, StopReason::TopicGone { .. }) {
                self.topic_gone(name.clone(), fenced.get(&name).copied().unwrap_or_default());
            }
            self.say_stopped(&name, reason, || true);
        }
        if !settled.later.is_empty() {
            let mut waiting = locked(&self.waiting);
            waiting.not_before = Some(Instant::now() + AGAIN);
            waiting
                .names
                .extend(settled.later.iter().map(|name| (name.clone(), fenced.get(name).copied().unwrap_or_default())));
            drop(waiting);
            self.starts.notice(Notice::Waiting(settled.later, settled.why.unwrap_or_default()));
        }
    }

    fn assign(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) {
        let names = names_of(list);
        // Another member may have had them.
        locked(&self.learnt).forget(&names);
        let wanted: Vec<_> = names.into_iter().map(|name| (name, false)).collect();
        let mut settled = self.settle(consumer, &wanted);
        let begun = self.begin(consumer, std::mem::take(&mut settled.begin), &[]);
        self.starts.notice(Notice::Rebalanced(Rebalance::Assign));
        // None is an answer, too: the group has more members than partitions.
        let _ = self.joined.set(());
        self.starts.notice(Notice::Assigned(begun));
        self.after(settled, &wanted);
    }

    fn revoke(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) {
        let budget = Budget::new(self.revoke_deadline);
        let names = names_of(list);
        locked(&self.waiting).names.retain(|name, _| !names.contains(name));
        locked(&self.gone).forget(&names);
        locked(&self.learnt).forget(&names);
        reach(FailPoint::RevokeBegun);
        // Whether the assignment is "lost" is no guard (the client may not know yet): the database decides, and a commit
        // that comes too late fails.
        let lost = consumer.assignment_lost();
        let drained = self.positions.drain(&names, budget.work());
        reach(FailPoint::RevokeDrained);
        self.commit_now(consumer, &names, budget.left());
        reach(FailPoint::RevokeCommitted);
        let lanes = self.lanes.get().and_then(Weak::upgrade);
        let hold = self.positions.hold(|| lanes.iter().flat_map(|lanes| lanes.iter()).for_each(LaneQueue::wake));
        // A partition that waits for its start point is the group's but not the client's, and the client refuses a list
        // with such a one in it.
        let assigned: HashSet<_> = self.assigned(consumer).into_iter().collect();
        let held = list_of(names.iter().filter(|name| assigned.contains(name)));
        if let Err(error) = consumer.incremental_unassign(&held) {
            self.break_down("give partitions back", &error);
        }
        // What is said of them after this is said of another's.
        let word = locked(&self.word);
        self.positions.remove(&hold, &names);
        drop(hold);
        self.starts.notice(Notice::Rebalanced(if lost { Rebalance::Lost } else { Rebalance::Revoke }));
        self.starts.notice(Notice::Revoked { partitions: names, drained, lost });
        drop(word);
    }

    /// Commits what is due of these partitions, and waits for the answer. Without one the chain knows where to go on.
    pub(super) fn commit_now(&self, consumer: &BaseConsumer<Self>, names: &[PartitionName], within: Duration) {
        let offsets = self.commits().take(names);
        if offsets.is_empty() {
            return;
        }
        let list = commits::list_of(&offsets);
        if let Err(error) = list.and_then(|list| raw::commit_within(consumer, &list, within)) {
            self.starts.notice(Notice::CommitFailed(error.to_string()));
        }
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, fac: &str, message: &str) {
        match level {
            // Comes to `error` as well, which tells it once.
            _ if matches!(fac, "FAIL" | "ERROR") => tracing::debug!(target: "librdkafka", fac, "{message}"),
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
                tracing::error!(target: "librdkafka", fac, "{message}");
            }
            RDKafkaLogLevel::Warning => tracing::warn!(target: "librdkafka", fac, "{message}"),
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => tracing::info!(target: "librdkafka", fac, "{message}"),
            RDKafkaLogLevel::Debug => tracing::debug!(target: "librdkafka", fac, "{message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        // Every end of a partition comes through here as well: hundreds a second on a live topic.
        if !matches!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::PartitionEOF)) {
            self.starts.notice(notice(&error, format!("{error}: {reason}")));
        }
    }
}

/// A client's error for whoever reads notices.
pub(super) fn notice(error: &KafkaError, text: String) -> Notice {
    use RDKafkaErrorCode as C;
    match error.rdkafka_error_code() {
        Some(C::BrokerTransportFailure | C::AllBrokersDown | C::Resolve | C::OperationTimedOut) => Notice::Away(text),
        _ => Notice::Client(text),
    }
}

impl ConsumerContext for Context {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, err: RDKafkaRespErr, list: &mut TopicPartitionList) {
        if matches!(err, RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
            self.assign(consumer, list);
        } else {
            self.revoke(consumer, list);
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, _offsets: &TopicPartitionList) {
        self.commits().answered(result.is_ok());
        match result {
            Ok(()) => reach(FailPoint::OffsetsCommitted),
            Err(error) => self.starts.notice(Notice::CommitFailed(error.to_string())),
        }
    }
}
