//! How rows of a target merge: the second proof (idempotency). Pure: no I/O here.
//!
//! A plugin says *what* changed; how it merges with the row that is there is configuration, part of the idempotency
//! core, never the plugin's. A declaration ([`TargetSpec`]) meets the catalog ([`TableInfo`]) in [`resolve`]; values
//! meet columns in [`type_change`]; changes become statements in [`Layout::plan`] and [`wave`], several of one row one
//! write in [`combine()`] or [`fold()`]; steps between states are judged by [`Transitions`]. [`model`] says what all of it must come to.

mod classify;
mod combine;
mod fault;
mod fit;
mod fold;
mod instant;
pub mod model;
mod number;
mod own;
#[cfg(test)]
mod property;
mod resolve;
mod share;
mod spec;
mod table;
mod target;
#[cfg(test)]
pub(crate) mod testing;
mod transition;
mod waves;

pub use classify::{TargetClass, classify};
pub use combine::{Combined, combine};
pub use fault::{FaultKind, TargetFault};
pub use fit::{BAD_VALUE, read_text, type_change};
pub use fold::{Folded, Mark, Row, fold};
pub(crate) use instant::date_text;
pub(crate) use number::plain_digits;
pub use own::is_own_table;
pub use resolve::resolve;
pub use share::{check_together, table_ranks};
pub use spec::{ColumnSpec, Guard, Merge, OnRefused, Operation, TableName, TargetSpec};
pub use table::{Collation, ColumnInfo, TableInfo, TableKind, UniqueIndex};
pub use target::{Cell, Column, ColumnType, SoftDelete, SoftKind, Target, TypedChange};
pub use transition::{Decision, TRANSITION_REFUSED, Transitions};
pub use waves::{KeyChanges, Layout, Plan, Statement, TableChanges, wave};
