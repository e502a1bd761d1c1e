//! Writing target rows: in record order, neighbours of one target in one statement. SQLite takes the rows of a
//! statement one after the other, so several changes of one key need no waves.

use sqlx::{Arguments, AssertSqlSafe, SqliteConnection, sqlite::SqliteArguments};

use super::{
    super::{RowKey, Statement, StoreError, Written},
    error::store_error,
    statements::TargetSql,
};
use crate::{
    fail_point::{FailPoint, reach},
    merge::{Cell, ColumnType, Operation, Target, TypedChange, plain_digits},
};

/// Rows of one statement at most: enough to make the trip to the connection's thread cheap.
const ROWS: usize = 64;

/// The statements of a consumer's targets, kept as long as the targets are the same.
#[derive(Debug, Default)]
pub(super) struct Writer {
    targets: Vec<(Target, TargetSql)>,
}

impl Writer {
    fn prepare(&mut self, targets: &[Target]) {
        let known = self.targets.iter().map(|(known, _)| known);
        if !known.eq(targets) {
            self.targets = targets.iter().map(|target| (target.clone(), TargetSql::new(target))).collect();
        }
    }

    /// The statements of a target, where the last write had it.
    fn kept(&self, target: &Target) -> Option<&TargetSql> {
        self.targets.iter().find(|(known, _)| known == target).map(|(_, sql)| sql)
    }

    /// Writes changes, which stand in record order.
    pub(super) async fn write(
        &mut self,
        conn: &mut SqliteConnection,
        targets: &[Target],
        changes: &[&TypedChange],
        now_us: i64,
    ) -> Result<Written, StoreError> {
        self.prepare(targets);
        let mut written = Written::default();
        let mut rest = changes;
        while let Some(first) = rest.first() {
            let (target, sql) = &self.targets[first.target];
            let upserts = |change: &&TypedChange| {
                change.target == first.target
                    && change.operation == Operation::Upsert
                    && first.operation == Operation::Upsert
            };
            let together = rest.iter().take_while(|change| upserts(change)).count().clamp(1, ROWS);
            // Powers of two, so that few statements are enough for all lengths.
            let count = if together > 1 { 1 << together.ilog2() } else { 1 };
            let (now, later) = rest.split_at(count);
            rest = later;
            match first.operation {
                Operation::Upsert => upsert(conn, target, sql, now, &mut written).await?,
                Operation::Update | Operation::Delete => one(conn, target, sql, first, now_us, &mut written).await?,
            }
            reach(FailPoint::TargetWritten);
        }
        Ok(written)
    }

    /// Reads the state column of these rows. The transaction has the only write lock there is.
    pub(super) async fn states(
        &self,
        conn: &mut SqliteConnection,
        target: &Target,
        keys: &[RowKey],
    ) -> Result<Vec<(RowKey, Cell)>, StoreError> {
        // Not kept before the first write, which brings all targets.
        let state = match self.kept(target) {
            Some(sql) => sql.state.clone(),
            None => TargetSql::new(target).state,
        };
        let Some(state) = state else { return Ok(Vec::new()) };
        let context = || format!("read states of {}", target.table);
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let args = bound(key.iter()).map_err(|error| store_error(Statement::Lock, context(), error))?;
            let row: Option<Option<String>> = sqlx::query_scalar_with(AssertSqlSafe(state.clone()), args)
                .fetch_optional(&mut *conn)
                .await
                .map_err(|error| store_error(Statement::Lock, context(), error))?;
            if let Some(state) = row {
                found.push((key.clone(), state.map_or(Cell::Null, Cell::Text)));
            }
        }
        Ok(found)
    }
}

fn failed(target: &Target, error: sqlx::Error) -> StoreError {
    store_error(Statement::Write, format!("write to {}", target.table), error)
}

async fn upsert(
    conn: &mut SqliteConnection,
    target: &Target,
    sql: &TargetSql,
    changes: &[&TypedChange],
    written: &mut Written,
) -> Result<(), StoreError> {
    let rows = vec![sql.row.as_str(); changes.len()].join(", ");
    let text = format!("{}{rows}{}", sql.insert, sql.on_conflict);
    let args = bound(changes.iter().flat_map(|change| &change.cells)).map_err(|error| failed(target, error))?;
    let done =
        sqlx::query_with(AssertSqlSafe(text), args).execute(conn).await.map_err(|error| failed(target, error))?;
    if sql.versioned {
        // A newer version always changes the row, so a row that stays unwritten was refused.
        written.stale += (changes.len() as u64).saturating_sub(done.rows_affected());
    }
    Ok(())
}

async fn one(
    conn: &mut SqliteConnection,
    target: &Target,
    sql: &TargetSql,
    change: &TypedChange,
    now_us: i64,
    written: &mut Written,
) -> Result<(), StoreError> {
    let mut args = bound(change.cells.iter()).map_err(|error| failed(target, error))?;
    let text = if change.operation == Operation::Delete {
        if sql.delete_binds_now {
            args.add(now_us).map_err(|error| failed(target, sqlx::Error::Encode(error)))?;
        }
        sql.delete.clone()
    } else {
        sql.update.clone()
    };
    let done =
        sqlx::query_with(AssertSqlSafe(text), args).execute(&mut *conn).await.map_err(|error| failed(target, error))?;
    if done.rows_affected() > 0 {
        return Ok(());
    }
    let key = change.key(target);
    let args = bound(key.iter()).map_err(|error| failed(target, error))?;
    let there = sqlx::query_with(AssertSqlSafe(sql.exists.clone()), args)
        .fetch_optional(conn)
        .await
        .map_err(|error| failed(target, error))?;
    match there {
        None => written.missing += 1,
        Some(_) if sql.versioned => written.stale += 1,
        Some(_) => {}
    }
    Ok(())
}

/// Binds cells as SQLite's four types.
fn bound<'a>(cells: impl Iterator<Item = &'a Cell>) -> Result<SqliteArguments, sqlx::Error> {
    let mut args = SqliteArguments::default();
    for cell in cells {
        let added = match cell {
            Cell::Null => args.add(None::<i64>),
            Cell::Bool(value) => args.add(i64::from(*value)),
            Cell::Int(value) | Cell::Timestamp(value) => args.add(*value),
            Cell::Date(value) => args.add(i64::from(*value)),
            Cell::Float(bits) => args.add(Cell::float_value(*bits)),
            Cell::Decimal(value) => args.add(plain_digits(value)),
            Cell::Text(value) | Cell::Json(value) => args.add(value.clone()),
            Cell::Bytes(value) => args.add(value.clone()),
            Cell::Uuid(value) => args.add(value.to_string()),
        };
        added.map_err(sqlx::Error::Encode)?;
    }
    Ok(args)
}

/// SQLite's storage types under STRICT.
pub(super) fn column_type(declared: &str) -> Result<ColumnType, String> {
    match declared.to_ascii_uppercase().as_str() {
        "INT" | "INTEGER" => Ok(ColumnType::LooseInteger),
        "TEXT" => Ok(ColumnType::LooseText),
        "REAL" => Ok(ColumnType::Float(8)),
        "BLOB" => Ok(ColumnType::Bytes),
        other => Err(other.to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::merge::{
        Merge, resolve,
        testing::{info, spec, transition},
    };

    #[test]
    fn statements_are_kept_as_long_as_the_targets_stay() {
        let guard = transition(1, &["new"], [("new".into(), "paid".into())].into());
        let target = |guard| resolve(&spec(&[Merge::Replace], guard), &info(&[ColumnType::LooseText])).unwrap();
        let (guarded, plain) = (target(Some(guard)), target(None));
        let mut writer = Writer::default();
        assert!(writer.kept(&guarded).is_none());
        writer.prepare(&[plain.clone(), guarded.clone()]);
        let state = writer.kept(&guarded).unwrap().state.clone().unwrap();
        writer.prepare(&[plain.clone(), guarded.clone()]);
        let again = writer.kept(&guarded).unwrap().state.clone().unwrap();
        assert!(std::sync::Arc::ptr_eq(&state, &again), "made once");
        writer.prepare(std::slice::from_ref(&plain));
        assert!(writer.kept(&guarded).is_none());
    }
}
