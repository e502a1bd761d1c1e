//! One batch, one transaction (Invariant 2), the same for every dialect.
//!
//! begin → ledger → look-up → target rows → notes → checkpoint → commit. Optimistic first; where the database refuses
//! the rows of some record, once more with care. A commit whose answer is lost is looked up by its checkpoint ids.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use super::{
    Applied, ApplyError, BatchReport, Breaker, Connection, ConsumerState, FirstDead, Link, Receipt, Refusals,
    Statement, StoreError, Tip, Tips,
    applied::{CommitAttempt, LinkPlace},
    ledger::ask_ledger,
    prepared::Prepared,
    settle::{NoteLimits, Settled, settle},
    write::{self, Progress, Work},
};
use crate::{
    class::Class,
    config::OlderThanRetention,
    fail_point::{FailPoint, reach},
    identity::ConsumerName,
    identity::MessageId,
    merge::Target,
    record::Run,
};

/// What a consumer lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What becomes of an input from before the horizon that the ledger does not know.
    pub older_than_retention: OlderThanRetention,
    /// How far a producer's clock may be ahead of the database's, microseconds: events this close after the horizon are
    /// held for older than it.
    pub clock_skew_us: i64,
    /// Duplicates that one batch writes to `duplicate_attempts`; what is beyond is counted.
    pub attempts_per_batch: usize,
    /// Payload conflicts that one batch writes; what is beyond is counted.
    pub conflicts_per_batch: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            older_than_retention: OlderThanRetention::DeadLetter,
            clock_skew_us: 600_000_000,
            attempts_per_batch: 1_000,
            conflicts_per_batch: 100,
        }
    }
}

/// Applies the batches of one consumer. Shared by its lanes: the breaker counts them together.
#[derive(Debug)]
pub struct Applier {
    consumer: ConsumerName,
    targets: Arc<[Target]>,
    policy: Policy,
    breaker: Arc<Mutex<Breaker>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Optimistic,
    Careful { one_by_one: bool },
}

impl Applier {
    /// `targets` are those that the batches were prepared with.
    #[must_use]
    pub fn new(consumer: ConsumerName, targets: Arc<[Target]>, policy: Policy) -> Self {
        Self { consumer, targets, policy, breaker: Arc::default() }
    }

    /// The same consumer's under other targets or another policy. What the breaker has counted goes on counting.
    #[must_use]
    pub fn succeeded_by(&self, targets: Arc<[Target]>, policy: Policy) -> Self {
        Self { consumer: self.consumer.clone(), targets, policy, breaker: Arc::clone(&self.breaker) }
    }

    /// The consumer.
    #[must_use]
    pub fn consumer(&self) -> &ConsumerName {
        &self.consumer
    }

    /// The targets.
    #[must_use]
    pub fn targets(&self) -> &Arc<[Target]> {
        &self.targets
    }

    /// Applies a batch, or finds that an earlier attempt did. `tips` are the newest links of its partitions. After an
    /// error the same `prepared` may be applied again (over a new connection, where the old one is lost): it is the
    /// identical batch, with the same checkpoint ids.
    ///
    /// # Errors
    /// See [`ApplyError`]. The transaction is rolled back; where that failed too, the error says that the connection is
    /// lost.
    pub async fn apply(
        &self,
        conn: &mut dyn Connection,
        prepared: &mut Prepared,
        tips: &Tips,
    ) -> Result<Applied, ApplyError> {
        if let Some(applied) = self.find_committed(conn, prepared).await? {
            return Ok(applied);
        }
        let mut mode = Mode::Optimistic;
        loop {
            let error = match self.attempt(conn, prepared, tips, mode).await {
                Ok(attempt) => return Ok(self.finish(prepared, attempt, false)),
                Err(error) => roll_back(conn, error).await,
            };
            match error {
                // The link that is in the way may be our own, of an attempt whose answer was lost.
                ApplyError::Fenced { .. } => {
                    return match self.find_committed(conn, prepared).await? {
                        Some(applied) => Ok(applied),
                        None => Err(error),
                    };
                }
                ApplyError::Store { error, .. } if write::blames_a_record(&error) && !error.connection_lost => {
                    if mode != Mode::Optimistic {
                        return Err(self.failed(write::unattributable(error)));
                    }
                    mode = Mode::Careful { one_by_one: write::is_cardinality(&error) };
                }
                error => return Err(error),
            }
        }
    }

    /// One transaction from BEGIN to COMMIT. After an error it is open, or its state unknown.
    async fn attempt(
        &self,
        conn: &mut dyn Connection,
        prepared: &mut Prepared,
        tips: &Tips,
        mode: Mode,
    ) -> Result<CommitAttempt, ApplyError> {
        let state = conn.begin(&self.consumer).await.map_err(|error| self.failed(error))?;
        reach(FailPoint::Begun);
        // Invariant 10: under the consumer's lock, so nobody raises it before we commit.
        if state.key_version != prepared.key_version {
            let (active, computed) = (state.key_version, prepared.key_version);
            return Err(ApplyError::KeyVersion { consumer: self.consumer.clone(), active, computed });
        }
        let attempt = self.fill(conn, prepared, tips, state, mode).await?;
        // Known before COMMIT is sent: whatever happens to its answer, or to us, the outcome can be looked up.
        prepared.attempts.retain(|earlier| earlier.links != attempt.links);
        prepared.attempts.push(attempt.clone());
        reach(FailPoint::BeforeCommit);
        if let Err(error) = conn.commit().await {
            if !error.connection_lost {
                prepared.attempts.pop();
            }
            return Err(self.failed(error));
        }
        reach(FailPoint::AfterCommit);
        self.lock_breaker().record(Instant::now(), attempt.report.refusals);
        Ok(attempt)
    }

    /// Everything between BEGIN and COMMIT.
    async fn fill(
        &self,
        conn: &mut dyn Connection,
        prepared: &Prepared,
        tips: &Tips,
        state: ConsumerState,
        mode: Mode,
    ) -> Result<CommitAttempt, ApplyError> {
        let store = |error| self.failed(error);
        let old_before_us = match state.horizon_us {
            i64::MIN => i64::MIN,
            horizon => horizon.saturating_add(self.policy.clock_skew_us),
        };
        let plan = prepared.plan(old_before_us);

        let mut answers = ask_ledger(conn, &self.consumer, prepared, &plan).await.map_err(store)?;
        reach(FailPoint::LedgerWritten);
        answers.old_before_us = old_before_us;

        let firsts: Vec<usize> = (0..prepared.items.len()).filter(|&i| answers.inserted[i]).collect();
        let work = Work { consumer: &self.consumer, targets: &self.targets, prepared, plan: &plan, firsts: &firsts };
        let progress = match mode {
            Mode::Optimistic => write::optimistically(conn, work).await?,
            Mode::Careful { one_by_one } => write::carefully(conn, work, one_by_one).await?,
        };

        // Only applied inputs stay in the ledger, or a corrected republish would be lost.
        let gone = |i: &&usize| **i >= progress.limit || progress.died.contains_key(i);
        let mut back: Vec<MessageId> =
            firsts.iter().filter(gone).filter_map(|&i| prepared.items[i].message_id().cloned()).collect();
        back.sort_unstable();
        if !back.is_empty() {
            conn.take_back(&self.consumer, &back).await.map_err(store)?;
            reach(FailPoint::TakenBack);
        }

        let Progress { died, limit, written, ignored, same_state, poison, transitions, .. } = progress;
        answers.died = died;
        answers.limit = limit;
        let runs: Vec<(usize, Run)> = prepared.runs_before(limit).collect();
        let checkpoint_of = |record: usize| {
            let at = runs.partition_point(|(_, run)| run.records.end <= record);
            prepared.checkpoint_ids[runs[at].0]
        };
        let limits =
            NoteLimits { attempts: self.policy.attempts_per_batch, conflicts: self.policy.conflicts_per_batch };
        let policy = self.policy.older_than_retention;
        let settled = if state.open_dead_letters {
            settle(prepared, &plan, &answers, policy, limits, Some(&checkpoint_of))
        } else {
            settle(prepared, &plan, &answers, policy, limits, None)
        };

        let refusals = Refusals {
            records: u32::try_from(limit).unwrap_or(u32::MAX),
            poison: poison + settled.poison,
            rejects: settled.rejected,
            transitions,
        };
        if let Err(tripped) = self.lock_breaker().check(Instant::now(), refusals) {
            let mut dead = settled.notes.dead_letters.into_iter().map(|letter| letter.rejection);
            let first = dead.find(|rejection| tripped.is_about(rejection));
            return Err(ApplyError::BreakerOpen { consumer: self.consumer.clone(), tripped, first });
        }
        if !settled.notes.is_empty() {
            conn.write_notes(&self.consumer, &settled.notes).await.map_err(store)?;
            reach(FailPoint::NotesWritten);
        }

        let (links, places) = self.links(prepared, &runs, tips, &settled)?;
        let extended =
            conn.extend_chain(&self.consumer, &prepared.plugin_digest, state, &links).await.map_err(store)?;
        reach(FailPoint::CheckpointWritten);
        if extended < links.len() {
            return Err(self.fenced(&links));
        }
        let counts = settled.counts(0..limit);
        let report = BatchReport {
            outcomes: settled.outcomes,
            counts,
            written,
            ignored,
            same_state,
            refusals,
            unique_conflicts: settled.unique_conflicts,
            conflicts: settled.conflicts,
            attempts_left_out: settled.attempts_left_out,
            dead_letter_codes: settled.codes,
            first_dead: settled.notes.dead_letters.first().map(FirstDead::from),
            careful: mode != Mode::Optimistic,
        };
        Ok(CommitAttempt { links, places, report })
    }

    /// The next link of each partition, and its place.
    fn links(
        &self,
        prepared: &Prepared,
        runs: &[(usize, Run)],
        tips: &Tips,
        settled: &Settled,
    ) -> Result<(Vec<Link>, Vec<LinkPlace>), ApplyError> {
        let mut links = Vec::with_capacity(runs.len());
        let mut places = Vec::with_capacity(runs.len());
        let mut strangers = Vec::new();
        for (index, run) in runs {
            let Some(tip) = tips.get(&run.partition) else {
                strangers.push(run.partition.clone());
                continue;
            };
            links.push(Link {
                id: prepared.checkpoint_ids[*index],
                prev: tip.id,
                partition: run.partition.clone(),
                first_offset: run.first_offset,
                next_offset: run.next_offset,
                // Invariant 5: consumed is the sum of these, record by record.
                counts: settled.counts(run.records.clone()),
            });
            places.push(LinkPlace { generation: run.generation, seq: tip.seq + 1 });
        }
        if strangers.is_empty() {
            Ok((links, places))
        } else {
            Err(ApplyError::Fenced { consumer: self.consumer.clone(), partitions: strangers })
        }
    }

    /// Whether an earlier attempt was committed after all. All of a transaction's links are there, or none.
    async fn find_committed(
        &self,
        conn: &mut dyn Connection,
        prepared: &mut Prepared,
    ) -> Result<Option<Applied>, ApplyError> {
        if prepared.attempts.is_empty() {
            return Ok(None);
        }
        let found = conn.find_checkpoints(&prepared.checkpoint_ids).await.map_err(|error| self.failed(error))?;
        if found.is_empty() {
            // Proves nothing: the old backend may still be committing. The batch runs again with the same ids, and its
            // checkpoint waits for that backend.
            return Ok(None);
        }
        let is_there = |link: &Link| {
            found.get(&link.id).is_some_and(|s| s.next_offset == link.next_offset && s.counts == link.counts)
        };
        let matching = prepared.attempts.iter().position(|attempt| attempt.links.iter().all(is_there));
        let Some(at) = matching else {
            return Err(self.failed(StoreError::fatal(
                Statement::Checkpoint,
                "look up a commit whose answer was lost",
                "the checkpoint is there, but with other counts than this batch has: another process uses its ids; \
                 stop it, then start again",
            )));
        };
        let attempt = prepared.attempts.swap_remove(at);
        self.lock_breaker().record(Instant::now(), attempt.report.refusals);
        Ok(Some(self.finish(prepared, attempt, true)))
    }

    /// Receipts for what is committed, and the rest of a batch that was cut.
    fn finish(&self, prepared: &mut Prepared, attempt: CommitAttempt, recovered: bool) -> Applied {
        prepared.attempts.clear();
        let CommitAttempt { links, places, report } = attempt;
        let mut receipts = Vec::with_capacity(links.len());
        let mut tips = Vec::with_capacity(links.len());
        for (link, LinkPlace { generation, seq }) in links.into_iter().zip(places) {
            tips.push((link.partition.clone(), Tip { id: link.id, seq, next_offset: link.next_offset }));
            // Invariant 1: after a confirmed COMMIT or a checkpoint found by its id. (A tip that is read gives the other.)
            receipts.push(Receipt::new(link.partition, generation, link.next_offset, link.id));
        }
        let done = report.outcomes.len();
        let rest = (done < prepared.items.len()).then(|| prepared.split_off(done));
        Applied { receipts, tips, report, recovered, rest }
    }

    fn failed(&self, error: StoreError) -> ApplyError {
        ApplyError::Store { consumer: self.consumer.clone(), error }
    }

    fn fenced(&self, links: &[Link]) -> ApplyError {
        let partitions = links.iter().map(|link| link.partition.clone()).collect();
        ApplyError::Fenced { consumer: self.consumer.clone(), partitions }
    }

    fn lock_breaker(&self) -> std::sync::MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the transaction after an error. A connection that cannot even roll back is lost.
async fn roll_back(conn: &mut dyn Connection, error: ApplyError) -> ApplyError {
    if error.connection_lost() {
        return error;
    }
    let Err(failure) = conn.rollback().await else { return error };
    match error {
        ApplyError::Store { consumer, mut error } => {
            error.connection_lost = true;
            // Rolled back or not, nothing is committed; what cannot be blamed on a record is tried again.
            if write::blames_a_record(&error) {
                error.class = Class::Transient;
            }
            ApplyError::Store { consumer, error }
        }
        ApplyError::Fenced { consumer, .. } => {
            ApplyError::Store { consumer, error: StoreError { connection_lost: true, ..failure } }
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_may_run_on_any_thread() {
        fn is_send<T: Send>(_: T) {}
        #[allow(dead_code, reason = "compiled, not run")]
        fn check(applier: &Applier, conn: &mut dyn Connection, prepared: &mut Prepared, tips: &Tips) {
            is_send(applier.apply(conn, prepared, tips));
        }
    }
}
