//! What the two halves of a lane share, and what passes between them.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use crate::{
    class::Class,
    config::BatchLimits,
    health::ConsumerHealth,
    identity::ConsumerName,
    key_gate::hold_live,
    metrics::{ConsumerMetrics, RetryCause},
    outcome::Evaluated,
    plugin::{ComputePool, PluginError, evaluate, metamorphic::Relation},
    record::{Batch, Run},
    source::{Flight, PartitionName, Source},
    store::{PrepareContext, Prepared, Store, Tips},
};

use super::{
    dead_letters::DeadLetterLog,
    retry::{Failures, Next, jittered},
    rules::{InForce, Rules},
    samples::Sampler,
    shadow::ShadowSlot,
};

/// How far along its end a consumer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Reading and applying.
    Running,
    /// Reading no more; what is in flight is finished.
    Draining,
    /// What is not finished is given up.
    Aborting,
}

/// A consumer's, for all its lanes.
pub(super) struct Shared {
    pub(super) name: ConsumerName,
    pub(super) source: Arc<dyn Source>,
    pub(super) store: Arc<dyn Store>,
    pub(super) rules: Arc<InForce>,
    pub(super) samples: Arc<Sampler>,
    /// A candidate that looks on.
    pub(super) shadow: Arc<ShadowSlot>,
    /// Batches evaluated so far, by all lanes.
    pub(super) evaluated: AtomicUsize,
    pub(super) pool: Arc<ComputePool>,
    pub(super) limits: BatchLimits,
    pub(super) tips: Arc<Mutex<Tips>>,
    pub(super) health: Arc<ConsumerHealth>,
    pub(super) metrics: ConsumerMetrics,
    pub(super) dead_letters: DeadLetterLog,
    pub(super) phase: watch::Receiver<Phase>,
    /// Whether an operator wants no records taken.
    pub(super) paused: watch::Receiver<bool>,
    /// Where a lane says why the consumer must stop.
    pub(super) failures: mpsc::UnboundedSender<Failure>,
}

/// Why a consumer ends by itself.
pub(super) struct Failure {
    pub(super) reason: String,
    /// Transient: another start may mend it.
    pub(super) class: Class,
}

/// A batch on its way from a lane's first half to its second.
pub(super) struct Ready {
    pub(super) ruled: Ruled,
    /// A revoke waits until this is dropped.
    pub(super) flight: Flight,
    /// Invariant 11: two per lane. It is given back once the group knows of the batch.
    pub(super) permit: OwnedSemaphorePermit,
}

/// A batch with the rules that it was evaluated under.
pub(super) struct Ruled {
    pub(super) prepared: Prepared,
    pub(super) rules: Arc<Rules>,
}

/// Why a batch was given up.
#[derive(Debug)]
pub(super) enum GiveUp {
    /// The consumer must stop, with the reason.
    Fatal(String),
    /// The consumer is stopping.
    Aborted,
    /// Nothing of the batch is this member's any more.
    Void,
}

impl Shared {
    pub(super) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// While paused what is queued stays queued; the poll thread keeps the place in the group.
    pub(super) fn is_paused(&self) -> bool {
        *self.paused.borrow()
    }

    /// Resolves when the consumer may go on, or stops.
    pub(super) async fn resumed(&self) {
        let (mut paused, mut phase) = (self.paused.clone(), self.phase.clone());
        tokio::select! {
            // An error means that nobody is left who could pause it.
            _ = paused.wait_for(|paused| !paused) => {}
            _ = phase.wait_for(|phase| *phase != Phase::Running) => {}
        }
    }

    pub(super) fn tips(&self) -> MutexGuard<'_, Tips> {
        self.tips.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of dead letters, if it is time.
    pub(super) fn tell_dead_letters(&self) {
        if let Some(line) = self.dead_letters.due(Instant::now()) {
            tracing::warn!(consumer = %self.name, "{line}");
        }
    }

    pub(super) fn fail(&self, reason: String) {
        self.end(Failure { reason, class: Class::Fatal });
    }

    pub(super) fn end(&self, failure: Failure) {
        // Nobody listens any more only where the consumer has ended.
        let _ = self.failures.send(failure);
    }

    pub(super) fn is_current(&self, run: &Run) -> bool {
        self.source.positions().is_current(&PartitionName::from(run.partition.as_ref()), run.generation)
    }

    /// Resolves once what is unfinished is to be given up.
    pub(super) async fn aborted(&self) {
        let mut phase = self.phase.clone();
        // An error means that the consumer is gone: given up as well.
        let _ = phase.wait_for(|phase| *phase >= Phase::Aborting).await;
    }

    /// Sleeps, unless the consumer gives up meanwhile.
    pub(super) async fn pause(&self, next: Next) -> Result<(), GiveUp> {
        let (Next::Again(pause) | Next::Halved(pause)) = next;
        tokio::select! {
            () = tokio::time::sleep(jittered(pause)) => Ok(()),
            () = self.aborted() => Err(GiveUp::Aborted),
        }
    }

    /// Runs a batch through the plugin and checks its values, on the compute pool; again as long as it takes where the
    /// machine is at fault.
    pub(super) async fn prepare(&self, lane: usize, mut batch: Batch) -> Result<Ruled, GiveUp> {
        let mut failures = Failures::default();
        loop {
            let started = std::time::Instant::now();
            let rules = self.rules.get();
            let shadow = self.shadow.get();
            let number = self.evaluated.fetch_add(1, Ordering::Relaxed);
            let judge = move |rules: &Rules, batch: &Batch| -> Result<Vec<Evaluated>, PluginError> {
                let evaluated = evaluate(rules.plugin.as_ref(), batch, &rules.context)?;
                keys_stand_still(rules, batch, &evaluated, number)?;
                Ok(evaluated)
            };
            let job = move || match judge(&rules, &batch) {
                Ok(evaluated) => {
                    let look = shadow.and_then(|shadow| shadow.begin(&batch, &evaluated));
                    let under = PrepareContext {
                        targets: rules.applier.targets(),
                        key_version: rules.key_version,
                        plugin_digest: rules.plugin.digest(),
                    };
                    Ok((Ruled { prepared: Prepared::new(batch, evaluated, under), rules }, look))
                }
                Err(error) => Err((error, batch)),
            };
            let answer = match self.pool.submit(job).await {
                Ok(pending) => pending.await,
                Err(error) => Err(error),
            };
            let error = match answer {
                Ok(Ok((ruled, look))) => {
                    self.metrics.evaluated(started.elapsed());
                    if let Some(look) = look {
                        tokio::spawn(look.look_on());
                    }
                    return Ok(ruled);
                }
                Ok(Err((error, back))) => {
                    batch = back;
                    error
                }
                // A panic of the host's own took the batch with it.
                Err(error) => return Err(GiveUp::Fatal(error.to_string())),
            };
            self.metrics.plugin_failed(error.code());
            if error.class() != Class::Transient {
                return Err(GiveUp::Fatal(error.to_string()));
            }
            self.metrics.retried(RetryCause::Plugin);
            self.health.lane_retrying(lane, error.to_string());
            self.pause(failures.count(false, batch.records.len())).await?;
        }
    }
}

/// One batch in so many is looked at again, its keys held against those after one of the relations.
const LOOKED_AT: usize = 32;

// Invariant 4: before anything of the batch is written.
fn keys_stand_still(rules: &Rules, batch: &Batch, evaluated: &[Evaluated], number: usize) -> Result<(), PluginError> {
    if !number.is_multiple_of(LOOKED_AT) {
        return Ok(());
    }
    // The first is looked at for what its order does.
    let relation = Relation::ALL[(number / LOOKED_AT + 1) % Relation::ALL.len()];
    let plugin = rules.plugin.as_ref();
    hold_live(plugin, batch, evaluated, &rules.context, relation)?.map_err(|moved| moved.of(plugin))
}

/// The batch without the runs that `keep` refuses.
pub(super) fn retain(batch: &Batch, keep: impl Fn(&Run) -> bool) -> Batch {
    let mut kept = Batch::default();
    for run in batch.runs.iter().filter(|run| keep(run)) {
        let from = kept.records.len();
        kept.records.extend_from_slice(&batch.records[run.records.clone()]);
        kept.runs.push(Run { records: from..kept.records.len(), ..run.clone() });
    }
    kept
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::record::{Record, TopicPartition};

    #[test]
    fn what_is_kept_stays_in_order_and_complete() {
        let run = |number: i32, records: std::ops::Range<usize>| Run {
            partition: Arc::new(TopicPartition {
                cluster_id: "c".into(),
                topic_id: Uuid::nil(),
                topic: "t".into(),
                partition: number,
            }),
            generation: 1,
            first_offset: 0,
            next_offset: 9,
            records,
        };
        let record = |offset| Record { offset, timestamp_ms: None, key: None, payload: None, headers: vec![] };
        let batch = Batch {
            runs: vec![run(0, 0..2), run(1, 2..2), run(2, 2..3)],
            records: vec![record(1), record(2), record(7)],
        };
        let kept = retain(&batch, |run| run.partition.partition != 0);
        assert_eq!(kept.runs, [run(1, 0..0), run(2, 0..1)]);
        assert_eq!(kept.records, [record(7)]);
        assert_eq!(retain(&batch, |_| true), batch);
    }
}
