//! Many changes, few statements: what may be written together, in which order.
//!
//! Changes are grouped by table in one global order; within a table by key, keys sorted by their cells. Wave *k* holds
//! the k-th change of every key that has so many. A key stands once in a wave, so a wave is one statement per target
//! and operation, and changes of one key apply in record order (Invariant 9).

use std::cmp::Ordering;

use super::{Cell, Operation, Target, TypedChange, table_ranks};

/// How a set of changes is written.
#[derive(Debug)]
pub enum Plan<'a> {
    /// Table by table, wave by wave.
    Tables(Vec<TableChanges<'a>>),
    /// In record order, as runs of one target and operation in which every key stands once: where rows are deleted
    /// that others refer to, no order by table is right.
    InOrder(Vec<Statement<'a>>),
}

/// The changes of one table.
#[derive(Debug)]
pub struct TableChanges<'a> {
    /// One entry per key, sorted by key.
    pub keys: Vec<KeyChanges<'a>>,
}

/// The changes of one key, in record order. Never empty.
#[derive(Clone, Debug)]
pub struct KeyChanges<'a> {
    /// Several where targets share the table.
    pub changes: Vec<&'a TypedChange>,
}

/// What goes to the database in one statement: every key once, sorted by key.
#[derive(Debug)]
pub struct Statement<'a> {
    /// Index among the consumer's targets.
    pub target: usize,
    /// The operation of all.
    pub operation: Operation,
    /// The changes.
    pub changes: Vec<&'a TypedChange>,
}

/// What never changes about a consumer's targets, worked out once.
#[derive(Debug)]
pub struct Layout {
    /// See [`table_ranks`].
    ranks: Vec<usize>,
    /// Key positions of upsert and update, per target.
    key: Vec<Vec<usize>>,
    /// Key positions of delete, per target.
    delete_key: Vec<Vec<usize>>,
    /// Whether rows of other targets' tables refer to this one's, or the other way round.
    linked: Vec<bool>,
}

impl Layout {
    /// Of these targets.
    #[must_use]
    pub fn new(targets: &[Target]) -> Self {
        let refers = |a: &Target, b: &Target| a.references.contains(&b.table);
        Self {
            ranks: table_ranks(targets),
            key: targets.iter().map(|t| t.key_positions(Operation::Upsert)).collect(),
            delete_key: targets.iter().map(|t| t.key_positions(Operation::Delete)).collect(),
            linked: targets.iter().map(|t| targets.iter().any(|u| refers(t, u) || refers(u, t))).collect(),
        }
    }

    fn positions(&self, change: &TypedChange) -> &[usize] {
        let keys = if change.operation == Operation::Delete { &self.delete_key } else { &self.key };
        &keys[change.target]
    }

    /// Orders by key. Only for changes of one table.
    fn by_key(&self, a: &TypedChange, b: &TypedChange) -> Ordering {
        let (left, right) = (self.positions(a), self.positions(b));
        left.iter()
            .zip(right)
            .map(|(&i, &j)| a.cells[i].cmp(&b.cells[j]))
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// The key's cells in the order of [`Target::key_columns`].
    pub fn key_of<'a>(&'a self, change: &'a TypedChange) -> impl Iterator<Item = &'a Cell> {
        self.positions(change).iter().map(|&i| &change.cells[i])
    }

    /// Sorts changes, which stand in record order, into statements.
    #[must_use]
    pub fn plan<'a>(&self, targets: &[Target], changes: impl IntoIterator<Item = &'a TypedChange>) -> Plan<'a> {
        let mut sorted: Vec<&TypedChange> = changes.into_iter().collect();
        let breaks_links = |c: &&TypedChange| {
            c.operation == Operation::Delete && targets[c.target].soft.is_none() && self.linked[c.target]
        };
        if sorted.iter().any(breaks_links) {
            return Plan::InOrder(self.runs(&sorted));
        }
        // Stable, so that changes of one key keep their order.
        sorted.sort_by(|a, b| self.ranks[a.target].cmp(&self.ranks[b.target]).then_with(|| self.by_key(a, b)));
        let mut tables: Vec<TableChanges<'a>> = Vec::new();
        let mut last: Option<&TypedChange> = None;
        for change in sorted {
            let same_table = last.is_some_and(|l| self.ranks[l.target] == self.ranks[change.target]);
            let same_key = same_table && last.is_some_and(|l| self.by_key(l, change).is_eq());
            last = Some(change);
            match tables.last_mut() {
                Some(table) if same_table => match table.keys.last_mut() {
                    Some(key) if same_key => key.changes.push(change),
                    _ => table.keys.push(KeyChanges { changes: vec![change] }),
                },
                _ => tables.push(TableChanges { keys: vec![KeyChanges { changes: vec![change] }] }),
            }
        }
        Plan::Tables(tables)
    }

    fn runs<'a>(&self, changes: &[&'a TypedChange]) -> Vec<Statement<'a>> {
        let mut runs: Vec<Statement<'a>> = Vec::new();
        for &change in changes {
            let fits = runs.last().is_some_and(|run| {
                run.target == change.target
                    && run.operation == change.operation
                    && run.changes.binary_search_by(|c| self.by_key(c, change)).is_err()
            });
            match runs.last_mut() {
                Some(run) if fits => {
                    let at = run.changes.partition_point(|c| self.by_key(c, change).is_lt());
                    run.changes.insert(at, change);
                }
                _ => {
                    let Statement { target, operation, changes } = Statement::one(change);
                    runs.push(Statement { target, operation, changes });
                }
            }
        }
        runs
    }
}

impl<'a> Statement<'a> {
    fn one(change: &'a TypedChange) -> Self {
        Self { target: change.target, operation: change.operation, changes: vec![change] }
    }
}

/// The statements of wave `number` (from 0) over these keys: one per target and operation, keys sorted.
#[must_use]
pub fn wave<'a>(keys: &[KeyChanges<'a>], number: usize) -> Vec<Statement<'a>> {
    let mut statements: Vec<Statement<'a>> = Vec::new();
    for change in keys.iter().filter_map(|key| key.changes.get(number).copied()) {
        match statements.iter_mut().find(|s| s.target == change.target && s.operation == change.operation) {
            Some(statement) => statement.changes.push(change),
            None => statements.push(Statement::one(change)),
        }
    }
    statements
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::{super::testing::*, *};
    use crate::merge::{ColumnType, Merge, resolve};

    fn targets(linked: bool) -> Vec<Target> {
        let mut declared = spec(&[Merge::Replace], None);
        declared.operations.insert(Operation::Delete);
        let parent = resolve(&declared, &info(&[ColumnType::Int(8)])).unwrap();
        declared.table = table("a_child");
        let mut found = info(&[ColumnType::Int(8)]);
        found.table = table("a_child");
        if linked {
            found.references = vec![table("rows")];
        }
        vec![resolve(&declared, &found).unwrap(), parent]
    }

    fn change(record: usize, target: usize, operation: Operation, id: &str) -> TypedChange {
        let mut cells = vec![Cell::Text(id.into())];
        if operation != Operation::Delete {
            cells.push(Cell::Int(i64::try_from(record).unwrap()));
        }
        TypedChange { record, target, operation, cells }
    }

    fn records(statements: &[Statement<'_>]) -> Vec<Vec<usize>> {
        statements.iter().map(|s| s.changes.iter().map(|c| c.record).collect()).collect()
    }

    #[test]
    fn a_key_stands_once_in_a_wave_and_in_record_order_over_them() {
        use Operation::{Delete, Upsert};
        let targets = targets(false);
        let changes = [
            change(0, 0, Upsert, "b"),
            change(1, 0, Upsert, "a"),
            change(2, 0, Delete, "b"),
            change(3, 0, Upsert, "b"),
            change(4, 1, Upsert, "b"),
        ];
        let layout = Layout::new(&targets);
        let Plan::Tables(tables) = layout.plan(&targets, &changes) else { unreachable!() };
        assert_eq!(tables.len(), 2);
        assert_eq!(records(&wave(&tables[0].keys, 0)), [[1, 0]]);
        assert_eq!(records(&wave(&tables[0].keys, 1)), [[2]]);
        assert_eq!(records(&wave(&tables[0].keys, 2)), [[3]]);
        assert!(wave(&tables[0].keys, 3).is_empty());
        assert_eq!(records(&wave(&tables[1].keys, 0)), [[4]]);
    }

    #[test]
    fn parents_are_written_first() {
        use Operation::Upsert;
        let targets = targets(true);
        let changes = [change(0, 0, Upsert, "child"), change(1, 1, Upsert, "parent")];
        let Plan::Tables(tables) = Layout::new(&targets).plan(&targets, &changes) else { unreachable!() };
        assert_eq!(tables[0].keys[0].changes[0].record, 1);
    }

    #[test]
    fn deletes_of_linked_rows_keep_record_order() {
        use Operation::{Delete, Upsert};
        let targets = targets(true);
        let changes = [
            change(0, 0, Upsert, "b"),
            change(1, 0, Upsert, "a"),
            change(2, 0, Upsert, "a"),
            change(3, 1, Delete, "b"),
            change(4, 0, Upsert, "c"),
        ];
        let Plan::InOrder(runs) = Layout::new(&targets).plan(&targets, &changes) else { unreachable!() };
        assert_eq!(records(&runs), [vec![1, 0], vec![2], vec![3], vec![4]]);
    }
}
