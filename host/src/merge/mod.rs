//! How rows of a target merge: the second proof (idempotency). Pure: no I/O here.
//!
//! A plugin says *what* changed; how it merges with the row that is there is configuration, part of the idempotency
//! core, never the plugin's.

mod fault;
mod resolve;
mod spec;
mod table;
mod target;

pub use fault::{FaultKind, TargetFault};
pub use resolve::resolve;
pub use spec::{ColumnSpec, Guard, Merge, OnRefused, Operation, TableName, TargetSpec};
pub use table::{Collation, ColumnInfo, TableInfo, TableKind, UniqueIndex};
pub use target::{Cell, Column, ColumnType, SoftDelete, SoftKind, Target, TypedChange};
