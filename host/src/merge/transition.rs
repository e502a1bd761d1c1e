//! Whether records may take their steps between states: decided in record order, over states read under lock, before
//! anything is written. A refused step raises no SQL error, yet it must take back all changes of its record before
//! later changes of the same row are judged.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Cell, Guard, OnRefused, Operation, Target, TypedChange, table_ranks};
use crate::outcome::Rejection;

/// The code of rejections made here. They are counted apart from poison.
pub const TRANSITION_REFUSED: &str = "transition-refused";

/// What becomes of a record's changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// All may be written, but for some.
    Accept {
        /// Indexes, ascending, of changes to leave out: the row is in that state already and may not take the step to
        /// it again, or the step is refused and the target says to ignore that.
        leave_out: Vec<usize>,
        /// How many of those were refused steps.
        ignored: u64,
        /// How many of those met a row in their own state. Their other columns are not written either.
        same_state: u64,
    },
    /// None may be written; the record becomes a dead letter.
    Refuse(Rejection),
}

/// The states of rows as the accepted records leave them.
#[derive(Debug)]
pub struct Transitions<'a> {
    targets: &'a [Target],
    ranks: Vec<usize>,
    /// By table and key; absent: no row. Keys as [`TypedChange::key`] gives them for a target of the table.
    states: HashMap<(usize, Vec<Cell>), Cell>,
}

impl<'a> Transitions<'a> {
    /// With no row known.
    #[must_use]
    pub fn new(targets: &'a [Target]) -> Self {
        Self { targets, ranks: table_ranks(targets), states: HashMap::new() }
    }

    /// Whether any of the targets has a transition guard.
    #[must_use]
    pub fn needed(targets: &[Target]) -> bool {
        targets.iter().any(|t| matches!(t.spec.guard, Some(Guard::Transition { .. })))
    }

    /// Whose states must be read under lock before these changes are judged: per target, in the one global order,
    /// keys sorted, each once (as [`TypedChange::key`] has them).
    #[must_use]
    pub fn to_lock<'c>(&self, changes: impl IntoIterator<Item = &'c TypedChange>) -> Vec<(usize, Vec<Vec<Cell>>)> {
        // Two targets of one table would lock the same rows: the first stands for both.
        let mut keys: BTreeMap<usize, (usize, BTreeSet<Vec<Cell>>)> = BTreeMap::new();
        for change in changes {
            if let Some(Guard::Transition { .. }) = self.targets[change.target].spec.guard {
                let of = self.standing_for(change.target);
                let key = self.key_for(change, of);
                keys.entry(self.ranks[change.target]).or_insert_with(|| (of, BTreeSet::new())).1.insert(key);
            }
        }
        keys.into_values().map(|(target, keys)| (target, keys.into_iter().collect())).collect()
    }

    /// Takes what was read for a target that [`Transitions::to_lock`] named.
    pub fn learn(&mut self, target: usize, states: impl IntoIterator<Item = (Vec<Cell>, Cell)>) {
        let rank = self.ranks[target];
        self.states.extend(states.into_iter().map(|(key, state)| ((rank, key), state)));
    }

    /// Judges the changes of one record, as a whole. What is accepted changes the states that later records meet.
    pub fn decide(&mut self, changes: &[&TypedChange]) -> Decision {
        let mut leave_out = Vec::new();
        let mut ignored = 0;
        let mut same_state = 0;
        let mut steps: HashMap<(usize, Vec<Cell>), Cell> = HashMap::new();
        for (i, change) in changes.iter().enumerate() {
            let target = &self.targets[change.target];
            let Some(Guard::Transition { column, initial, allow, on_refused }) = &target.spec.guard else { continue };
            let place = (self.ranks[change.target], self.key_for(change, self.standing_for(change.target)));
            let from = steps.get(&place).or_else(|| self.states.get(&place));
            let inserts = change.operation == Operation::Upsert
                || (change.operation == Operation::Delete && target.leaves_tombstones());
            if from.is_none() && !inserts {
                // No row to update: nothing happens, and the write counts it.
                continue;
            }
            let at = if change.operation == Operation::Delete { change.cells.len() - 1 } else { *column };
            let to = &change.cells[at];
            let from = match from {
                Some(Cell::Text(from)) => Some(from),
                _ => None,
            };
            let Cell::Text(state) = to else { continue };
            let allowed = match from {
                Some(from) => allow.contains(&(from.clone(), state.clone())),
                None => initial.contains(state),
            };
            if allowed {
                steps.insert(place, to.clone());
            } else if from == Some(state) {
                // Most often a producer that says it again: no failure, but what it said besides is lost, so it counts.
                leave_out.push(i);
                same_state += 1;
            } else if *on_refused == OnRefused::Ignore {
                leave_out.push(i);
                ignored += 1;
            } else {
                let name = &target.columns[*column].name;
                let step = match from {
                    Some(from) => format!("from \"{from}\" to \"{state}\" is not in `allow`"),
                    None => format!("a row may not begin as \"{state}\": it is not in `initial`"),
                };
                let text = format!("target {}: column {name}: {step}", target.spec.name);
                return Decision::Refuse(Rejection::new(TRANSITION_REFUSED, text));
            }
        }
        self.states.extend(steps);
        Decision::Accept { leave_out, ignored, same_state }
    }

    /// The first target of the same table with a transition guard.
    fn standing_for(&self, target: usize) -> usize {
        let same = |i: &usize| {
            self.ranks[*i] == self.ranks[target]
                && matches!(self.targets[*i].spec.guard, Some(Guard::Transition { .. }))
        };
        (0..target).find(same).unwrap_or(target)
    }

    /// The change's key in the key order of target `of`, which is of the same table.
    fn key_for(&self, change: &TypedChange, of: usize) -> Vec<Cell> {
        let own = &self.targets[change.target];
        if of == change.target {
            return change.key(own);
        }
        let key = change.key(own);
        let name = |target: &Target, at: usize| target.spec.columns[target.spec.key[at]].name.clone();
        let places = 0..self.targets[of].spec.key.len();
        places
            .filter_map(|at| (0..key.len()).find(|&i| name(own, i) == name(&self.targets[of], at)))
            .map(|i| key[i].clone())
            .collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::{super::testing::*, *};
    use crate::merge::{ColumnType, Merge, resolve};

    fn target(on_refused: OnRefused) -> Target {
        let allow: BTreeSet<_> =
            [("new", "paid"), ("paid", "sent"), ("sent", "sent")].map(|(a, b)| (a.into(), b.into())).into();
        let mut guard = transition(1, &["new"], allow);
        if let Guard::Transition { on_refused: policy, .. } = &mut guard {
            *policy = on_refused;
        }
        let mut declared = spec(&[Merge::Replace], Some(guard));
        declared.operations.insert(Operation::Update);
        resolve(&declared, &info(&[ColumnType::Text(None)])).unwrap()
    }

    fn step(target: usize, operation: Operation, id: &str, state: &str) -> TypedChange {
        let text = |t: &str| Cell::Text(t.into());
        TypedChange { record: 0, target, operation, cells: vec![text(id), text(state)] }
    }

    fn upsert(id: &str, state: &str) -> TypedChange {
        step(0, Operation::Upsert, id, state)
    }

    fn accept(leave_out: &[usize], ignored: u64) -> Decision {
        Decision::Accept { leave_out: leave_out.to_vec(), ignored, same_state: 0 }
    }

    #[test]
    fn steps_build_on_what_was_accepted_before() {
        let targets = [target(OnRefused::DeadLetter)];
        let mut states = Transitions::new(&targets);
        states.learn(0, [(vec![Cell::Text("b".into())], Cell::Text("paid".into()))]);
        let mut decide = |changes: &[TypedChange]| states.decide(&changes.iter().collect::<Vec<_>>());
        assert_eq!(decide(&[upsert("a", "new")]), accept(&[], 0));
        assert_eq!(decide(&[upsert("a", "paid"), upsert("b", "sent")]), accept(&[], 0));
        assert!(matches!(decide(&[upsert("a", "new")]), Decision::Refuse(r) if r.code == TRANSITION_REFUSED));
        assert!(matches!(decide(&[upsert("c", "paid")]), Decision::Refuse(_)), "not an initial state");
        assert_eq!(decide(&[step(0, Operation::Update, "d", "sent")]), accept(&[], 0), "no row to update");
    }

    #[test]
    fn a_state_follows_itself_only_where_that_is_allowed() {
        let targets = [target(OnRefused::DeadLetter)];
        let mut states = Transitions::new(&targets);
        let mut decide = |changes: &[TypedChange]| states.decide(&changes.iter().collect::<Vec<_>>());
        let counted = Decision::Accept { leave_out: vec![1], ignored: 0, same_state: 1 };
        assert_eq!(decide(&[upsert("a", "new"), upsert("a", "new")]), counted, "neither written nor refused");
        assert_eq!(decide(&[upsert("a", "paid"), upsert("a", "sent")]), accept(&[], 0));
        assert_eq!(decide(&[upsert("a", "sent")]), accept(&[], 0), "in `allow`: it is written");
    }

    #[test]
    fn a_refused_record_leaves_no_step_behind() {
        let targets = [target(OnRefused::DeadLetter)];
        let mut states = Transitions::new(&targets);
        let mut decide = |changes: &[TypedChange]| states.decide(&changes.iter().collect::<Vec<_>>());
        assert!(matches!(decide(&[upsert("a", "new"), upsert("a", "sent")]), Decision::Refuse(_)));
        assert_eq!(decide(&[upsert("a", "new")]), accept(&[], 0), "a is still absent");
    }

    #[test]
    fn an_ignored_step_leaves_the_record_s_other_changes() {
        let targets = [target(OnRefused::Ignore)];
        let mut states = Transitions::new(&targets);
        let changes = [upsert("a", "sent"), upsert("b", "new")];
        assert_eq!(states.decide(&changes.iter().collect::<Vec<_>>()), accept(&[0], 1));
    }

    #[test]
    fn keys_are_locked_once_sorted_and_for_guarded_targets_only() {
        let plain = resolve(&spec(&[Merge::Replace], None), &info(&[ColumnType::Text(None)])).unwrap();
        let targets = [plain, target(OnRefused::DeadLetter)];
        let changes = [
            step(1, Operation::Upsert, "b", "new"),
            step(0, Operation::Upsert, "z", "new"),
            step(1, Operation::Update, "a", "paid"),
            step(1, Operation::Upsert, "b", "paid"),
        ];
        let states = Transitions::new(&targets);
        let key = |id: &str| vec![Cell::Text(id.into())];
        assert_eq!(states.to_lock(&changes), vec![(1, vec![key("a"), key("b")])]);
        assert!(Transitions::needed(&targets));
        assert!(!Transitions::needed(&targets[..1]));
    }
}
