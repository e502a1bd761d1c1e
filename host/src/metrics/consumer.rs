//! What a consumer counts.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::{counter::Counter, gauge::Gauge, histogram::Histogram};

use super::{Counters, Gauges, Labels, Later, Reloaded, RetryCause, ShadowResult, locked};
use crate::{
    outcome::Counts,
    source::{PartitionName, Rebalance},
};

/// What a committed batch did beside its outcomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Inputs that a unique constraint of a target refused.
    pub unique_conflicts: u64,
    /// Same id, other payload.
    pub payload_conflicts: u64,
    /// Duplicates counted but not written down.
    pub attempts_left_out: u64,
    /// Dead letters written, those that are too old included.
    pub dead_letters: u64,
    /// Refused by `newer_by`.
    pub stale: u64,
    /// Refused by `transition`.
    pub refused: u64,
    /// Left out by `transition`: the row was in that state already.
    pub same_state: u64,
    /// Updates and deletes without a row.
    pub missing: u64,
}

/// The metrics of one consumer.
#[derive(Clone, Debug)]
pub struct ConsumerMetrics {
    pub(super) labels: Labels,
    pub(super) later: Later,
    pub(super) applied: Counter,
    pub(super) duplicate: Counter,
    pub(super) skipped: Counter,
    pub(super) dead: Counter,
    pub(super) too_old: Counter,
    pub(super) ledger_inserts: Counter,
    pub(super) duplicate_skips: Counter,
    pub(super) unique_conflicts: Counter,
    pub(super) payload_conflicts: Counter,
    pub(super) attempts_left_out: Counter,
    pub(super) dead_letters: Counter,
    pub(super) replays: Counter,
    pub(super) stale: Counter,
    pub(super) refused: Counter,
    pub(super) same_state: Counter,
    pub(super) missing: Counter,
    pub(super) fenced: Counter,
    pub(super) breaker: Counter,
    pub(super) assigns: Counter,
    pub(super) revokes: Counter,
    pub(super) losses: Counter,
    pub(super) commit_failures: Counter,
    pub(super) client_events: Counter,
    pub(super) plugin_failures: Counters,
    pub(super) retries: Counters,
    pub(super) reloads: Counters,
    pub(super) shadow: Counters,
    pub(super) batch_records: Histogram,
    pub(super) batch_seconds: Histogram,
    pub(super) plugin_seconds: Histogram,
    pub(super) lag: Gauges,
    pub(super) assigned: Gauge,
    pub(super) stopped: Gauge,
    pub(super) running: Gauge,
    pub(super) paused: Gauge,
    pub(super) progress: Gauge,
}

impl ConsumerMetrics {
    /// A transaction is committed.
    pub fn committed(&self, counts: Counts, effects: Effects, took: Duration) {
        self.applied.inc_by(counts.applied.into());
        self.duplicate.inc_by(counts.duplicate.into());
        self.skipped.inc_by(counts.skipped.into());
        self.dead.inc_by(counts.dead.into());
        self.too_old.inc_by(counts.too_old.into());
        self.ledger_inserts.inc_by(counts.applied.into());
        self.duplicate_skips.inc_by(counts.duplicate.into());
        self.replays.inc_by(counts.too_old.into());
        self.unique_conflicts.inc_by(effects.unique_conflicts);
        self.payload_conflicts.inc_by(effects.payload_conflicts);
        self.attempts_left_out.inc_by(effects.attempts_left_out);
        self.dead_letters.inc_by(effects.dead_letters);
        self.stale.inc_by(effects.stale);
        self.refused.inc_by(effects.refused);
        self.same_state.inc_by(effects.same_state);
        self.missing.inc_by(effects.missing);
        self.batch_records.observe(f64::from(counts.consumed()));
        self.batch_seconds.observe(took.as_secs_f64());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.progress.set(i64::try_from(now).unwrap_or(i64::MAX));
    }

    /// A plugin gave its verdicts on a batch.
    pub fn evaluated(&self, took: Duration) {
        self.plugin_seconds.observe(took.as_secs_f64());
    }

    /// A plugin failed on a batch; `code` is one of [`crate::plugin::PluginError::code`].
    pub fn plugin_failed(&self, code: &'static str) {
        let labels = self.with("code", code);
        self.plugin_failures.get_or_create_owned(&labels).inc();
        locked(&self.later).insert(labels);
    }

    /// A batch is tried again.
    pub fn retried(&self, cause: RetryCause) {
        self.retries.get_or_create_owned(&self.with("cause", cause.label())).inc();
    }

    /// A shadow was held against so many records.
    pub fn shadowed(&self, result: ShadowResult, records: u64) {
        self.shadow.get_or_create_owned(&self.with("result", result.label())).inc_by(records);
    }

    /// A reload has ended.
    pub fn reloaded(&self, result: Reloaded) {
        self.reloads.get_or_create_owned(&self.with("result", result.label())).inc();
    }

    /// A batch's partitions were another host's.
    pub fn fenced(&self) {
        self.fenced.inc();
    }

    /// The circuit breaker stopped the consumer.
    pub fn breaker_tripped(&self) {
        self.breaker.inc();
    }

    /// The group was answered.
    pub fn rebalanced(&self, step: Rebalance) {
        match step {
            Rebalance::Assign => self.assigns.inc(),
            Rebalance::Revoke => self.revokes.inc(),
            Rebalance::Lost => self.losses.inc(),
        };
    }

    /// The group took partitions; their lag is no longer ours to show.
    pub fn revoked(&self, partitions: &[PartitionName]) {
        for name in partitions {
            self.lag.remove(&self.of_partition(name));
        }
    }

    /// An offset commit failed.
    pub fn commit_failed(&self) {
        self.commit_failures.inc();
    }

    /// The Kafka client reported something.
    pub fn client_event(&self) {
        self.client_events.inc();
    }

    /// How far a partition is behind.
    pub fn lag(&self, name: &PartitionName, records: i64) {
        let labels = self.of_partition(name);
        self.lag.get_or_create_owned(&labels).set(records.max(0));
        locked(&self.later).insert(labels);
    }

    /// How many partitions are read, and how many are stopped.
    pub fn partitions(&self, read: usize, stopped: usize) {
        self.assigned.set(i64::try_from(read).unwrap_or(i64::MAX));
        self.stopped.set(i64::try_from(stopped).unwrap_or(i64::MAX));
    }

    /// The consumer runs, or not.
    pub fn running(&self, running: bool) {
        self.running.set(i64::from(running));
    }

    /// The consumer is paused, or not.
    pub fn paused(&self, paused: bool) {
        self.paused.set(i64::from(paused));
    }

    fn with(&self, key: &'static str, value: &str) -> Labels {
        let mut labels = self.labels.clone();
        labels.push((key, value.to_owned()));
        labels
    }

    fn of_partition(&self, name: &PartitionName) -> Labels {
        let mut labels = self.with("topic", &name.topic);
        labels.push(("partition", name.partition.to_string()));
        labels
    }
}
