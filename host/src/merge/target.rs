//! A target after the catalog was asked: typed columns, and what its table allows.

use uuid::Uuid;

use super::{Operation, TargetSpec};

/// A column's type, as far as the host knows how to check and bind it. Others are refused at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// boolean
    Bool,
    /// smallint, integer, bigint: its width in bytes
    Int(u8),
    /// numeric(precision, scale)
    Numeric(Option<(u16, i16)>),
    /// real, double precision: its width in bytes
    Float(u8),
    /// text, varchar(n), char(n)
    Text(Option<u32>),
    /// bytea
    Bytes,
    /// timestamptz (SQLite: INTEGER microseconds)
    Timestamptz,
    /// timestamp without time zone
    Timestamp,
    /// date
    Date,
    /// time without time zone
    Time,
    /// uuid
    Uuid,
    /// json or jsonb
    Json {
        /// jsonb
        binary: bool,
    },
    /// an enum's labels in order
    Enum(Vec<String>),
}

/// A value that fits its column: checked, normal form, ready to bind, comparable within one column.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cell {
    /// SQL NULL.
    Null,
    /// boolean
    Bool(bool),
    /// any integer
    Int(i64),
    /// bits of a finite double, in an order-preserving form
    Float(u64),
    /// numeric, within the column's precision and scale
    Decimal(bigdecimal::BigDecimal),
    /// text, enum label, time
    Text(String),
    /// bytea
    Bytes(Vec<u8>),
    /// microseconds since the epoch
    Timestamp(i64),
    /// days since the epoch
    Date(i32),
    /// uuid
    Uuid(Uuid),
    /// a JSON text
    Json(String),
}

/// A target whose declaration was held against the catalog.
#[derive(Clone, Debug)]
pub struct Target {
    /// As declared.
    pub spec: TargetSpec,
    /// Types, in the order of `spec.columns`.
    pub types: Vec<ColumnType>,
    /// Whether the soft-delete column is a timestamp (else boolean).
    pub soft_is_timestamp: bool,
    /// Whether the table has nothing that could refuse or observe an intermediate row (Invariant 12).
    pub foldable: bool,
}

/// A change whose values fit their columns.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedChange {
    /// Index of the record in its batch.
    pub record: usize,
    /// Index among the consumer's targets.
    pub target: usize,
    /// What to do with the row.
    pub operation: Operation,
    /// As [`crate::outcome::Change::values`].
    pub cells: Vec<Cell>,
}
