//! Rows read for folding, and the rows that come of it.

use sqlx::{Row as _, SqlStr, postgres::PgRow};
use uuid::Uuid;

use super::{
    super::StoreError,
    array::{PgQuery, Wire, bind},
    instant::Instant,
    sql::TargetSql,
};
use crate::merge::{Cell, Folded, KeyChanges, Mark, Operation, Row, Target, read_text};

/// Whether the changes of a key may become one write (Invariant 12): of one target, whose catalog allows it, and
/// without a hard delete between.
pub(super) fn may_fold(targets: &[Target], key: &KeyChanges<'_>) -> bool {
    let first = key.changes[0].target;
    let target = &targets[first];
    target.foldable
        && key.changes.iter().all(|c| c.target == first && (c.operation != Operation::Delete || target.soft.is_some()))
}

/// A row as [`TargetSql::read`] gives it; `None` where it holds what the host does not work with (infinity, NaN, a date
/// before Christ).
pub(super) fn read_row(target: &Target, sql: &TargetSql, row: &PgRow) -> Option<Row> {
    let marked: bool = row.try_get(1).ok()?;
    let mut cells = Vec::with_capacity(sql.wires.len());
    for (i, wire) in sql.wires.iter().enumerate() {
        let at = i + 2;
        let cell = match wire {
            Wire::Bool => row.try_get::<Option<bool>, _>(at).ok()?.map(Cell::Bool),
            Wire::Int => row.try_get::<Option<i64>, _>(at).ok()?.map(Cell::Int),
            Wire::Float => match row.try_get::<Option<f64>, _>(at).ok()? {
                Some(float) if !float.is_finite() => return None,
                float => float.map(Cell::float),
            },
            Wire::Bytes => row.try_get::<Option<Vec<u8>>, _>(at).ok()?.map(Cell::Bytes),
            Wire::Instant => match row.try_get::<Option<Instant>, _>(at).ok()? {
                Some(Instant(i64::MIN | i64::MAX)) => return None,
                instant => instant.map(|Instant(micros)| Cell::Timestamp(micros)),
            },
            Wire::Uuid => row.try_get::<Option<Uuid>, _>(at).ok()?.map(Cell::Uuid),
            Wire::Text => match row.try_get::<Option<String>, _>(at).ok()? {
                Some(text) => Some(read_text(&target.columns[i], text)?),
                None => None,
            },
        };
        cells.push(cell.unwrap_or(Cell::Null));
    }
    Some(Row { cells, mark: if marked { Mark::Deleted } else { Mark::There } })
}

/// Binds folded rows to [`TargetSql::replace`].
///
/// # Errors
/// As [`bind`].
pub(super) fn replace_query<'q>(
    statement: &SqlStr,
    target: &Target,
    folded: &[Folded],
) -> Result<PgQuery<'q>, StoreError> {
    let mut query = sqlx::query(statement.clone());
    for column in 0..target.columns.len() {
        query = bind(query, target, column, folded.iter().map(|f| &f.row.cells[column]))?;
    }
    let mark = |mark: Mark| match mark {
        Mark::There => 0_i64,
        Mark::Deleted => 1,
        Mark::DeletedNow => 2,
    };
    Ok(query.bind(folded.iter().map(|f| mark(f.row.mark)).collect::<Vec<_>>()))
}
