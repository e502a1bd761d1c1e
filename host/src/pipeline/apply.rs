//! The second half of a lane: applies batches in order over its own connection, and spends their receipts.

use std::{sync::Arc, time::Instant};

use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::{
    database::register_again,
    hearing::{CONFIRMED_WITHIN, Hearing},
    lane::{GiveUp, Phase, Ready, Ruled, Shared, retain},
    retry::{Failures, Next},
    rules::Rules,
};
use crate::{
    class::Class,
    health::Dependency,
    metrics::{Effects, RetryCause},
    record::Run,
    store::{Applied, ApplyError, BatchReport, Connection, Prepared, StoreError, Tips},
};

pub(super) struct Apply {
    lane: usize,
    shared: Arc<Shared>,
    connection: Option<Box<dyn Connection>>,
    hearing: Hearing,
    /// The number of the last offset commit.
    told: u64,
}

/// What became of one try.
#[allow(clippy::large_enum_variant, reason = "one at a time, taken apart at once")]
enum Tried {
    /// Committed; where it was cut, this comes next.
    Committed(Option<Prepared>),
    /// Somebody else moved the chains of these generations' partitions.
    Fenced(Vec<u64>),
    /// Later.
    Again { why: String, of_size: bool },
}

impl Apply {
    pub(super) fn new(lane: usize, shared: Arc<Shared>) -> Self {
        let hearing = Hearing::new(shared.source.confirmed(), CONFIRMED_WITHIN);
        Self { lane, shared, connection: None, hearing, told: 0 }
    }

    /// Until the first half is gone and everything handed over is finished, or the consumer gives up.
    pub(super) async fn run(mut self, mut batches: mpsc::Receiver<Ready>) {
        while let Some(Ready { ruled, flight, permit }) = batches.recv().await {
            let ended = self.finish(ruled).await;
            self.shared.health.lane_finished(self.lane);
            drop(flight);
            self.release(permit);
            match ended {
                Ok(()) | Err(GiveUp::Void) => {}
                Err(GiveUp::Aborted) => return,
                Err(GiveUp::Fatal(reason)) => return self.shared.fail(reason),
            }
        }
    }

    /// Gives the permit back once the group knows of the batch: so a crash leaves at most the batches that have one for the
    /// ledger to find again. Nobody waits for it but the lane's next read, which has no record in hand.
    fn release(&self, permit: OwnedSemaphorePermit) {
        let Some(heard) = self.hearing.of(self.told) else { return };
        let mut phase = self.shared.phase.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = heard => {}
                // An error means that the consumer is gone.
                _ = phase.wait_for(|phase| *phase > Phase::Running) => {}
            }
            drop(permit);
        });
    }

    /// One batch, all of it, whatever it takes. A part that was cut off goes next, before newer records (Invariant 9).
    async fn finish(&mut self, ruled: Ruled) -> Result<(), GiveUp> {
        let mut todo = vec![ruled];
        let mut failures = Failures::default();
        while let Some(next) = todo.pop() {
            let Ruled { mut prepared, rules } = match current(&self.shared, self.lane, next).await {
                Ok(ruled) => ruled,
                Err(GiveUp::Void) => continue,
                Err(other) => return Err(other),
            };
            match self.try_once(&mut prepared, &rules).await? {
                Tried::Committed(rest) => {
                    todo.extend(rest.map(|prepared| Ruled { prepared, rules }));
                    failures = Failures::default();
                    self.shared.health.lane_progress(self.lane);
                }
                Tried::Fenced(generations) => {
                    self.fenced(&prepared, &generations);
                    // The other partitions' runs are as good as before.
                    todo.push(Ruled { prepared, rules });
                }
                Tried::Again { why, of_size } => {
                    tracing::warn!(consumer = %self.shared.name, lane = self.lane, "trying the batch again: {why}");
                    self.shared.metrics.retried(RetryCause::Database);
                    self.shared.health.lane_retrying(self.lane, why);
                    let next = failures.count(of_size, prepared.batch().records.len());
                    let tail = if matches!(next, Next::Halved(_)) { prepared.split_half() } else { None };
                    todo.extend(tail.map(|prepared| Ruled { prepared, rules: Arc::clone(&rules) }));
                    todo.push(Ruled { prepared, rules });
                    self.shared.pause(next).await?;
                }
            }
        }
        Ok(())
    }

    async fn try_once(&mut self, prepared: &mut Prepared, rules: &Rules) -> Result<Tried, GiveUp> {
        let tips = match self.tips_of(prepared) {
            Ok(tips) => tips,
            Err(moved) => return Ok(Tried::Fenced(moved)),
        };
        let shared = Arc::clone(&self.shared);
        let started = Instant::now();
        // Given up in the middle, the connection is in an unknown state and goes with this future; no receipt is made.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => tokio::select! {
                connected = shared.store.connect() => match connected {
                    Ok(connection) => connection,
                    Err(error) => return again(&error).ok_or_else(|| GiveUp::Fatal(error.to_string())),
                },
                () = shared.aborted() => return Err(GiveUp::Aborted),
            },
        };
        let applied = tokio::select! {
            applied = rules.applier.apply(connection.as_mut(), prepared, &tips) => applied,
            () = shared.aborted() => return Err(GiveUp::Aborted),
        };
        let error = match applied {
            Ok(applied) => {
                self.connection = Some(connection);
                shared.samples.committed(rules, prepared, &applied.report.outcomes);
                return Ok(Tried::Committed(self.committed(applied, started)));
            }
            Err(error) => error,
        };
        if !error.connection_lost() {
            self.connection = Some(connection);
        }
        match &error {
            ApplyError::Fenced { .. } => self.find_fenced(prepared, &tips).await,
            ApplyError::Store { error: store, .. } if store.is_unregistered() => {
                match register_again(shared.store.as_ref(), &shared.rules.get().registration).await {
                    Ok(()) => again(store).ok_or_else(|| GiveUp::Fatal(error.to_string())),
                    Err(failed) => again(&failed).ok_or_else(|| GiveUp::Fatal(failed.to_string())),
                }
            }
            ApplyError::Store { error: store, .. } => again(store).ok_or_else(|| GiveUp::Fatal(error.to_string())),
            ApplyError::BreakerOpen { .. } => {
                shared.metrics.breaker_tripped();
                Err(GiveUp::Fatal(error.to_string()))
            }
            ApplyError::KeyVersion { .. } => Err(GiveUp::Fatal(error.to_string())),
        }
    }

    /// The tips that this batch extends.
    ///
    /// # Errors
    /// The generations of runs that do not begin where their chain ends: it was moved meanwhile, which is what a fence
    /// would say.
    fn tips_of(&self, prepared: &Prepared) -> Result<Tips, Vec<u64>> {
        let tips = self.shared.tips();
        // Invariant 5: a link begins where its predecessor ends.
        let follows = |run: &&Run| tips.get(&run.partition).is_some_and(|tip| tip.next_offset == run.first_offset);
        let (fit, moved): (Vec<&Run>, Vec<&Run>) = prepared.batch().runs.iter().partition(follows);
        if moved.is_empty() {
            Ok(fit.iter().map(|run| (Arc::clone(&run.partition), tips[&run.partition])).collect())
        } else {
            Err(moved.iter().map(|run| run.generation).collect())
        }
    }

    /// Which chains of a fenced batch somebody else has moved. The database says only that not all are where they were.
    async fn find_fenced(&mut self, prepared: &Prepared, tips: &Tips) -> Result<Tried, GiveUp> {
        let Some(mut connection) = self.connection.take() else {
            let why = "the connection was lost while a fence was answered".to_owned();
            return Ok(Tried::Again { why, of_size: false });
        };
        let runs = &prepared.batch().runs;
        let partitions: Vec<_> = runs.iter().map(|run| Arc::clone(&run.partition)).collect();
        let now = tokio::select! {
            now = connection.tips(&self.shared.name, &partitions) => now,
            () = self.shared.aborted() => return Err(GiveUp::Aborted),
        };
        let now = match now {
            Ok(now) => now,
            Err(error) => return again(&error).ok_or_else(|| GiveUp::Fatal(error.to_string())),
        };
        self.connection = Some(connection);
        let moved = runs.iter().zip(now).filter(|(run, now)| tips.get(&run.partition) != now.as_ref());
        let moved: Vec<_> = moved.map(|(run, _)| run.generation).collect();
        if moved.is_empty() {
            // It was the horizon that moved, or the key version: the next try reads them anew.
            let why = "the consumer's horizon or key version changed meanwhile".to_owned();
            return Ok(Tried::Again { why, of_size: false });
        }
        Ok(Tried::Fenced(moved))
    }

    fn committed(&mut self, applied: Applied, started: Instant) -> Option<Prepared> {
        let mut tips = self.shared.tips();
        for (partition, tip) in applied.tips {
            // A tip of an assignment that is over may be older than what the next one read.
            if applied.receipts.iter().any(|receipt| {
                *receipt.partition() == partition
                    && self.shared.source.positions().is_current(&partition.as_ref().into(), receipt.generation())
            }) {
                tips.insert(partition, tip);
            }
        }
        drop(tips);
        self.shared.health.answers(Dependency::Database);
        self.shared.metrics.committed(applied.report.counts, effects(&applied.report), started.elapsed());
        self.shared
            .dead_letters
            .add(applied.report.dead_letter_codes.values().sum(), applied.report.first_dead.as_ref());
        self.shared.tell_dead_letters();
        // Invariant 1: the offsets go from the receipts to the group, and no other way.
        self.told = self.shared.source.commit(applied.receipts);
        applied.rest
    }

    fn fenced(&self, prepared: &Prepared, generations: &[u64]) {
        self.shared.metrics.fenced();
        let moved = prepared.batch().runs.iter().filter(|run| generations.contains(&run.generation));
        tracing::warn!(
            consumer = %self.shared.name,
            partitions = moved.map(|run| run.partition.to_string()).collect::<Vec<_>>().join(", "),
            "somebody else moved a checkpoint chain: going on where the database stands"
        );
        self.shared.source.reposition(generations);
    }
}

/// The batch without runs of assignments that are over. The rest is evaluated anew: it is another batch.
async fn current(shared: &Shared, lane: usize, ruled: Ruled) -> Result<Ruled, GiveUp> {
    let current = |run: &Run| shared.is_current(run);
    if ruled.prepared.batch().runs.iter().all(current) {
        return Ok(ruled);
    }
    let batch = retain(ruled.prepared.batch(), current);
    if batch.runs.is_empty() {
        return Err(GiveUp::Void);
    }
    shared.prepare(lane, batch).await
}

fn again(error: &StoreError) -> Option<Tried> {
    (error.class() == Class::Transient)
        .then(|| Tried::Again { why: error.to_string(), of_size: error.caused_by_size() })
}

fn effects(report: &BatchReport) -> Effects {
    Effects {
        unique_conflicts: report.unique_conflicts,
        payload_conflicts: report.conflicts,
        attempts_left_out: report.attempts_left_out,
        dead_letters: report.dead_letter_codes.values().sum(),
        stale: report.written.stale,
        refused: report.ignored + u64::from(report.refusals.transitions),
        same_state: report.same_state,
        missing: report.written.missing,
    }
}
