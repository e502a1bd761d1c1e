//! A target as the configuration declares it, before the catalog is asked.

use std::{collections::BTreeSet, fmt};

/// A table, optionally with its schema.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    /// `None`: found by the connection's search path.
    pub schema: Option<String>,
    /// The table's name.
    pub name: String,
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{schema}.{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// How a column's new value meets the one that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Merge {
    /// The new value.
    Replace,
    /// The value that is there, unless it is NULL.
    Keep,
    /// The greater; NULL loses.
    Greatest,
    /// The lesser; NULL loses.
    Least,
    /// The sum; NULL counts as 0. Not idempotent without the ledger: an explicit opt-in (R2.6).
    Add,
}

/// Which changes a row lets through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Only a greater value of this column (index into the target's columns); NULL in the row lets all through.
    NewerBy(usize),
    /// Only from allowed states.
    Transition {
        /// The state's column (index into the target's columns).
        column: usize,
        /// States in which a row may be inserted.
        initial: BTreeSet<String>,
        /// Allowed steps (from, to). Staying in a state is not refused: such a change is left out.
        allow: BTreeSet<(String, String)>,
        /// What becomes of an input whose step is refused.
        on_refused: OnRefused,
    },
}

/// What becomes of an input that a transition guard refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnRefused {
    /// The default: the event would be lost otherwise.
    DeadLetter,
    /// The input counts as applied, its other changes are written, this change is dropped and counted.
    Ignore,
}

/// What a change does with its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Insert, or merge into the row that is there.
    Upsert,
    /// Merge into the row that is there; nothing where there is none.
    Update,
    /// Take the row away, or mark it (`soft`).
    Delete,
}

/// A column that the plugin may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// The column's name.
    pub name: String,
    /// How it merges. For key columns always [`Merge::Replace`], which never does anything.
    pub merge: Merge,
}

/// A target: the name that the plugin says, the table, the grant and the merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSpec {
    /// What the plugin calls it.
    pub name: String,
    /// The table.
    pub table: TableName,
    /// The columns that the plugin may write, in the grant's order; the key's are among them.
    pub columns: Vec<ColumnSpec>,
    /// The business key: indexes into `columns`.
    pub key: Vec<usize>,
    /// Which changes a row lets through.
    pub guard: Option<Guard>,
    /// The operations that the plugin may ask for.
    pub operations: BTreeSet<Operation>,
    /// A delete sets this column (boolean: true; timestamp: the transaction's time, kept if set) instead of removing
    /// the row, and an upsert or update clears it. Not among `columns`.
    pub soft_delete: Option<String>,
}
