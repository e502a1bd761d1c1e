//! One consumer's state, as its pipeline tells it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{
    away::{Away, Dependency},
    behind::Behind,
    rules::{PluginReport, ReloadReport},
};
use crate::{
    config::HealthBounds,
    identity::ConsumerName,
    source::{PartitionName, StopReason},
};

/// A poll thread that does not come round for so long is stuck, or for twice as long as a revoke may take.
pub(super) const STUCK_POLL: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(super) enum Phase {
    Starting,
    Running,
    Stopped(String),
    Drained,
}

#[derive(Debug)]
pub(super) enum PartitionState {
    Reading,
    Waiting(String),
    Stopped(String),
}

#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) in_flight: usize,
    /// When it last finished something, or got work while it had none.
    pub(super) since: Instant,
    pub(super) retrying: Option<String>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) phase: Phase,
    /// By an operator's word. Outlives the consumer's end.
    pub(super) paused: bool,
    /// What a start is about just now.
    pub(super) doing: Option<String>,
    pub(super) trouble: Option<String>,
    pub(super) plugin: Option<PluginReport>,
    pub(super) last_reload: Option<ReloadReport>,
    pub(super) partitions: BTreeMap<PartitionName, PartitionState>,
    /// Topics that are not there, each with what to do about it.
    pub(super) missing: BTreeMap<Arc<str>, String>,
    pub(super) lag: BTreeMap<PartitionName, i64>,
    pub(super) behind: Behind,
    pub(super) away: Away,
    pub(super) lanes: Vec<Lane>,
    /// Since when the group does not count it among its members, after it did.
    pub(super) out_since: Option<Instant>,
    /// When the poll thread came round last; `None` = there is none yet, for as long as the database keeps it waiting.
    pub(super) polled: Option<Instant>,
}

impl State {
    /// What keeps a start, for the end of a sentence.
    pub(super) fn waits_for(&self) -> String {
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
    pub(super) name: ConsumerName,
    pub(super) bounds: HealthBounds,
    /// When its group counts as not served.
    pub(super) unserved_after: Duration,
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

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
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
}
