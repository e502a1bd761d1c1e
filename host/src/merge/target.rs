//! A target after the catalog was asked: typed columns, and what its table allows.

use uuid::Uuid;

use super::{Operation, TableName, TargetSpec};

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
    /// text, varchar(n)
    Text(Option<u32>),
    /// char(n): trailing blanks do not count
    Char(u32),
    /// bytea; SQLite's BLOB
    Bytes,
    /// timestamptz(digits of the second's fraction)
    Timestamptz(u8),
    /// timestamp(digits) without time zone; holds UTC
    Timestamp(u8),
    /// date
    Date,
    /// time(digits) without time zone
    Time(u8),
    /// uuid
    Uuid,
    /// json or jsonb
    Json {
        /// jsonb
        binary: bool,
    },
    /// an enum's labels in order
    Enum(Vec<String>),
    /// SQLite's INTEGER: an integer, a boolean as 0 or 1, an instant as microseconds since the epoch
    LooseInteger,
    /// SQLite's TEXT: text (also uuid, date), decimals as digits, JSON
    LooseText,
}

/// A value that fits its column: checked, normal form, ready to bind, comparable within one column.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cell {
    /// SQL NULL.
    Null,
    /// boolean
    Bool(bool),
    /// any integer; everything in a [`ColumnType::LooseInteger`]
    Int(i64),
    /// bits of a finite double, in an order-preserving form: see [`Cell::float`]
    Float(u64),
    /// numeric, within the column's precision and scale
    Decimal(bigdecimal::BigDecimal),
    /// text, enum label, time; everything in a [`ColumnType::LooseText`]
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

impl Cell {
    /// A finite double. Minus zero becomes zero, as the database takes them for equal.
    #[must_use]
    pub fn float(value: f64) -> Self {
        let bits = (value + 0.0).to_bits();
        Self::Float(if bits >> 63 == 1 { !bits } else { bits | 1 << 63 })
    }

    /// The double behind a [`Cell::Float`]'s bits.
    #[must_use]
    pub fn float_value(bits: u64) -> f64 {
        f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits })
    }

    /// Whether it is SQL NULL.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

/// A granted column, held against the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name, as the catalog spells it.
    pub name: String,
    /// What fits in.
    pub column_type: ColumnType,
    /// The type's name for a cast: see [`super::ColumnInfo::sql_type`].
    pub sql_type: String,
    /// Whether it takes NULL.
    pub nullable: bool,
    /// Whether the host orders its values as the database does.
    pub host_compares: bool,
}

/// What marks a row as deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoftDelete {
    /// The column's name, as the catalog spells it.
    pub column: String,
    /// How it marks.
    pub kind: SoftKind,
}

/// How a soft-delete column marks a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoftKind {
    /// true = deleted, false = there. SQLite: a NOT NULL INTEGER, 1 and 0.
    Boolean,
    /// When it was deleted, NULL = there. SQLite: a nullable INTEGER, microseconds since the epoch.
    Timestamp,
}

/// A target whose declaration was held against the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As declared.
    pub spec: TargetSpec,
    /// The table, as the catalog spells it.
    pub table: TableName,
    /// In the order of `spec.columns`.
    pub columns: Vec<Column>,
    /// Where a delete marks instead of removing.
    pub soft: Option<SoftDelete>,
    /// Tables that rows of this one refer to: they are written first.
    pub references: Vec<TableName>,
    /// Whether nothing could refuse or observe an intermediate row, and the host merges and compares every column as
    /// the database does (Invariant 12).
    pub foldable: bool,
}

impl Target {
    /// Whether a delete that meets no row inserts one that is marked deleted, so that an older upsert that comes later
    /// is refused: under a guard, where rows are inserted at all.
    #[must_use]
    pub fn leaves_tombstones(&self) -> bool {
        self.spec.guard.is_some() && self.soft.is_some() && self.spec.operations.contains(&Operation::Upsert)
    }
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

impl TypedChange {
    /// The key's cells, in key order.
    #[must_use]
    pub fn key(&self, target: &Target) -> Vec<Cell> {
        match self.operation {
            Operation::Delete => self.cells[..target.spec.key.len()].to_vec(),
            _ => target.spec.key.iter().map(|&i| self.cells[i].clone()).collect(),
        }
    }
}
