//! Columns of cells as array parameters: one array per column, borrowed from the changes.

use std::borrow::Cow;

use sqlx::{
    Postgres,
    postgres::{PgArguments, PgBindIterExt},
    query::Query,
};
use uuid::Uuid;

use super::instant::Instant;
use crate::merge::{Cell, ColumnType, date_text};

/// How a column's values travel: the array's element type. Everything else is text and cast in the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Bool,
    Int,
    Float,
    Bytes,
    Instant,
    Uuid,
    Text,
}

impl Wire {
    pub(super) fn of(column_type: &ColumnType) -> Self {
        match column_type {
            ColumnType::Bool => Self::Bool,
            ColumnType::Int(_) | ColumnType::LooseInteger => Self::Int,
            ColumnType::Float(_) => Self::Float,
            ColumnType::Bytes => Self::Bytes,
            ColumnType::Timestamptz(_) | ColumnType::Timestamp(_) => Self::Instant,
            ColumnType::Uuid => Self::Uuid,
            ColumnType::Numeric(_)
            | ColumnType::Text(_)
            | ColumnType::Char(_)
            | ColumnType::Date
            | ColumnType::Time(_)
            | ColumnType::Json { .. }
            | ColumnType::Enum(_)
            | ColumnType::LooseText => Self::Text,
        }
    }

    /// The element type's name.
    pub(super) fn sql(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int => "int8",
            Self::Float => "float8",
            Self::Bytes => "bytea",
            Self::Instant => "timestamptz",
            Self::Uuid => "uuid",
            Self::Text => "text",
        }
    }
}

pub(super) type PgQuery<'q> = Query<'q, Postgres, PgArguments>;

/// Binds one column of cells as an array, written straight into the message. A cell of another kind than the column's
/// would be a defect of the host; it goes as NULL and never as something else.
pub(super) fn bind<'q, 'c>(query: PgQuery<'q>, wire: Wire, cells: impl Iterator<Item = &'c Cell>) -> PgQuery<'q> {
    macro_rules! array {
        ($type:ty, $($cell:pat => $value:expr),+) => {
            query.bind(cells.map(|cell| -> Option<$type> { match cell { $($cell => Some($value),)+ _ => None } }).bind_iter())
        };
    }
    match wire {
        Wire::Bool => array!(bool, Cell::Bool(b) => *b),
        Wire::Int => array!(i64, Cell::Int(i) => *i),
        Wire::Float => array!(f64, Cell::Float(bits) => Cell::float_value(*bits)),
        Wire::Bytes => array!(&[u8], Cell::Bytes(b) => b.as_slice()),
        Wire::Instant => array!(Instant, Cell::Timestamp(t) => Instant(*t)),
        Wire::Uuid => array!(Uuid, Cell::Uuid(u) => *u),
        Wire::Text => array!(Cow<'_, str>,
            Cell::Text(t) | Cell::Json(t) => Cow::Borrowed(t.as_str()),
            Cell::Decimal(d) => Cow::Owned(d.to_plain_string()),
            Cell::Date(days) => Cow::Owned(date_text(*days))),
    }
}
