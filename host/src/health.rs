//! Whether the process does its work, and if not, why. The pipeline reports; `/readyz`, `/livez` and the status page read.

mod away;
mod behind;
mod rules;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::{Duration, Instant},
};

use away::Away;
pub use away::Dependency;
use behind::Behind;
pub use rules::{PluginReport, ReloadReport};
use serde::Serialize;

use crate::{
    config::HealthBounds,
    identity::ConsumerName,
    source::{PartitionName, StopReason},
};

/// A poll thread that does not come round for so long is stuck, or for twice as long as a revoke may take.
const STUCK_POLL: Duration = Duration::from_secs(120);

/// All consumers of a process.
#[derive(Clone, Debug, Default)]
pub struct Health {
    consumers: Arc<RwLock<Vec<Arc<ConsumerHealth>>>>,
    configuration: Arc<Mutex<Option<ReloadReport>>>,
}

impl Health {
    /// Of these consumers.
    #[must_use]
    pub fn new(consumers: Vec<Arc<ConsumerHealth>>) -> Self {
        Self { consumers: Arc::new(RwLock::new(consumers)), configuration: Arc::default() }
    }

    /// One more.
    pub fn add(&self, consumer: Arc<ConsumerHealth>) {
        self.consumers.write().unwrap_or_else(PoisonError::into_inner).push(consumer);
    }

    /// It is no longer one of them.
    pub fn remove(&self, consumer: &ConsumerName) {
        self.consumers.write().unwrap_or_else(PoisonError::into_inner).retain(|kept| kept.name != *consumer);
    }

    /// The configuration was read again.
    pub fn configured(&self, report: ReloadReport) {
        *self.configuration.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    /// What became of the configuration when it was read again; `None` = it was not.
    #[must_use]
    pub fn configuration(&self) -> Option<ReloadReport> {
        self.configuration.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn all(&self) -> Vec<Arc<ConsumerHealth>> {
        self.consumers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why the process is not ready; empty = ready.
    #[must_use]
    pub fn reasons(&self) -> Vec<Reason> {
        let now = Instant::now();
        self.all().iter().flat_map(|consumer| consumer.reasons(now)).collect()
    }

    /// Whether a restart is not called for. A database or broker that is away is no reason for one.
    #[must_use]
    pub fn live(&self) -> bool {
        let now = Instant::now();
        self.all().iter().all(|consumer| consumer.live(now))
    }

    /// Everything, for a person.
    #[must_use]
    pub fn report(&self) -> Vec<ConsumerReport> {
        let now = Instant::now();
        self.all().iter().map(|consumer| consumer.report(now)).collect()
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Whose.
    pub consumer: String,
    /// `consumer`, `lane 0`, `orders[3]`, `group`.
    pub about: String,
    /// What is wrong and, where known, what to do.
    pub text: String,
}

/// A consumer's state, for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConsumerReport {
    /// Its name.
    pub consumer: String,
    /// starting, running, paused, stopped, drained.
    pub phase: &'static str,
    /// Its lanes, in order.
    pub lanes: Vec<LaneReport>,
    /// Its partitions: reading, waiting, stopped.
    pub partitions: BTreeMap<String, &'static str>,
    /// Offsets behind the end of the log, as far as known.
    pub lag: BTreeMap<String, i64>,
    /// The plugin that rules; `None` = none was ready yet.
    pub plugin: Option<PluginReport>,
    /// What became of the last reload; `None` = there was none.
    pub last_reload: Option<ReloadReport>,
    /// What is wrong.
    pub reasons: Vec<Reason>,
}

/// A lane's state, for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LaneReport {
    /// idle, working, retrying.
    pub state: &'static str,
    /// Batches at hand.
    pub batches: usize,
}

#[derive(Debug)]
enum Phase {
    Starting,
    Running,
    Stopped(String),
    Drained,
}

#[derive(Debug)]
enum PartitionState {
    Reading,
    Waiting(String),
    Stopped(String),
}

#[derive(Clone, Debug)]
struct Lane {
    in_flight: usize,
    /// When it last finished something, or got work while it had none.
    since: Instant,
    retrying: Option<String>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// By an operator's word. Outlives the consumer's end.
    paused: bool,
    /// What a start is about just now.
    doing: Option<String>,
    trouble: Option<String>,
    plugin: Option<PluginReport>,
    last_reload: Option<ReloadReport>,
    partitions: BTreeMap<PartitionName, PartitionState>,
    /// Topics that are not there, each with what to do about it.
    missing: BTreeMap<Arc<str>, String>,
    lag: BTreeMap<PartitionName, i64>,
    behind: Behind,
    away: Away,
    lanes: Vec<Lane>,
    /// Since when the group does not count it among its members, after it did.
    out_since: Option<Instant>,
    /// When the poll thread came round last; `None` = there is none yet, for as long as the database keeps it waiting.
    polled: Option<Instant>,
}

impl State {
    /// What keeps a start, for the end of a sentence.
    fn waits_for(&self) -> String {
        match (&self.doing, &self.trouble) {
            (None, None) => String::new(),
            (Some(what), None) | (None, Some(what)) => format!(": {what}"),
            (Some(doing), Some(trouble)) => format!(": {doing}; so far: {trouble}"),
        }
    }
}

/// One consumer's health. The pipeline writes it from its threads.
#[derive(Debug)]
pub struct ConsumerHealth {
    name: ConsumerName,
    bounds: HealthBounds,
    /// When its group counts as not served.
    unserved_after: Duration,
    state: Mutex<State>,
}

impl ConsumerHealth {
    /// A consumer that is starting, with the usual bounds.
    #[must_use]
    pub fn new(name: ConsumerName, lanes: usize) -> Arc<Self> {
        Self::watched(name, lanes, HealthBounds::default(), Duration::ZERO)
    }

    /// A consumer that is starting, whose revokes may take so long.
    #[must_use]
    pub fn watched(name: ConsumerName, lanes: usize, bounds: HealthBounds, revoke_deadline: Duration) -> Arc<Self> {
        let now = Instant::now();
        let lane = Lane { in_flight: 0, since: now, retrying: None };
        let state = State {
            phase: Phase::Starting,
            paused: false,
            doing: None,
            trouble: None,
            plugin: None,
            last_reload: None,
            partitions: BTreeMap::new(),
            missing: BTreeMap::new(),
            lag: BTreeMap::new(),
            behind: Behind::default(),
            away: Away::default(),
            lanes: vec![lane; lanes],
            out_since: None,
            polled: None,
        };
        let unserved_after = STUCK_POLL.max(revoke_deadline * 2).min(bounds.dead_after);
        Arc::new(Self { name, bounds, unserved_after, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What its start is about from now on, such as "asking … for …"; `None` = it will be tried again. What keeps it from
    /// starting is told beside.
    pub fn doing(&self, what: impl Into<Option<String>>) {
        self.lock().doing = what.into();
    }

    /// What its start is about and what keeps it; `None` where it does not start.
    #[must_use]
    pub fn waits_for(&self) -> Option<String> {
        let state = self.lock();
        matches!(state.phase, Phase::Starting).then(|| state.waits_for())
    }

    /// Something keeps it from starting for now.
    pub fn trouble(&self, text: String) {
        self.lock().trouble = Some(text);
    }

    /// This plugin rules from now on.
    pub fn runs(&self, plugin: PluginReport) {
        self.lock().plugin = Some(plugin);
    }

    /// A reload has ended.
    pub fn reloaded(&self, report: ReloadReport) {
        self.lock().last_reload = Some(report);
    }

    /// The group gave these (none is an answer too: the member is in the group).
    pub fn assigned(&self, names: &[PartitionName]) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Starting) {
            state.phase = Phase::Running;
        }
        (state.doing, state.trouble) = (None, None);
        state.partitions.extend(names.iter().map(|name| (name.clone(), PartitionState::Reading)));
    }

    /// Whether the group counts it among its members.
    pub fn member(&self, is: bool) {
        let mut state = self.lock();
        if is {
            state.out_since = None;
        } else {
            state.out_since.get_or_insert_with(Instant::now);
        }
    }

    /// The group took these.
    pub fn revoked(&self, names: &[PartitionName]) {
        let mut state = self.lock();
        for name in names {
            state.partitions.remove(name);
            state.lag.remove(name);
            state.behind.forget(name);
        }
    }

    /// These have no start point yet.
    pub fn waiting(&self, names: &[PartitionName], why: &str) {
        let waiting = names.iter().map(|name| (name.clone(), PartitionState::Waiting(why.to_owned())));
        self.lock().partitions.extend(waiting);
    }

    /// A topic of its is not there. `false` where that is known.
    pub fn topic_missing(&self, topic: &Arc<str>, why: String) -> bool {
        let mut state = self.lock();
        let news = !state.missing.contains_key(topic);
        if news {
            state.missing.insert(Arc::clone(topic), why);
        }
        news
    }

    /// A topic of its is there. `false` where it was not missed.
    pub fn topic_found(&self, topic: &str) -> bool {
        self.lock().missing.remove(topic).is_some()
    }

    /// This one is no longer read.
    pub fn partition_stopped(&self, name: &PartitionName, reason: &StopReason, way_out: Option<String>) {
        let text = way_out.map_or_else(|| reason.to_string(), |way_out| format!("{reason}; {way_out}"));
        self.lock().partitions.insert(name.clone(), PartitionState::Stopped(text));
    }

    /// Where this one stands, and how far that is before the end of its log. `false` where it is not this consumer's.
    pub fn lag(&self, name: &PartitionName, next: i64, records: i64) -> bool {
        let mut state = self.lock();
        let ours = state.partitions.contains_key(name);
        if ours {
            state.lag.insert(name.clone(), records.max(0));
            state.behind.look(name, next, records, Instant::now());
        }
        ours
    }

    /// It has answered.
    pub fn answers(&self, dependency: Dependency) {
        self.lock().away.answers(dependency);
    }

    /// It has not answered.
    pub fn silent(&self, dependency: Dependency, why: String) {
        self.lock().away.silent(dependency, Instant::now(), why);
    }

    /// The whole consumer stopped. The first reason stays.
    pub fn stopped(&self, reason: String) {
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Stopped(_)) {
            state.phase = Phase::Stopped(reason);
        }
        state.partitions.clear();
        state.lag.clear();
        state.behind.clear();
    }

    /// The consumer was drained on purpose.
    pub fn drained(&self) {
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Stopped(_)) {
            state.phase = Phase::Drained;
        }
        state.partitions.clear();
        state.lag.clear();
        state.behind.clear();
    }

    /// An operator starts it again after it stopped: nothing of before is true any more.
    pub fn restarting(&self) {
        let mut state = self.lock();
        let idle = Lane { in_flight: 0, since: Instant::now(), retrying: None };
        state.lanes.fill(idle);
        (state.phase, state.doing, state.trouble) = (Phase::Starting, None, None);
        (state.polled, state.out_since) = (None, None);
        (state.behind, state.away) = (Behind::default(), Away::default());
        state.missing.clear();
    }

    /// An operator pauses it, or lets it go on.
    pub fn paused(&self, paused: bool) {
        let mut state = self.lock();
        state.paused = paused;
        // What stood still meanwhile did so on purpose.
        state.behind.clear();
    }

    /// The poll thread begins, or came round.
    pub fn polled(&self) {
        self.lock().polled = Some(Instant::now());
    }

    /// A lane took a batch.
    pub fn lane_took(&self, lane: usize) {
        let mut state = self.lock();
        let lane = &mut state.lanes[lane];
        if lane.in_flight == 0 {
            lane.since = Instant::now();
        }
        lane.in_flight += 1;
    }

    /// A lane finished a batch, or gave it up.
    pub fn lane_finished(&self, lane: usize) {
        let mut state = self.lock();
        let lane = &mut state.lanes[lane];
        lane.in_flight = lane.in_flight.saturating_sub(1);
        lane.since = Instant::now();
        lane.retrying = None;
    }

    /// A lane made a step within a batch (a part of it is committed).
    pub fn lane_progress(&self, lane: usize) {
        let mut state = self.lock();
        state.lanes[lane].since = Instant::now();
        state.lanes[lane].retrying = None;
    }

    /// A lane tries a batch again.
    pub fn lane_retrying(&self, lane: usize, why: String) {
        self.lock().lanes[lane].retrying = Some(why);
    }

    /// Why it stopped, where it did.
    #[must_use]
    pub fn stop_reason(&self) -> Option<String> {
        match &self.lock().phase {
            Phase::Stopped(reason) => Some(reason.clone()),
            _ => None,
        }
    }

    /// How many partitions are read, and how many are stopped.
    #[must_use]
    pub fn partitions(&self) -> (usize, usize) {
        let state = self.lock();
        let count = |kind: fn(&PartitionState) -> bool| state.partitions.values().filter(|p| kind(p)).count();
        (count(|p| matches!(p, PartitionState::Reading)), count(|p| matches!(p, PartitionState::Stopped(_))))
    }

    fn live(&self, now: Instant) -> bool {
        let state = self.lock();
        let ended = matches!(state.phase, Phase::Stopped(_) | Phase::Drained);
        ended || state.polled.is_none_or(|polled| now.saturating_duration_since(polled) < self.bounds.dead_after)
    }

    fn reasons(&self, now: Instant) -> Vec<Reason> {
        let state = self.lock();
        let reason = |about: String, text: String| Reason { consumer: self.name.to_string(), about, text };
        let whole = |text: &str| reason("consumer".to_owned(), text.to_owned());
        let mut reasons = Vec::new();
        match &state.phase {
            Phase::Starting => {
                reasons.push(whole(&format!("has not joined its group yet{}", state.waits_for())));
            }
            Phase::Running => {}
            Phase::Stopped(why) => return vec![whole(&format!("stopped: {why}"))],
            Phase::Drained => return vec![whole("is shutting down")],
        }
        reasons.extend(
            state
                .away
                .reasons(now, self.bounds.silent_after)
                .map(|(dependency, text)| reason(dependency.to_string(), text)),
        );
        if state.paused {
            let name = &self.name;
            reasons.push(whole(&format!("is paused and takes no records: POST /v1/consumers/{name}/resume goes on")));
        }
        let unserved = state.polled.map(|polled| now.saturating_duration_since(polled)).unwrap_or_default();
        if unserved >= self.unserved_after {
            reasons.push(reason("group".to_owned(), format!("was not served for {} s", unserved.as_secs())));
        }
        let out = state.out_since.map(|since| now.saturating_duration_since(since));
        if let (Phase::Running, Some(out)) = (&state.phase, out)
            && out >= self.bounds.silent_after
        {
            let trouble = state.trouble.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
            let text = format!("is not let in again for {} s after it was missed{trouble}", out.as_secs());
            reasons.push(reason("group".to_owned(), text));
        }
        for (number, lane) in state.lanes.iter().enumerate() {
            let about = format!("lane {number}");
            let stands = now.saturating_duration_since(lane.since);
            if let Some(why) = &lane.retrying {
                reasons.push(reason(about, format!("tries its batch again: {why}")));
            } else if lane.in_flight > 0 && stands >= self.bounds.stuck_after {
                reasons.push(reason(about, format!("has had work for {} s and finished none of it", stands.as_secs())));
            }
        }
        for (topic, why) in &state.missing {
            // Each of its partitions says so, where it has any.
            if !state.partitions.keys().any(|name| name.topic == *topic) {
                reasons.push(reason(format!("topic {topic}"), why.clone()));
            }
        }
        for (name, partition) in &state.partitions {
            match partition {
                PartitionState::Reading => {
                    let still = state.behind.reason(name, now, self.bounds.stuck_after).filter(|_| !state.paused);
                    reasons.extend(still.map(|text| reason(name.to_string(), text)));
                }
                PartitionState::Waiting(why) => {
                    reasons.push(reason(name.to_string(), format!("waits for its start point: {why}")));
                }
                PartitionState::Stopped(why) => reasons.push(reason(name.to_string(), format!("is stopped: {why}"))),
            }
        }
        reasons
    }

    fn report(&self, now: Instant) -> ConsumerReport {
        let reasons = self.reasons(now);
        let state = self.lock();
        let phase = match &state.phase {
            Phase::Starting => "starting",
            Phase::Running if state.paused => "paused",
            Phase::Running => "running",
            Phase::Stopped(_) => "stopped",
            Phase::Drained => "drained",
        };
        let partition = |partition: &PartitionState| match partition {
            PartitionState::Reading => "reading",
            PartitionState::Waiting(_) => "waiting",
            PartitionState::Stopped(_) => "stopped",
        };
        let lane = |lane: &Lane| LaneReport {
            state: match (&lane.retrying, lane.in_flight) {
                (Some(_), _) => "retrying",
                (None, 0) => "idle",
                (None, _) => "working",
            },
            batches: lane.in_flight,
        };
        ConsumerReport {
            consumer: self.name.to_string(),
            phase,
            lanes: state.lanes.iter().map(lane).collect(),
            partitions: state.partitions.iter().map(|(name, p)| (name.to_string(), partition(p))).collect(),
            lag: state.lag.iter().map(|(name, records)| (name.to_string(), *records)).collect(),
            plugin: state.plugin.clone(),
            last_reload: state.last_reload.clone(),
            reasons,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const STUCK_LANE: Duration = Duration::from_secs(25);
    const DEAD_POLL: Duration = Duration::from_secs(600);

    fn consumer() -> Arc<ConsumerHealth> {
        ConsumerHealth::new(ConsumerName::new("c").unwrap(), 2)
    }

    fn name(partition: i32) -> PartitionName {
        PartitionName { topic: "t".into(), partition }
    }

    fn texts(consumer: &ConsumerHealth, later: Duration) -> Vec<String> {
        let reasons = consumer.reasons(Instant::now() + later);
        reasons.into_iter().map(|reason| format!("{}: {}", reason.about, reason.text)).collect()
    }

    #[test]
    fn ready_once_it_is_in_its_group() {
        let consumer = consumer();
        consumer.trouble("no broker".into());
        assert_eq!(texts(&consumer, Duration::ZERO), ["consumer: has not joined its group yet: no broker"]);
        consumer.doing("asking again".into());
        let both = "has not joined its group yet: asking again; so far: no broker";
        assert_eq!(texts(&consumer, Duration::ZERO), [format!("consumer: {both}")]);
        assert_eq!(consumer.waits_for().as_deref(), Some(": asking again; so far: no broker"));
        consumer.assigned(&[]);
        assert_eq!((texts(&consumer, Duration::ZERO), consumer.waits_for()), (vec![], None));
        consumer.stopped("first".into());
        consumer.stopped("second".into());
        assert_eq!(texts(&consumer, Duration::ZERO), ["consumer: stopped: first"]);
    }

    #[test]
    fn paused_is_not_ready_and_a_restart_forgets_why_it_stopped() {
        let consumer = consumer();
        consumer.assigned(&[]);
        consumer.paused(true);
        let phase = || consumer.report(Instant::now()).phase;
        assert_eq!(phase(), "paused");
        let said = texts(&consumer, Duration::ZERO);
        assert!(said.len() == 1 && said[0].contains("/v1/consumers/c/resume"), "{said:?}");
        consumer.lane_took(0);
        consumer.stopped("poison".into());
        assert_eq!(phase(), "stopped");
        consumer.restarting();
        consumer.paused(false);
        assert_eq!((phase(), consumer.stop_reason()), ("starting", None));
        consumer.assigned(&[]);
        assert_eq!(texts(&consumer, STUCK_LANE), [""; 0], "a batch of before is nobody's work");
    }

    #[test]
    fn a_stopped_partition_is_named_and_the_others_go_on() {
        let consumer = consumer();
        consumer.assigned(&[name(0), name(1)]);
        consumer.partition_stopped(&name(1), &StopReason::TopicGone { topic: "t".into() }, Some("do this".into()));
        let said = texts(&consumer, Duration::ZERO);
        assert!(
            said.len() == 1 && said[0].starts_with("t[1]: is stopped: topic t does not exist any more"),
            "{said:?}"
        );
        assert_eq!(consumer.partitions(), (1, 1));
        consumer.revoked(&[name(1)]);
        assert_eq!(texts(&consumer, Duration::ZERO), [""; 0]);
    }

    #[test]
    fn a_missing_topic_is_named_until_it_is_there_whoever_gets_its_partitions() {
        let consumer = consumer();
        let topic: Arc<str> = "t".into();
        consumer.assigned(&[]);
        assert!(consumer.topic_missing(&topic, "create it".into()) && !consumer.topic_missing(&topic, "again".into()));
        assert_eq!(texts(&consumer, Duration::ZERO), ["topic t: create it"]);
        consumer.partition_stopped(&name(0), &StopReason::TopicGone { topic: topic.clone() }, None);
        assert!(matches!(&texts(&consumer, Duration::ZERO)[..], [one] if one.starts_with("t[0]: is stopped")));
        consumer.revoked(&[name(0)]);
        assert!(consumer.topic_found("t") && !consumer.topic_found("t"));
        assert_eq!(texts(&consumer, Duration::ZERO), [""; 0], "another member may have its partitions");
    }

    #[test]
    fn a_lane_is_stuck_only_with_work() {
        let consumer = consumer();
        consumer.assigned(&[]);
        consumer.polled();
        assert_eq!(texts(&consumer, STUCK_LANE), [""; 0], "idle is not stuck");
        consumer.lane_took(1);
        assert_eq!(texts(&consumer, STUCK_POLL).len(), 2, "the lane, and the group that nobody serves in this test");
        consumer.lane_retrying(1, "no database".into());
        assert_eq!(texts(&consumer, Duration::ZERO), ["lane 1: tries its batch again: no database"]);
        consumer.lane_finished(1);
        assert_eq!(texts(&consumer, Duration::ZERO), [""; 0]);
    }

    #[test]
    fn whoever_does_not_answer_and_whatever_does_not_move_is_told_after_a_while() {
        let consumer = consumer();
        consumer.assigned(&[name(0), name(1)]);
        consumer.silent(Dependency::Database, "refused".into());
        assert!(consumer.lag(&name(0), 5, 3) && consumer.lag(&name(1), 5, 0));
        let later = Duration::from_secs(30);
        assert_eq!(texts(&consumer, Duration::ZERO), [""; 0]);
        let said = texts(&consumer, later);
        assert!(said.len() == 2 && said[0].starts_with("database: has not answered for 30 s: refused"), "{said:?}");
        assert!(said[1].starts_with("t[0]: is 3 offsets behind and has not moved for 30 s"), "{said:?}");
        consumer.answers(Dependency::Database);
        consumer.revoked(&[name(0)]);
        assert_eq!(texts(&consumer, later), [""; 0]);
        assert!(!consumer.lag(&name(0), 5, 3), "another's by now");
        assert_eq!(texts(&consumer, later), [""; 0]);
    }

    #[test]
    fn whoever_is_out_of_its_group_says_so_after_a_while() {
        let consumer = consumer();
        consumer.assigned(&[]);
        consumer.member(true);
        consumer.member(false);
        consumer.member(false);
        consumer.trouble("the group is full".into());
        assert_eq!(texts(&consumer, Duration::from_secs(1)), [""; 0], "a rebalance");
        let said = texts(&consumer, Duration::from_secs(20));
        assert!(said.len() == 1 && said[0].starts_with("group: is not let in again for 20 s"), "{said:?}");
        assert!(said[0].ends_with(": the group is full"), "{said:?}");
        consumer.member(true);
        assert_eq!(texts(&consumer, Duration::from_secs(20)), [""; 0]);
    }

    #[test]
    fn patience_is_the_configuration_s() {
        let secs = Duration::from_secs;
        let bounds = HealthBounds { silent_after: secs(2), stuck_after: secs(3), dead_after: secs(100) };
        let name = ConsumerName::new("c").unwrap();
        let consumer = ConsumerHealth::watched(name, 1, bounds, secs(1));
        consumer.assigned(&[]);
        consumer.polled();
        consumer.silent(Dependency::Kafka, "refused".into());
        assert_eq!(texts(&consumer, secs(1)), [""; 0]);
        assert_eq!(texts(&consumer, secs(2)).len(), 1);
        consumer.lane_took(0);
        assert_eq!(texts(&consumer, secs(3)).len(), 2);
        let later = Instant::now() + secs(101);
        assert!(!consumer.live(later));
        assert!(
            texts(&consumer, secs(101)).iter().any(|text| text.starts_with("group: was not served")),
            "and says why"
        );
    }

    #[test]
    fn only_a_poll_thread_that_hangs_calls_for_a_restart() {
        let consumer = consumer();
        let later = Instant::now() + DEAD_POLL * 2;
        consumer.trouble("no database".into());
        assert!(consumer.live(later), "a restart does not bring the database back");
        consumer.polled();
        assert!(!consumer.live(later));
        consumer.stopped("no".into());
        assert!(consumer.live(later), "nor does it help a consumer that stopped for a reason");
    }
}
