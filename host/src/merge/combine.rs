//! Several upserts of one row as one, whatever the row holds (Invariant 12).
//!
//! A fold reads the row under lock first, for under a guard the row decides which changes apply. But where every merge is
//! one of those below, the rows end the same without that look:
//!
//! - without a guard all changes apply: the last one for replace, the first that is not NULL for keep, the greatest, the
//!   least. Not `add`: the database refuses a sum that leaves its range on the way, and only the row says whether it does;
//! - under `newer_by` the row ends as the newest of them, or stays: replace takes that one's value, and keep in a column
//!   without NULLs the first one's, which only a row that is not there takes.
//!
//! What the guard refuses is counted all the same: see [`Combined::oldest`].

use super::{Cell, Guard, Merge, Operation, Target, TypedChange};

/// What several changes came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Combined {
    /// An upsert in their stead.
    pub change: TypedChange,
    /// Those that another of them makes stale, whatever the row holds.
    pub stale: u64,
    /// The version that a row must be older than (or have none, or not be there) for all the others to apply. Any other
    /// row refuses some of them and takes the rest: it ends right, but how many were refused only waves can tell. `None`
    /// where nothing is left to tell.
    pub oldest: Option<Cell>,
}

/// Combines the changes of one key, which stand in record order. `None` where the row has a say.
#[must_use]
pub fn combine(target: &Target, changes: &[&TypedChange]) -> Option<Combined> {
    let (first, last) = (changes.first()?, changes.last()?);
    let upserts = |c: &&TypedChange| c.operation == Operation::Upsert && c.target == first.target;
    if !target.foldable || !changes.iter().all(upserts) {
        return None;
    }
    let columns = || target.spec.columns.iter().zip(&target.columns).map(|(declared, column)| (declared.merge, column));
    match target.spec.guard {
        Some(Guard::Transition { .. }) => None,
        Some(Guard::NewerBy(version)) => {
            let decided = |(merge, column): (Merge, &super::Column)| {
                merge == Merge::Replace || (merge == Merge::Keep && !column.nullable)
            };
            if !columns().all(decided) {
                return None;
            }
            let mut newest = *first;
            let mut highs = 1;
            for &change in &changes[1..] {
                if change.cells[version] > newest.cells[version] {
                    newest = change;
                    highs += 1;
                }
            }
            let mut change = newest.clone();
            for (at, (merge, _)) in columns().enumerate() {
                if merge == Merge::Keep {
                    change.cells[at].clone_from(&first.cells[at]);
                }
            }
            let stale = u64::try_from(changes.len() - highs).unwrap_or(u64::MAX);
            Some(Combined { change, stale, oldest: (highs > 1).then(|| first.cells[version].clone()) })
        }
        None => {
            let mut change = (*last).clone();
            for (at, (merge, _)) in columns().enumerate() {
                let mut given = changes.iter().map(|c| &c.cells[at]).filter(|cell| !cell.is_null());
                let cell = match merge {
                    Merge::Replace => continue,
                    Merge::Keep => given.next(),
                    Merge::Greatest => given.max(),
                    Merge::Least => given.min(),
                    Merge::Add => return None,
                };
                change.cells[at] = cell.cloned().unwrap_or(Cell::Null);
            }
            Some(Combined { change, stale: 0, oldest: None })
        }
    }
}
