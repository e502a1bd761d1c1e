//! Columns of cells as array parameters: one array per column, borrowed from the changes.

use std::borrow::Cow;

use sqlx::{
    Postgres,
    postgres::{PgArguments, PgBindIterExt},
    query::Query,
};
use uuid::Uuid;

use super::{
    super::{Statement, StoreError},
    instant::Instant,
};
use crate::merge::{Cell, ColumnType, Target, date_text, plain_digits};

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

/// Binds the cells of a target's column (an index into its columns) as an array, written straight into the message.
///
/// # Errors
/// Fatal, for a cell of another kind than the column's: a defect of the host, and to go on without the value would lose
/// data in silence.
pub(super) fn bind<'q, 'c>(
    query: PgQuery<'q>,
    target: &Target,
    column: usize,
    cells: impl Iterator<Item = &'c Cell>,
) -> Result<PgQuery<'q>, StoreError> {
    let mut misfit = false;
    macro_rules! array {
        ($type:ty, $($cell:pat => $value:expr),+) => {
            query.bind(cells.map(|cell| -> Option<$type> {
                match cell {
                    $($cell => Some($value),)+
                    Cell::Null => None,
                    _ => {
                        misfit = true;
                        None
                    }
                }
            }).bind_iter())
        };
    }
    let wire = Wire::of(&target.columns[column].column_type);
    let query = match wire {
        Wire::Bool => array!(bool, Cell::Bool(b) => *b),
        Wire::Int => array!(i64, Cell::Int(i) => *i),
        Wire::Float => array!(f64, Cell::Float(bits) => Cell::float_value(*bits)),
        Wire::Bytes => array!(&[u8], Cell::Bytes(b) => b.as_slice()),
        Wire::Instant => array!(Instant, Cell::Timestamp(t) => Instant(*t)),
        Wire::Uuid => array!(Uuid, Cell::Uuid(u) => *u),
        Wire::Text => array!(Cow<'_, str>,
            Cell::Text(t) | Cell::Json(t) => Cow::Borrowed(t.as_str()),
            Cell::Decimal(d) => Cow::Owned(plain_digits(d)),
            Cell::Date(days) => Cow::Owned(date_text(*days))),
    };
    if misfit {
        let name = &target.columns[column].name;
        let text = format!(
            "column {name}: a value of another kind than {} came to be sent; this is a defect of the host",
            wire.sql()
        );
        return Err(StoreError::fatal(Statement::Write, format!("send values to target {}", target.spec.name), text));
    }
    Ok(query)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::{
        class::Class,
        merge::{
            Merge, resolve,
            testing::{info, spec},
        },
    };

    #[test]
    fn no_cell_becomes_null_because_it_does_not_fit() {
        let target = resolve(&spec(&[Merge::Replace], None), &info(&[ColumnType::Int(8)])).unwrap();
        let send = |cells: &[Cell]| bind(sqlx::query("SELECT 1"), &target, 1, cells.iter()).map(drop);
        send(&[Cell::Int(1), Cell::Null]).unwrap();
        let error = send(&[Cell::Int(1), Cell::Bool(true), Cell::Int(2)]).unwrap_err();
        assert_eq!(error.class(), Class::Fatal);
        let text = error.to_string();
        assert!(text.contains(&target.spec.name) && text.contains(&target.columns[1].name), "{text}");
    }
}
