//! Rows, and gathering them.

use crate::{
    Operation, Value,
    bindings::tidegate::plugin::types::{Change, Shape},
};

/// A row of a target, typed. Usually derived: `#[derive(Row)]`.
pub trait Row {
    /// What the configuration calls the target.
    const TARGET: &'static str;
    /// The columns, in the order of the values.
    const COLUMNS: &'static [&'static str];
    /// One value per column.
    fn into_values(self) -> Vec<Value>;
}

type Head = (Operation, &'static str, &'static [&'static str]);

/// Where [`crate::Plugin::compute`] puts the rows of an event. They apply in the order in which they were put here.
#[derive(Debug, Default)]
pub struct Rows {
    heads: Vec<Head>,
    changes: Vec<Change>,
}

impl Rows {
    /// Insert the row, or merge into the one that is there, as the target's configuration says.
    pub fn upsert<R: Row>(&mut self, row: R) {
        self.push(Operation::Upsert, row);
    }

    /// Merge into the row that is there; does nothing where there is none.
    pub fn update<R: Row>(&mut self, row: R) {
        self.push(Operation::Update, row);
    }

    /// Take the row away. Its columns are the target's key, and the column of its guard where it has one.
    pub fn delete<R: Row>(&mut self, row: R) {
        self.push(Operation::Delete, row);
    }

    fn push<R: Row>(&mut self, operation: Operation, row: R) {
        let head = (operation, R::TARGET, R::COLUMNS);
        // A plugin has a handful of row types: a scan beats a map.
        let found = self.heads.iter().position(|known| *known == head);
        let shape = found.unwrap_or_else(|| {
            self.heads.push(head);
            self.heads.len() - 1
        });
        let shape = u32::try_from(shape).unwrap_or(u32::MAX);
        self.changes.push(Change { shape, values: row.into_values() });
    }

    /// The rows since the last call.
    pub(crate) fn take(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// The heads of all rows so far.
    pub(crate) fn shapes(&self) -> Vec<Shape> {
        let shape = |&(operation, target, columns): &Head| Shape {
            operation,
            target: target.to_owned(),
            columns: columns.iter().map(ToString::to_string).collect(),
        };
        self.heads.iter().map(shape).collect()
    }
}
