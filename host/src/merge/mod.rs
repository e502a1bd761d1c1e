//! How rows of a target merge: the second proof (idempotency). Pure: no I/O here.
//!
//! A plugin says *what* changed; how it merges with the row that is there is configuration, part of the idempotency
//! core, never the plugin's.

mod spec;
mod target;

pub use spec::{ColumnSpec, Guard, Merge, OnRefused, Operation, TableName, TargetSpec};
pub use target::{Cell, ColumnType, Target, TypedChange};
