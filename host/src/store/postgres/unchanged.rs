//! Whether targets' tables are still what they were when the consumer started. The server would round, cut or convert what no
//! longer fits a column in silence (a `numeric` with fewer digits, a `timestamptz(0)`), and the host checks values against
//! the columns that it knows.

use super::{
    super::{Statement, StoreError, error::TABLE_CHANGED},
    lane::Lane,
    sql,
    write::TargetSet,
};
use crate::merge::{Column, ColumnType, TableInfo, Target};

/// Names, types and lengths of all columns of these tables, as one text.
const DEFINITION: &str = "SELECT coalesce(string_agg(concat_ws(':', a.attrelid, a.attname, a.atttypid, a.atttypmod), ',' \
                          ORDER BY a.attrelid, a.attnum), '') FROM pg_attribute a \
                          WHERE a.attrelid IN (SELECT to_regclass(n)::oid FROM unnest($1::text[]) n) \
                          AND a.attnum > 0 AND NOT a.attisdropped";

impl Lane {
    /// Asked after rows were written and before they are committed: whoever alters a table waits for its writers, so what is
    /// found now is what was written to.
    ///
    /// # Errors
    /// Fatal, where a granted column no longer holds what it held.
    pub(super) async fn assert_unchanged(&mut self, set: &TargetSet) -> Result<(), StoreError> {
        let tables: Vec<String> = set.targets.iter().map(|target| sql::table(&target.table)).collect();
        let query = sqlx::query(DEFINITION).bind(tables);
        let rows = self.rows(Statement::Write, "look at the targets' columns", query).await?;
        let Some(row) = rows.first() else { return Ok(()) };
        let found: String = Self::get(row, 0, Statement::Write, "look at the targets' columns")?;
        if self.definition.as_ref() == Some(&found) {
            return Ok(());
        }
        // The first time on this connection, or something has changed, which need not be a granted column.
        for target in &set.targets {
            let info = self.table_info(&target.table).await?;
            if let Some(text) = changed(target, &info) {
                let context = format!("write target {}", target.spec.name);
                return Err(StoreError::fatal(Statement::Write, context, text));
            }
        }
        self.definition = Some(found);
        Ok(())
    }
}

/// Whether a column holds whatever it held before, exactly. Pure.
fn still_holds(before: &ColumnType, now: &ColumnType) -> bool {
    use ColumnType as C;
    match (before, now) {
        (C::Int(before), C::Int(now)) | (C::Float(before), C::Float(now)) => now >= before,
        (C::Numeric(_), C::Numeric(None)) | (C::Text(_), C::Text(None)) => true,
        (C::Numeric(Some((digits, scale))), C::Numeric(Some((now_digits, now_scale)))) => {
            let whole = |digits: &u16, scale: &i16| i32::from(*digits) - i32::from(*scale);
            now_scale >= scale && whole(now_digits, now_scale) >= whole(digits, scale)
        }
        (C::Text(Some(before)), C::Text(Some(now))) | (C::Char(before), C::Char(now)) => now >= before,
        (C::Timestamptz(before), C::Timestamptz(now))
        | (C::Timestamp(before), C::Timestamp(now))
        | (C::Time(before), C::Time(now)) => now >= before,
        (C::Enum(before), C::Enum(now)) => before.iter().all(|label| now.contains(label)),
        _ => before == now,
    }
}

/// Which column no longer holds what it held, in words. Pure.
fn changed(target: &Target, info: &TableInfo) -> Option<String> {
    let differs = |column: &&Column| {
        let now = info.column(&column.name);
        now.is_none_or(|now| !now.column_type.as_ref().is_ok_and(|now| still_holds(&column.column_type, now)))
    };
    let column = target.columns.iter().find(differs)?;
    let now = match info.column(&column.name) {
        Some(now) => match &now.column_type {
            Ok(now) => format!("is {now} now"),
            Err(now) => format!("is {now} now"),
        },
        None => "is gone".to_owned(),
    };
    Some(format!(
        "column {} of {} {now}, it was {}: nothing of the batch is committed; {TABLE_CHANGED}",
        column.name, target.table, column.column_type
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_may_grow_and_not_shrink() {
        use ColumnType as C;
        for (small, large) in [
            (C::Int(4), C::Int(8)),
            (C::Float(4), C::Float(8)),
            (C::Numeric(Some((18, 2))), C::Numeric(None)),
            (C::Numeric(Some((18, 2))), C::Numeric(Some((20, 4)))),
            (C::Text(Some(10)), C::Text(None)),
            (C::Text(Some(10)), C::Text(Some(11))),
            (C::Timestamptz(0), C::Timestamptz(6)),
            (C::Enum(vec!["a".into()]), C::Enum(vec!["b".into(), "a".into()])),
        ] {
            assert!(still_holds(&small, &large) && still_holds(&small, &small), "{small} to {large}");
            assert!(!still_holds(&large, &small), "{large} to {small}");
        }
        // More digits behind the point, and fewer before it.
        assert!(!still_holds(&C::Numeric(Some((18, 2))), &C::Numeric(Some((18, 4)))));
        assert!(!still_holds(&C::Timestamptz(6), &C::Timestamp(6)));
    }
}
