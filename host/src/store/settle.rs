//! What became of each record, and what is to be noted of it. Pure: the ledger's answers come in, outcomes go out.

use std::collections::{BTreeMap, HashMap, HashSet};

use uuid::Uuid;

use super::{
    Attempt, Conflict, DeadLetter, Notes,
    plan::{Plan, Role},
    prepared::{Intent, Item, Prepared},
    sqlstate::is_unique_conflict,
};
use crate::{
    config::OlderThanRetention,
    identity::{Fingerprint, MessageId},
    outcome::{Counts, Outcome, Rejection},
};

/// The code of dead letters that are older than the ledger remembers.
pub const TOO_OLD: &str = "too-old";

/// Characters of a dead letter's code that its column holds.
const CODE_LIMIT: usize = 100;
/// Characters of a dead letter's message that are kept.
const MESSAGE_LIMIT: usize = 4_000;

/// What the ledger and the targets said.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Per record: whether its insert was the one that came first (Invariant 3).
    pub(super) inserted: Vec<bool>,
    /// Of the ids that were looked up: those that the ledger has.
    pub(super) known: HashMap<MessageId, Fingerprint>,
    /// First-timers that were refused by the database, or by a transition.
    pub(super) died: BTreeMap<usize, Rejection>,
    /// Records from here on are another batch's.
    pub(super) limit: usize,
    /// Events from before then may have been forgotten.
    pub(super) old_before_us: i64,
}

/// How much is written down at most. What is beyond is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoteLimits {
    pub(super) attempts: usize,
    pub(super) conflicts: usize,
}

/// The outcome of a batch, before it is committed.
#[derive(Clone, Debug, Default)]
pub(super) struct Settled {
    pub(super) outcomes: Vec<Outcome>,
    pub(super) notes: Notes,
    /// Duplicates beyond the cap.
    pub(super) attempts_left_out: u64,
    /// Duplicates whose payload differs from the applied one's.
    pub(super) conflicts: u64,
    /// Dead without a database: a value did not fit its column, or the record broke the plugin.
    pub(super) poison: u32,
    /// Dead by the plugin's verdict.
    pub(super) rejected: u32,
    /// Dead because a unique constraint of a target refused them.
    pub(super) unique_conflicts: u64,
    /// Dead letters' codes with their number, too old ones included.
    pub(super) codes: BTreeMap<String, u64>,
}

impl Settled {
    /// Counted over a range of records. Invariant 5: each record has exactly one outcome.
    pub(super) fn counts(&self, records: std::ops::Range<usize>) -> Counts {
        let mut counts = Counts::default();
        self.outcomes[records].iter().for_each(|&outcome| counts.add(outcome));
        counts
    }
}

/// What a record turned out to be.
enum Standing<'a> {
    Applied,
    /// With the fingerprint of what was applied, where it is known.
    Duplicate(Option<Fingerprint>),
    Skipped,
    Dead(&'a Rejection),
    TooOld,
}

fn standing<'a>(i: usize, items: &'a [Item], plan: &Plan, answers: &'a Answers) -> Standing<'a> {
    let item = &items[i];
    let known = || item.message_id().and_then(|id| answers.known.get(id)).copied();
    match plan.roles[i] {
        Role::Insert if !answers.inserted[i] => return Standing::Duplicate(known()),
        Role::Insert => return answers.died.get(&i).map_or(Standing::Applied, Standing::Dead),
        Role::Follow(first) if !answers.inserted[first] => return Standing::Duplicate(known()),
        // The inserter died, or is another batch's now: nobody of this id is in the ledger.
        Role::Follow(first) if answers.died.contains_key(&first) || first >= answers.limit => {}
        Role::Follow(first) => return Standing::Duplicate(items[first].identity.as_ref().map(|x| x.fingerprint)),
        Role::Ask => {
            if let Some(fingerprint) = known() {
                return Standing::Duplicate(Some(fingerprint));
            }
        }
        Role::Nameless => {}
    }
    // Invariant 8: an input from before the horizon is never "first".
    if item.is_older_than(answers.old_before_us) {
        return Standing::TooOld;
    }
    match &item.intent {
        Intent::Skip => Standing::Skipped,
        Intent::Reject { rejection, .. } => Standing::Dead(rejection),
        // Inserts, or follows an earlier inserter, or is too old; anything else would be a second first.
        Intent::Apply(_) => Standing::Duplicate(None),
    }
}

/// Deals out outcomes and notes for the records before the limit. `checkpoint_of` says which link covers a record, for
/// the dead letters that an applied id supersedes; `None` where no dead letter is open.
pub(super) fn settle(
    prepared: &Prepared,
    plan: &Plan,
    answers: &Answers,
    policy: OlderThanRetention,
    limits: NoteLimits,
    checkpoint_of: Option<&dyn Fn(usize) -> Uuid>,
) -> Settled {
    let mut settled = Settled { outcomes: Vec::with_capacity(answers.limit), ..Settled::default() };
    let mut conflicts_seen = HashSet::new();
    let too_old = Rejection::new(
        TOO_OLD,
        "the event is from before the ledger's horizon: whether it was applied is no longer known",
    );
    for i in 0..answers.limit {
        let item = &prepared.items[i];
        let outcome = match standing(i, &prepared.items, plan, answers) {
            Standing::Applied => {
                if let (Some(checkpoint_of), Some(id)) = (checkpoint_of, item.message_id()) {
                    settled.notes.superseded.push((id.clone(), checkpoint_of(i)));
                }
                Outcome::Applied
            }
            Standing::Duplicate(applied) => {
                note_duplicate(prepared, i, applied, limits, &mut conflicts_seen, &mut settled);
                Outcome::Duplicate
            }
            Standing::Skipped => Outcome::Skipped,
            Standing::Dead(rejection) => {
                if let Intent::Reject { poison, .. } = item.intent {
                    *(if poison { &mut settled.poison } else { &mut settled.rejected }) += 1;
                }
                note_dead(prepared, i, rejection, &mut settled);
                Outcome::Dead
            }
            Standing::TooOld => {
                if policy == OlderThanRetention::DeadLetter {
                    note_dead(prepared, i, &too_old, &mut settled);
                }
                Outcome::TooOld
            }
        };
        settled.outcomes.push(outcome);
    }
    settled
}

fn note_duplicate(
    prepared: &Prepared,
    i: usize,
    applied: Option<Fingerprint>,
    limits: NoteLimits,
    conflicts_seen: &mut HashSet<(MessageId, Fingerprint)>,
    settled: &mut Settled,
) {
    let Some(identity) = &prepared.items[i].identity else { return };
    let message_id = identity.message_id.clone();
    // R1.4: same id, other payload.
    if applied.is_some_and(|fingerprint| fingerprint != identity.fingerprint) {
        settled.conflicts += 1;
        let new = conflicts_seen.insert((message_id.clone(), identity.fingerprint));
        if new && settled.notes.conflicts.len() < limits.conflicts {
            settled.notes.conflicts.push(Conflict {
                message_id: message_id.clone(),
                fingerprint: identity.fingerprint,
                position: prepared.batch.position_of(i),
                payload: prepared.batch.records[i].payload.clone(),
            });
        }
    }
    if settled.notes.attempts.len() < limits.attempts {
        settled.notes.attempts.push(Attempt { message_id, position: prepared.batch.position_of(i) });
    } else {
        settled.attempts_left_out += 1;
    }
}

fn note_dead(prepared: &Prepared, i: usize, rejection: &Rejection, settled: &mut Settled) {
    let record = &prepared.batch.records[i];
    let rejection = storable(rejection);
    settled.unique_conflicts += u64::from(rejection.sqlstate.as_deref().is_some_and(is_unique_conflict));
    *settled.codes.entry(rejection.code.clone()).or_default() += 1;
    settled.notes.dead_letters.push(DeadLetter {
        message_id: prepared.items[i].message_id().cloned(),
        partition: prepared.batch.run_of(i).partition.clone(),
        offset: record.offset,
        rejection,
        key: record.key.clone(),
        payload: record.payload.clone(),
        headers: record.headers.clone(),
    });
}

/// A rejection that every dialect can store: plugins word them, and no text column holds a NUL.
fn storable(rejection: &Rejection) -> Rejection {
    let clean = |text: &str, limit| text.chars().take(limit).map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect();
    Rejection {
        code: clean(&rejection.code, CODE_LIMIT),
        message: clean(&rejection.message, MESSAGE_LIMIT),
        sqlstate: rejection.sqlstate.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::prepared::testing::*, *};

    fn outcomes(items: &[Item], answers: &Answers) -> Vec<char> {
        let plan = Plan::new(items, answers.old_before_us);
        (0..answers.limit)
            .map(|i| match standing(i, items, &plan, answers) {
                Standing::Applied => 'a',
                Standing::Duplicate(_) => 'd',
                Standing::Skipped => 's',
                Standing::Dead(_) => 'x',
                Standing::TooOld => 'o',
            })
            .collect()
    }

    fn answers(items: &[Item], inserted: &[usize], known: &[&str]) -> Answers {
        let known = known.iter().map(|&id| (MessageId::new(id).expect("an id"), Fingerprint::of(None))).collect();
        Answers {
            inserted: (0..items.len()).map(|i| inserted.contains(&i)).collect(),
            known,
            limit: items.len(),
            old_before_us: i64::MIN,
            ..Answers::default()
        }
    }

    #[test]
    fn a_known_id_is_a_duplicate_whatever_the_verdict() {
        let items = [apply("a"), skip("b"), reject("c"), nameless(), skip("d")];
        assert_eq!(outcomes(&items, &answers(&items, &[0], &["b", "c"])), ['a', 'd', 'd', 'x', 's']);
        assert_eq!(outcomes(&items, &answers(&items, &[], &["a"])), ['d', 's', 'x', 'x', 's']);
    }

    #[test]
    fn duplicate_before_too_old_before_the_verdict() {
        let items = [apply_at("a", 1), apply_at("b", 1), apply_at("c", 9)];
        let mut answers = answers(&items, &[2], &["a"]);
        answers.old_before_us = 5;
        assert_eq!(outcomes(&items, &answers), ['d', 'o', 'a']);
    }

    #[test]
    fn when_the_inserter_dies_earlier_records_of_its_id_keep_their_own_verdict() {
        let items = [skip("a"), reject("a"), apply("a"), apply("b"), apply("a")];
        let mut answers = answers(&items, &[2, 3], &[]);
        assert_eq!(outcomes(&items, &answers), ['d', 'd', 'a', 'a', 'd']);
        answers.died.insert(2, Rejection::new("poison", "poison"));
        answers.limit = 4;
        assert_eq!(outcomes(&items, &answers), ['s', 'x', 'x', 'a']);
    }

    #[test]
    fn a_cut_inserter_leaves_earlier_records_to_themselves() {
        let items = [skip("a"), apply("b"), apply("a")];
        let mut inserted = answers(&items, &[1, 2], &[]);
        inserted.limit = 2;
        assert_eq!(outcomes(&items, &inserted), ['s', 'a']);
        // In the ledger already: a duplicate, cut or not.
        let mut there = answers(&items, &[1], &["a"]);
        there.limit = 2;
        assert_eq!(outcomes(&items, &there), ['d', 'a']);
    }
}
