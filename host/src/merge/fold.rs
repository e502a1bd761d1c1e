//! Several changes of one row as one write, over the row that is locked and was read (Invariant 12).
//!
//! Only for targets that are [`super::Target::foldable`]: nothing sees an intermediate row, and the host merges and
//! compares every column as the database does. Under a guard, which changes apply depends on the row, so a fold never
//! starts before the row is read under lock.

use bigdecimal::BigDecimal;

use super::{
    Cell, ColumnType, Guard, Merge, Operation, Target, TypedChange,
    number::{fit_int, fit_numeric},
};

/// A row of a target: the granted columns in the grant's order, and whether it is marked deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// In the order of the grant.
    pub cells: Vec<Cell>,
    /// The mark.
    pub mark: Mark,
}

/// A soft delete's mark on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Not deleted, or the target has no soft delete.
    There,
    /// Deleted before: the time stays.
    Deleted,
    /// Deleted by one of the folded changes.
    DeletedNow,
}

/// What a fold came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folded {
    /// The row as it ends.
    pub row: Row,
    /// Whether it differs from where it began.
    pub changed: bool,
    /// Changes that the guard refused.
    pub stale: u64,
}

/// Folds changes, in record order, over the row. `None` where the host cannot say what the database would do (a hard
/// delete, a sum out of range): such a key goes on in waves, and the database speaks for itself.
#[must_use]
pub fn fold<'a>(target: &Target, row: Row, changes: impl IntoIterator<Item = &'a TypedChange>) -> Option<Folded> {
    let mut folded = Folded { row: row.clone(), changed: false, stale: 0 };
    for change in changes {
        step(target, &mut folded, change)?;
    }
    folded.changed = folded.row != row;
    Some(folded)
}

fn step(target: &Target, folded: &mut Folded, change: &TypedChange) -> Option<()> {
    let spec = &target.spec;
    let row = &mut folded.row;
    if change.operation == Operation::Delete {
        target.soft.as_ref()?;
        let guard = match spec.guard {
            Some(Guard::NewerBy(column) | Guard::Transition { column, .. }) => Some(column),
            None => None,
        };
        if let Some(column) = guard {
            let value = change.cells.last()?;
            if matches!(spec.guard, Some(Guard::NewerBy(_))) && !newer(&row.cells[column], value) {
                folded.stale += 1;
                return Some(());
            }
            row.cells[column] = value.clone();
        }
        if row.mark == Mark::There {
            row.mark = Mark::DeletedNow;
        }
        return Some(());
    }
    if let Some(Guard::NewerBy(column)) = spec.guard
        && !newer(&row.cells[column], &change.cells[column])
    {
        folded.stale += 1;
        return Some(());
    }
    for (i, (declared, column)) in spec.columns.iter().zip(&target.columns).enumerate() {
        let (old, new) = (&row.cells[i], &change.cells[i]);
        let merged = match declared.merge {
            Merge::Replace => new,
            Merge::Keep if old.is_null() => new,
            Merge::Greatest if old.is_null() || (!new.is_null() && new > old) => new,
            Merge::Least if old.is_null() || (!new.is_null() && new < old) => new,
            Merge::Keep | Merge::Greatest | Merge::Least => continue,
            Merge::Add => &sum(&column.column_type, old, new)?,
        };
        if merged != old {
            row.cells[i] = merged.clone();
        }
    }
    row.mark = Mark::There;
    Some(())
}

/// NULL in the row lets everything through; NULL in the change is refused before.
fn newer(old: &Cell, new: &Cell) -> bool {
    old.is_null() || (!new.is_null() && new > old)
}

/// The sum, NULL as 0, if the column holds it after this very step.
fn sum(column_type: &ColumnType, old: &Cell, new: &Cell) -> Option<Cell> {
    match column_type {
        ColumnType::Int(_) | ColumnType::LooseInteger => {
            let whole = |cell: &Cell| match cell {
                Cell::Null => Some(0),
                Cell::Int(i) => Some(*i),
                _ => None,
            };
            let width = if let ColumnType::Int(width) = column_type { *width } else { 8 };
            fit_int(whole(old)?.checked_add(whole(new)?)?, width).ok().map(Cell::Int)
        }
        ColumnType::Numeric(limits) => {
            let number = |cell: &Cell| match cell {
                Cell::Null => Some(BigDecimal::default()),
                Cell::Decimal(d) => Some(d.clone()),
                _ => None,
            };
            fit_numeric(number(old)? + number(new)?, *limits).ok().map(Cell::Decimal)
        }
        _ => None,
    }
}
