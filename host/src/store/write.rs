//! Writing the first-timers' rows: all at once, or carefully.

use std::{collections::BTreeMap, ops::Range};

use super::{
    ApplyError, Breaker, Connection, StoreError, Written,
    plan::Plan,
    prepared::{Intent, Prepared},
};
use crate::{
    class::Class,
    fail_point::{FailPoint, reach},
    identity::ConsumerName,
    merge::{Decision, Target, Transitions, TypedChange},
    outcome::Rejection,
};

/// The code of dead letters that the database refused; their SQLSTATE says more.
pub const REFUSED_BY_DATABASE: &str = "refused-by-database";

/// The database found two changes of one row where the host sees two rows (a collation, a numeric's trailing zeros).
const CARDINALITY: &str = "21000";
/// A privilege is missing: one row's policy, or every row's grant.
const PRIVILEGE: &str = "42501";

/// What there is to write.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    pub(super) consumer: &'a ConsumerName,
    pub(super) targets: &'a [Target],
    pub(super) prepared: &'a Prepared,
    pub(super) plan: &'a Plan,
    /// Indexes of the records whose insert came first, in record order.
    pub(super) firsts: &'a [usize],
}

impl<'a> Work<'a> {
    fn changes_of(&self, record: usize) -> &'a [TypedChange] {
        match &self.prepared.items[record].intent {
            Intent::Apply(range) => &self.prepared.changes[range.clone()],
            Intent::Skip | Intent::Reject { .. } => &[],
        }
    }
}

/// How far the writing came.
#[derive(Debug)]
pub(super) struct Progress {
    /// Records that were refused, by the database or by a transition.
    pub(super) died: BTreeMap<usize, Rejection>,
    /// Records from here on are left to the next batch: one of them has the id of a record that died.
    pub(super) limit: usize,
    pub(super) written: Written,
    /// Refused steps whose target says to ignore them.
    pub(super) ignored: u64,
    /// Changes left out because their row was in their state already.
    pub(super) same_state: u64,
    /// Of those that died: by the database.
    pub(super) poison: u32,
    /// Of those that died: by a transition.
    pub(super) transitions: u32,
    /// Whether any record's rows were let through.
    wrote: bool,
    /// The first missing privilege, until a neighbour has passed.
    privilege: Option<StoreError>,
}

impl Progress {
    fn new(limit: usize) -> Self {
        Self {
            died: BTreeMap::new(),
            limit,
            written: Written::default(),
            ignored: 0,
            same_state: 0,
            poison: 0,
            transitions: 0,
            wrote: false,
            privilege: None,
        }
    }

    fn die(&mut self, record: usize, rejection: Rejection, plan: &Plan) {
        self.died.insert(record, rejection);
        // The next record of this id may be its correction: it must find the id free, in a batch of its own.
        if let Some(next) = plan.next_of_same_id(record) {
            self.limit = self.limit.min(next);
        }
    }

    fn absorb(&mut self, part: Self) {
        self.died.extend(part.died);
        self.limit = self.limit.min(part.limit);
        self.written.stale += part.written.stale;
        self.written.missing += part.written.missing;
        self.ignored += part.ignored;
        self.same_state += part.same_state;
        self.transitions += part.transitions;
        self.wrote |= part.wrote;
    }
}

/// Whether careful mode can find out which record is to blame.
pub(super) fn blames_a_record(error: &StoreError) -> bool {
    error.class() == Class::Poison || is_cardinality(error)
}

/// Whether records must be written one at a time to pass.
pub(super) fn is_cardinality(error: &StoreError) -> bool {
    error.statement.carries_target_rows() && error.sqlstate.as_deref() == Some(CARDINALITY)
}

/// Writes these records' changes in one go, transitions decided beforehand.
async fn write_records(
    conn: &mut dyn Connection,
    work: Work<'_>,
    records: &[usize],
    limit: usize,
) -> Result<Progress, StoreError> {
    let mut progress = Progress::new(limit);
    let mut accepted: Vec<&TypedChange> = Vec::with_capacity(work.prepared.changes.len());
    if Transitions::needed(work.targets) {
        let mut states = Transitions::new(work.targets);
        for (target, keys) in states.to_lock(records.iter().flat_map(|&record| work.changes_of(record))) {
            let found = conn.lock_states(&work.targets[target], &keys).await?;
            states.learn(target, found);
        }
        for &record in records {
            if record >= progress.limit {
                break;
            }
            let changes: Vec<&TypedChange> = work.changes_of(record).iter().collect();
            match states.decide(&changes) {
                Decision::Accept { leave_out, ignored, same_state } => {
                    progress.ignored += ignored;
                    progress.same_state += same_state;
                    let kept = changes.iter().enumerate().filter(|(i, _)| leave_out.binary_search(i).is_err());
                    accepted.extend(kept.map(|(_, change)| *change));
                }
                Decision::Refuse(rejection) => {
                    progress.transitions += 1;
                    progress.die(record, rejection, work.plan);
                }
            }
        }
    } else {
        accepted.extend(records.iter().flat_map(|&record| work.changes_of(record)));
    }
    if !accepted.is_empty() {
        progress.written = conn.write(work.targets, &accepted).await?;
        progress.wrote = true;
    }
    Ok(progress)
}

/// Everything at once. A data error says nothing about which record it was.
pub(super) async fn optimistically(conn: &mut dyn Connection, work: Work<'_>) -> Result<Progress, ApplyError> {
    write_records(conn, work, work.firsts, work.prepared.items.len()).await.map_err(|error| work.failed(error))
}

/// A stretch of the first-timers.
struct Segment {
    /// Indexes into [`Work::firsts`].
    firsts: Range<usize>,
    /// Whether it is a single record that has failed once already.
    failed: bool,
}

/// Segments in record order, each on top of what passed before it; one that fails is halved until the poison record
/// stands alone, and fails alone twice (Invariant 6). `one_by_one`: no two records in one statement.
pub(super) async fn carefully(
    conn: &mut dyn Connection,
    work: Work<'_>,
    one_by_one: bool,
) -> Result<Progress, ApplyError> {
    let mut progress = Progress::new(work.prepared.items.len());
    let mut todo: Vec<Segment> = Vec::new();
    if one_by_one {
        todo.extend((0..work.firsts.len()).rev().map(|i| Segment { firsts: i..i + 1, failed: false }));
    } else {
        push_halves(&mut todo, 0..work.firsts.len());
    }
    while let Some(Segment { mut firsts, failed }) = todo.pop() {
        firsts.end = firsts.start + work.firsts[firsts.clone()].partition_point(|&record| record < progress.limit);
        if firsts.is_empty() {
            continue;
        }
        let records = &work.firsts[firsts.clone()];
        conn.savepoint().await.map_err(|error| work.failed(error))?;
        reach(FailPoint::SavepointSet);
        let tried = match write_records(conn, work, records, progress.limit).await {
            Ok(part) => {
                reach(FailPoint::BeforeRelease);
                conn.release().await.map(|()| part)
            }
            Err(error) => Err(error),
        };
        match tried {
            Ok(part) => progress.absorb(part),
            Err(error) if blames_a_record(&error) => {
                conn.rollback_to_savepoint().await.map_err(|error| work.failed(error))?;
                reach(FailPoint::SavepointUndone);
                match (records, failed) {
                    ([_], false) => todo.push(Segment { firsts, failed: true }),
                    ([_], true) if is_cardinality(&error) => return Err(work.failed(error)),
                    ([record], true) => {
                        progress.poison += 1;
                        let why = refused(&error);
                        Breaker::check_batch(progress.poison).map_err(|tripped| {
                            let first = progress.died.values().find(|why| tripped.is_about(why)).unwrap_or(&why);
                            work.tripped(tripped, first.clone())
                        })?;
                        progress.die(*record, why, work.plan);
                        if error.sqlstate.as_deref() == Some(PRIVILEGE) {
                            progress.privilege.get_or_insert(error);
                        }
                    }
                    _ => push_halves(&mut todo, firsts),
                }
            }
            Err(error) => return Err(work.failed(error)),
        }
    }
    // A missing grant would refuse every record: only where a neighbour passes is it the record's own fault.
    match progress.privilege.take() {
        Some(error) if !progress.wrote => {
            let way_out = "the database role may write none of these rows: `tidegate check --online` names the GRANT that \
                           is missing, or a row policy refuses them all (docs/database-roles.md)";
            let message = format!("{}; {way_out}", error.message);
            Err(work.failed(StoreError { class: Class::Fatal, message, ..error }))
        }
        _ => Ok(progress),
    }
}

/// The left half is done first.
fn push_halves(todo: &mut Vec<Segment>, firsts: Range<usize>) {
    let middle = firsts.start + firsts.len().div_ceil(2);
    for half in [middle..firsts.end, firsts.start..middle] {
        if !half.is_empty() {
            todo.push(Segment { firsts: half, failed: false });
        }
    }
}

fn refused(error: &StoreError) -> Rejection {
    Rejection {
        code: REFUSED_BY_DATABASE.into(),
        message: format!("{}: {}", error.context, error.message),
        sqlstate: error.sqlstate.clone(),
    }
}

impl Work<'_> {
    fn failed(&self, error: StoreError) -> ApplyError {
        ApplyError::Store { consumer: self.consumer.clone(), error }
    }

    fn tripped(&self, tripped: super::Tripped, first: Rejection) -> ApplyError {
        ApplyError::BreakerOpen { consumer: self.consumer.clone(), tripped, first: Some(first) }
    }
}

/// A data error that careful mode cannot pin on a record stops the consumer.
pub(super) fn unattributable(error: StoreError) -> StoreError {
    StoreError { class: Class::Fatal, ..error }
}
