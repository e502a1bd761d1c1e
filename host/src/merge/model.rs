//! A naive model of tables in memory: one change at a time, by the rules as the documentation states them. The oracle
//! of property tests; it shares no code with what it judges.

use std::collections::{BTreeMap, BTreeSet};

use bigdecimal::BigDecimal;

use super::{Cell, ColumnType, Guard, Merge, Operation, TableName, Target, TypedChange};

/// A row by column name. Columns never written are absent and mean NULL.
pub type ModelRow = BTreeMap<String, Cell>;

/// A table by key; the key's cells stand in the order of its column names.
pub type ModelTable = BTreeMap<Vec<Cell>, ModelRow>;

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The row is there as the change wants it (or stays, where it already was).
    Done,
    /// The row is newer.
    Stale,
    /// Nothing to update or delete.
    Missing,
    /// The step between states is not allowed.
    Refused,
    /// The row is in that state already.
    SameState,
}

/// All tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// By name, as the catalog spells them.
    pub tables: BTreeMap<TableName, ModelTable>,
}

impl Model {
    /// Applies one change.
    ///
    /// # Panics
    /// Where a change does not fit its target: it did not come out of [`super::type_change`].
    pub fn apply(&mut self, target: &Target, change: &TypedChange) -> Effect {
        let mut given = ModelRow::new();
        let spec = &target.spec;
        let key_columns: Vec<usize> = spec.key.clone();
        let guard_column = match &spec.guard {
            Some(Guard::NewerBy(column) | Guard::Transition { column, .. }) => Some(*column),
            None => None,
        };
        let columns: Vec<usize> = match change.operation {
            Operation::Delete => key_columns.iter().copied().chain(guard_column).collect(),
            Operation::Upsert | Operation::Update => (0..spec.columns.len()).collect(),
        };
        assert_eq!(columns.len(), change.cells.len(), "a change has a cell per column");
        for (column, cell) in columns.iter().zip(&change.cells) {
            given.insert(spec.columns[*column].name.clone(), cell.clone());
        }
        let key_names: BTreeSet<&str> = key_columns.iter().map(|&i| spec.columns[i].name.as_str()).collect();
        let key: Vec<Cell> = key_names.iter().map(|&name| given[name].clone()).collect();
        let table = self.tables.entry(target.table.clone()).or_default();
        let there = table.get(&key);
        let inserts = match change.operation {
            Operation::Upsert => true,
            Operation::Update => false,
            Operation::Delete => target.leaves_tombstones(),
        };
        if there.is_none() && !inserts {
            return Effect::Missing;
        }

        // The guard.
        let old = |name: &str| there.and_then(|row| row.get(name)).cloned().unwrap_or(Cell::Null);
        match &spec.guard {
            Some(Guard::NewerBy(column)) => {
                let name = &spec.columns[*column].name;
                if old(name) != Cell::Null && given[name] <= old(name) {
                    return Effect::Stale;
                }
            }
            Some(Guard::Transition { column, initial, allow, .. }) => {
                let name = &spec.columns[*column].name;
                let Cell::Text(to) = &given[name] else { return Effect::Refused };
                let allowed = match old(name) {
                    Cell::Text(from) if allow.contains(&(from.clone(), to.clone())) => true,
                    Cell::Text(from) if from == *to => return Effect::SameState,
                    Cell::Text(_) => false,
                    _ => initial.contains(to),
                };
                if !allowed {
                    return Effect::Refused;
                }
            }
            None => {}
        }

        // The row.
        let mut row = there.cloned().unwrap_or_default();
        if change.operation == Operation::Delete {
            let Some(soft) = &target.soft else {
                table.remove(&key);
                return Effect::Done;
            };
            row.extend(given);
            row.insert(soft.column.clone(), Cell::Bool(true));
        } else {
            for (column, declared) in spec.columns.iter().enumerate() {
                let new = given[&declared.name].clone();
                let before = if there.is_some() { old(&declared.name) } else { Cell::Null };
                let merged = match declared.merge {
                    _ if there.is_none() => new,
                    Merge::Replace => new,
                    Merge::Keep => [before, new].into_iter().find(|c| *c != Cell::Null).unwrap_or(Cell::Null),
                    Merge::Greatest => [before, new].into_iter().max().unwrap_or(Cell::Null),
                    Merge::Least => [before, new].into_iter().filter(|c| *c != Cell::Null).min().unwrap_or(Cell::Null),
                    Merge::Add => plus(&target.columns[column].column_type, &before, &new),
                };
                row.insert(declared.name.clone(), merged);
            }
            if let Some(soft) = &target.soft {
                row.insert(soft.column.clone(), Cell::Bool(false));
            }
        }
        table.insert(key, row);
        Effect::Done
    }

    /// The rows of a table, without those marked deleted in `soft`.
    #[must_use]
    pub fn visible(&self, table: &TableName, soft: Option<&str>) -> ModelTable {
        let rows = self.tables.get(table).cloned().unwrap_or_default();
        let deleted = |row: &ModelRow| soft.is_some_and(|soft| row.get(soft) == Some(&Cell::Bool(true)));
        rows.into_iter().filter(|(_, row)| !deleted(row)).collect()
    }
}

fn plus(column_type: &ColumnType, a: &Cell, b: &Cell) -> Cell {
    let zero = match column_type {
        ColumnType::Numeric(_) => Cell::Decimal(BigDecimal::from(0)),
        ColumnType::Float(_) => Cell::float(0.0),
        _ => Cell::Int(0),
    };
    let number = |cell: &Cell| if *cell == Cell::Null { zero.clone() } else { cell.clone() };
    match (number(a), number(b)) {
        (Cell::Int(x), Cell::Int(y)) => Cell::Int(x + y),
        (Cell::Decimal(x), Cell::Decimal(y)) => Cell::Decimal(x + y),
        (Cell::Float(x), Cell::Float(y)) => Cell::float(Cell::float_value(x) + Cell::float_value(y)),
        (x, _) => x,
    }
}
