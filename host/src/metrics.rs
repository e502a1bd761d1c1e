//! Every metric: name, labels, help. Labels are bounded: consumers, topics and partitions of the configuration, and
//! words from lists in this code; never an id, a message or a plugin's text.
//!
//! Metrics are a view of the checkpoints (Invariant 5): an outcome is counted when its transaction is known to be
//! committed. What a crash keeps from being counted is in the database all the same.

mod consumer;
mod words;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub use consumer::{ConsumerMetrics, Effects};

use prometheus_client::{
    encoding::text::encode,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
pub use words::{Reloaded, RetryCause, ShadowResult};

use crate::identity::ConsumerName;

type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter>;
type Gauges = Family<Labels, Gauge>;
type Times = Family<Labels, Histogram, fn() -> Histogram>;

/// From 0.5 ms to 65 s.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.0005, 2.0, 18))
}

/// From 1 to 32,768 records.
fn records() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 16))
}

/// All metrics of a process.
pub struct Metrics {
    registry: Registry,
    records: Counters,
    ledger_inserts: Counters,
    duplicate_skips: Counters,
    unique_conflicts: Counters,
    payload_conflicts: Counters,
    attempts_left_out: Counters,
    dead_letters: Counters,
    too_old: Counters,
    stale: Counters,
    refused: Counters,
    same_state: Counters,
    missing: Counters,
    plugin_failures: Counters,
    retries: Counters,
    fenced: Counters,
    breaker: Counters,
    rebalances: Counters,
    commit_failures: Counters,
    client_events: Counters,
    reloads: Counters,
    config_reloads: Counters,
    shadow: Counters,
    batch_records: Times,
    batch_seconds: Times,
    plugin_seconds: Times,
    lag: Gauges,
    assigned: Gauges,
    stopped: Gauges,
    running: Gauges,
    paused: Gauges,
    progress: Gauges,
    /// Labels that came with what happened, by consumer.
    later: Mutex<BTreeMap<String, Later>>,
}

/// Sets of labels that no list in this code has.
type Later = Arc<Mutex<BTreeSet<Labels>>>;

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All at nothing.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("tidegate");
        let r = &mut registry;
        let records_family =
            counter(r, "records", "Inputs consumed, by outcome: applied, duplicate, skipped, dead, too_old");
        let ledger_inserts = counter(r, "ledger_inserts", "Inputs that came first and are in the ledger");
        let duplicate_skips =
            counter(r, "duplicate_skips", "Inputs that were processed before; normal, a sudden rise is not");
        let unique_conflicts =
            counter(r, "unique_conflicts", "Inputs that a unique constraint of a target refused (SQLSTATE 23505)");
        let payload_conflicts =
            counter(r, "payload_conflicts", "Duplicates whose payload differs from the one that was applied");
        let attempts_left_out =
            counter(r, "duplicate_attempts_left_out", "Duplicates that were counted but not written down one by one");
        let dead_letters = counter(r, "dead_letters", "Inputs put into the dead letters");
        let too_old = counter(
            r,
            "replays_older_than_retention",
            "Inputs from before the ledger's horizon: whether they were applied is not known any more",
        );
        let stale = counter(r, "target_stale_changes", "Changes that a newer_by guard refused: the row is newer");
        let refused = counter(r, "target_refused_transitions", "Changes that a transition guard refused");
        let same_state = counter(
            r,
            "target_same_state_changes",
            "Changes left out by a transition guard because the row is in that state already, and the step from it to itself is not in allow",
        );
        let missing = counter(r, "target_missing_rows", "Updates and deletes that met no row");
        let plugin_failures = counter(r, "plugin_failures", "Batches that a plugin failed on, by kind of error");
        let retries = counter(r, "retries", "Batches tried again, by cause");
        let fenced = counter(r, "fenced", "Batches whose partitions another host had taken over");
        let breaker = counter(r, "breaker_trips", "Times that too many refused records stopped the consumer");
        let rebalances = counter(
            r,
            "rebalances",
            "Steps of rebalances, by kind: assign, revoke, lost (taken away from a member that was silent for too long)",
        );
        let commit_failures = counter(r, "offset_commit_failures", "Offset commits that failed; the next covers them");
        let client_events = counter(r, "kafka_client_events", "Errors and warnings that the Kafka client reported");
        let reloads = counter(
            r,
            "plugin_reloads",
            "Reloads, by result: taken, unchanged, refused (the rules of before stay), failed (for now)",
        );
        let config_reloads = counter(
            r,
            "config_reloads",
            "Times that the configuration was read again, by result: taken, unchanged, refused, failed (for now)",
        );
        for result in Reloaded::ALL {
            config_reloads.get_or_create_owned(&vec![("result", result.label().to_owned())]);
        }
        let shadow = counter(
            r,
            "shadow_records",
            "Records that a shadow was held against, by result: same, key, verdict, changes; passed_by (no time), failed",
        );
        let batch_records = Family::new_with_constructor(records as fn() -> Histogram);
        r.register("batch_records", "Records per committed transaction", batch_records.clone());
        let batch_seconds = Family::new_with_constructor(seconds as fn() -> Histogram);
        r.register("batch_seconds", "Seconds per committed transaction", batch_seconds.clone());
        let plugin_seconds = Family::new_with_constructor(seconds as fn() -> Histogram);
        r.register("plugin_seconds", "Seconds that a plugin took per batch, waiting included", plugin_seconds.clone());
        let lag = gauge(r, "lag_records", "Offsets between what the database covers and the end of the log");
        let assigned = gauge(r, "assigned_partitions", "Partitions that this process reads");
        let stopped = gauge(r, "stopped_partitions", "Partitions that are no longer read until an operator acts");
        let running = gauge(r, "consumer_running", "1 while the consumer runs, 0 when it stopped");
        let paused = gauge(r, "consumer_paused", "1 while an operator has the consumer take no records");
        let progress =
            gauge(r, "last_progress_timestamp_seconds", "When the database last moved forward, in seconds since 1970");
        Self {
            registry,
            records: records_family,
            ledger_inserts,
            duplicate_skips,
            unique_conflicts,
            payload_conflicts,
            attempts_left_out,
            dead_letters,
            too_old,
            stale,
            refused,
            same_state,
            missing,
            plugin_failures,
            retries,
            fenced,
            breaker,
            rebalances,
            commit_failures,
            client_events,
            reloads,
            config_reloads,
            shadow,
            batch_records,
            batch_seconds,
            plugin_seconds,
            lag,
            assigned,
            stopped,
            running,
            paused,
            progress,
            later: Mutex::default(),
        }
    }

    /// The configuration was read again.
    pub fn configured(&self, result: Reloaded) {
        self.config_reloads.get_or_create_owned(&vec![("result", result.label().to_owned())]).inc();
    }

    /// The OpenMetrics text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a String does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// What one consumer has done since the process started, for a person.
    #[must_use]
    pub fn outcomes(&self, consumer: &str) -> Outcomes {
        let of = |outcome: &'static str| {
            let labels = vec![("consumer", consumer.to_owned()), ("outcome", outcome.to_owned())];
            // Whoever only asks makes no series.
            (outcome, self.records.get(&labels).map_or(0, |counter| counter.get()))
        };
        let progress = self.progress.get(&vec![("consumer", consumer.to_owned())]).map_or(0, |gauge| gauge.get());
        Outcomes {
            counts: OUTCOMES.map(of),
            last_progress: (progress > 0).then(|| jiff::Timestamp::from_second(progress).ok()).flatten(),
        }
    }

    /// The metrics of one consumer, every one of them there from the start (a rate over an absent series alerts nobody).
    #[must_use]
    pub fn consumer(&self, name: &ConsumerName) -> ConsumerMetrics {
        let of = |name: &ConsumerName| vec![("consumer", name.to_string())];
        let with = |key: &'static str, value: &str| {
            let mut labels = of(name);
            labels.push((key, value.to_owned()));
            labels
        };
        let counter = |family: &Counters| family.get_or_create_owned(&of(name));
        let outcome = |outcome: &str| self.records.get_or_create_owned(&with("outcome", outcome));
        let gauge = |family: &Gauges| family.get_or_create_owned(&of(name));
        let times = |family: &Times| family.get_or_create_owned(&of(name));
        for result in ShadowResult::ALL {
            self.shadow.get_or_create_owned(&with("result", result.label()));
        }
        for result in Reloaded::ALL {
            self.reloads.get_or_create_owned(&with("result", result.label()));
        }
        for cause in RetryCause::ALL {
            self.retries.get_or_create_owned(&with("cause", cause.label()));
        }
        let later = Arc::clone(locked(&self.later).entry(name.to_string()).or_default());
        ConsumerMetrics {
            later,
            labels: of(name),
            applied: outcome("applied"),
            duplicate: outcome("duplicate"),
            skipped: outcome("skipped"),
            dead: outcome("dead"),
            too_old: outcome("too_old"),
            ledger_inserts: counter(&self.ledger_inserts),
            duplicate_skips: counter(&self.duplicate_skips),
            unique_conflicts: counter(&self.unique_conflicts),
            payload_conflicts: counter(&self.payload_conflicts),
            attempts_left_out: counter(&self.attempts_left_out),
            dead_letters: counter(&self.dead_letters),
            replays: counter(&self.too_old),
            stale: counter(&self.stale),
            refused: counter(&self.refused),
            same_state: counter(&self.same_state),
            missing: counter(&self.missing),
            fenced: counter(&self.fenced),
            breaker: counter(&self.breaker),
            assigns: self.rebalances.get_or_create_owned(&with("kind", "assign")),
            revokes: self.rebalances.get_or_create_owned(&with("kind", "revoke")),
            losses: self.rebalances.get_or_create_owned(&with("kind", "lost")),
            commit_failures: counter(&self.commit_failures),
            client_events: counter(&self.client_events),
            plugin_failures: self.plugin_failures.clone(),
            retries: self.retries.clone(),
            reloads: self.reloads.clone(),
            shadow: self.shadow.clone(),
            batch_records: times(&self.batch_records),
            batch_seconds: times(&self.batch_seconds),
            plugin_seconds: times(&self.plugin_seconds),
            lag: self.lag.clone(),
            assigned: gauge(&self.assigned),
            stopped: gauge(&self.stopped),
            running: gauge(&self.running),
            paused: gauge(&self.paused),
            progress: gauge(&self.progress),
        }
    }

    /// A consumer is none of this process any more: its series go, so that nobody is alerted about it for ever.
    pub fn forget(&self, name: &ConsumerName) {
        let of = vec![("consumer", name.to_string())];
        let with = |key: &'static str, words: &[&str]| {
            let one = |word: &&str| [of.clone(), vec![(key, (*word).to_owned())]].concat();
            words.iter().map(one).collect::<Vec<Labels>>()
        };
        let later = locked(&self.later).remove(&name.to_string());
        let later: Vec<Labels> = later.map(|later| locked(&later).iter().cloned().collect()).unwrap_or_default();
        let labels = [
            vec![of.clone()],
            with("outcome", &OUTCOMES),
            with("kind", &["assign", "revoke", "lost"]),
            with("result", &ShadowResult::ALL.map(ShadowResult::label)),
            with("result", &Reloaded::ALL.map(Reloaded::label)),
            with("cause", &RetryCause::ALL.map(RetryCause::label)),
            later,
        ];
        // Which metric has which labels is no matter: those that it has not are not there to be removed.
        for labels in labels.iter().flatten() {
            for family in self.counters() {
                family.remove(labels);
            }
            for family in [&self.lag, &self.assigned, &self.stopped, &self.running, &self.paused, &self.progress] {
                family.remove(labels);
            }
            for family in [&self.batch_records, &self.batch_seconds, &self.plugin_seconds] {
                family.remove(labels);
            }
        }
    }

    /// Those with a consumer among their labels.
    fn counters(&self) -> [&Counters; 22] {
        [
            &self.records,
            &self.ledger_inserts,
            &self.duplicate_skips,
            &self.unique_conflicts,
            &self.payload_conflicts,
            &self.attempts_left_out,
            &self.dead_letters,
            &self.too_old,
            &self.stale,
            &self.refused,
            &self.same_state,
            &self.missing,
            &self.plugin_failures,
            &self.retries,
            &self.fenced,
            &self.breaker,
            &self.rebalances,
            &self.commit_failures,
            &self.client_events,
            &self.reloads,
            &self.shadow,
            &self.config_reloads,
        ]
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What becomes of an input.
const OUTCOMES: [&str; 5] = ["applied", "duplicate", "skipped", "dead", "too_old"];

fn counter(registry: &mut Registry, name: &str, help: &str) -> Counters {
    let family = Counters::default();
    registry.register(name, help, family.clone());
    family
}

fn gauge(registry: &mut Registry, name: &str, help: &str) -> Gauges {
    let family = Gauges::default();
    registry.register(name, help, family.clone());
    family
}

/// What a consumer has done since the process started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcomes {
    /// How many inputs came to which outcome.
    pub counts: [(&'static str, u64); 5],
    /// When the database last moved forward.
    pub last_progress: Option<jiff::Timestamp>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{outcome::Counts, source::PartitionName};

    #[test]
    fn names_labels_and_help_are_a_contract() {
        let metrics = Metrics::new();
        let consumer = metrics.consumer(&ConsumerName::new("c").unwrap());
        let name = PartitionName { topic: "t".into(), partition: 3 };
        consumer.lag(&name, 7);
        consumer.plugin_failed("plugin-trap");
        let counts = Counts { applied: 2, duplicate: 1, skipped: 1, dead: 1, too_old: 0 };
        consumer.committed(counts, Effects::default(), Duration::from_millis(3));
        let text = metrics.text();
        let kept = |line: &&str| !line.contains("_bucket{") && !line.contains("timestamp_seconds{");
        let mut blocks: Vec<Vec<&str>> = Vec::new();
        for line in text.lines().filter(kept) {
            if line.starts_with("# HELP") || line.starts_with("# EOF") {
                blocks.push(Vec::new());
            }
            blocks.last_mut().unwrap().push(line);
        }
        // Series of one metric come in any order.
        blocks.iter_mut().for_each(|block| block.sort_unstable());
        let text = blocks.concat().join("\n");
        // When a name changes on purpose, dashboards and alerts change with it.
        assert_eq!(text.trim(), include_str!("metrics.snapshot.txt").trim(), "\n{text}\n");
        consumer.revoked(std::slice::from_ref(&name));
        assert!(!metrics.text().contains("lag_records{"), "a partition that went away is not shown for ever");
        consumer.lag(&name, 7);
        drop(metrics.consumer(&ConsumerName::new("other").unwrap()));
        metrics.forget(&ConsumerName::new("c").unwrap());
        assert_eq!(metrics.outcomes("c").counts[0].1, 0);
        let text = metrics.text();
        assert!(!text.contains("consumer=\"c\"") && text.contains("consumer=\"other\""), "{text}");
    }
}
