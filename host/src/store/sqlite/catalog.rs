//! What SQLite's catalog says of a table.

use sqlx::{AssertSqlSafe, Row, SqliteConnection, sqlite::SqliteRow};

use super::{
    super::{Statement, StoreError},
    ddl,
    error::store_error,
    rows::column_type,
    statements::quoted,
};
use crate::merge::{Collation, ColumnInfo, TableInfo, TableKind, TableName, UniqueIndex};

struct Catalog<'a> {
    conn: &'a mut SqliteConnection,
    table: String,
}

impl Catalog<'_> {
    async fn rows(&mut self, sql: String) -> Result<Vec<SqliteRow>, StoreError> {
        sqlx::query(AssertSqlSafe(sql))
            .bind(&self.table)
            .fetch_all(&mut *self.conn)
            .await
            .map_err(|error| self.failed(error))
    }

    fn failed(&self, error: sqlx::Error) -> StoreError {
        store_error(Statement::Catalog, format!("read the catalog of table {}", self.table), error)
    }

    async fn names(&mut self, sql: &str) -> Result<Vec<String>, StoreError> {
        let rows = self.rows(sql.into()).await?;
        rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map_err(|error| self.failed(error))
    }
}

/// Asks for a table.
pub(super) async fn table_info(conn: &mut SqliteConnection, name: &TableName) -> Result<TableInfo, StoreError> {
    if name.schema.as_deref().is_some_and(|schema| !schema.eq_ignore_ascii_case("main")) {
        let what = "SQLite has no schemas; name the table alone";
        return Err(StoreError::fatal(Statement::Catalog, format!("table {name}"), what));
    }
    let mut catalog = Catalog { conn, table: name.name.clone() };
    let rows = catalog
        .rows(
            "SELECT name, type, strict FROM pragma_table_list WHERE schema = 'main' AND name = ? COLLATE NOCASE".into(),
        )
        .await?;
    let Some(row) = rows.first() else {
        return Err(StoreError::no_table(name, ""));
    };
    let head =
        || -> Result<(String, String, bool), sqlx::Error> { Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)) };
    let (spelled, kind, strict) = head().map_err(|error| catalog.failed(error))?;
    catalog.table = spelled;
    let sql = catalog.names("SELECT coalesce(sql, '') FROM main.sqlite_master WHERE name = ?").await?.concat();
    let kind = match kind.as_str() {
        "table" if !strict => TableKind::Other("a table without STRICT, in which any column takes any value".into()),
        "table" if ddl::defers(&sql) => TableKind::Other(
            "a table with a foreign key INITIALLY DEFERRED, which SQLite checks at COMMIT, when no record can be blamed"
                .into(),
        ),
        "table" => TableKind::Ordinary,
        other => TableKind::Other(format!("a {other}")),
    };
    let mut columns = columns(&mut catalog).await?;
    let unique = unique(&mut catalog, &columns, &sql).await?;
    // A column's collation shows in the indexes that its own UNIQUE or PRIMARY KEY made; where the text has none at
    // all it is BINARY; else it is taken for the worst.
    let plain = !ddl::collates(&sql);
    for column in &mut columns {
        let known =
            unique.iter().filter(|(_, own)| *own).flat_map(|(index, _)| &index.1).find(|(c, _)| *c == column.name);
        let bytes =
            plain || column.sql_type != "TEXT" || known.is_some_and(|(_, coll)| coll.eq_ignore_ascii_case("BINARY"));
        column.collation = if bytes { Collation::Bytes } else { Collation::Folding };
    }
    let references = catalog.names("SELECT DISTINCT \"table\" FROM pragma_foreign_key_list(?)").await?;
    let referenced = catalog
        .names(
            "SELECT m.name FROM main.sqlite_master m, pragma_foreign_key_list(m.name) f \
             WHERE m.type = 'table' AND f.\"table\" = ? COLLATE NOCASE LIMIT 1",
        )
        .await?;
    let triggers = catalog
        .names("SELECT name FROM main.sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE")
        .await?;
    let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
    let own = |name: String| TableName { schema: None, name };
    Ok(TableInfo {
        checks: ddl::checks(&sql, &names),
        table: own(catalog.table),
        kind,
        unique: unique.into_iter().map(|((index, _), _)| index).collect(),
        references: references.into_iter().map(own).collect(),
        referenced: !referenced.is_empty(),
        triggers,
        columns,
    })
}

async fn columns(catalog: &mut Catalog<'_>) -> Result<Vec<ColumnInfo>, StoreError> {
    let rows = catalog
        .rows("SELECT name, type, \"notnull\", dflt_value IS NOT NULL, pk, hidden FROM pragma_table_xinfo(?)".into())
        .await?;
    let keys = rows.iter().filter(|row| row.try_get::<i64, _>(4).is_ok_and(|pk| pk > 0)).count();
    let column = |row: &SqliteRow| -> Result<ColumnInfo, sqlx::Error> {
        let declared: String = row.try_get(1)?;
        let (in_key, hidden) = (row.try_get::<i64, _>(4)? > 0, row.try_get::<i64, _>(5)?);
        // INTEGER PRIMARY KEY is the row's number: never NULL, and made up where an insert leaves it out.
        let row_number = in_key && keys == 1 && declared.eq_ignore_ascii_case("INTEGER");
        Ok(ColumnInfo {
            name: row.try_get(0)?,
            column_type: column_type(&declared),
            sql_type: declared.to_ascii_uppercase(),
            nullable: !row.try_get::<bool, _>(2)? && !in_key,
            has_default: row.try_get::<bool, _>(3)? || row_number,
            generated: hidden == 2 || hidden == 3,
            identity_always: false,
            domain: false,
            collation: Collation::Bytes,
        })
    };
    rows.iter().map(column).collect::<Result<_, _>>().map_err(|error| catalog.failed(error))
}

/// An index with the collations of its columns, and whether a constraint of the table made it.
type Index = ((UniqueIndex, Vec<(String, String)>), bool);

async fn unique(catalog: &mut Catalog<'_>, columns: &[ColumnInfo], sql: &str) -> Result<Vec<Index>, StoreError> {
    let rows =
        catalog.rows("SELECT name, partial, origin FROM pragma_index_list(?) WHERE \"unique\" = 1".into()).await?;
    let mut found: Vec<Index> = Vec::new();
    let mut primary = false;
    for row in rows {
        let head = || -> Result<(String, bool, String), sqlx::Error> {
            Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))
        };
        let (name, partial, origin) = head().map_err(|error| catalog.failed(error))?;
        primary |= origin == "pk";
        // The table's name is bound and not asked for: pragma functions take the index's.
        let parts = catalog
            .rows(format!(
                "SELECT name, coll FROM pragma_index_xinfo({}) WHERE key = 1 AND ?1 IS NOT NULL",
                literal(&name)
            ))
            .await?;
        let part = |row: &SqliteRow| -> Result<(Option<String>, Option<String>), sqlx::Error> {
            Ok((row.try_get(0)?, row.try_get(1)?))
        };
        let parts: Vec<_> =
            parts.iter().map(part).collect::<Result<_, _>>().map_err(|error: sqlx::Error| catalog.failed(error))?;
        let binary = |coll: &Option<String>| coll.as_deref().is_none_or(|c| c.eq_ignore_ascii_case("BINARY"));
        let own = origin != "c";
        let complete = !partial
            && parts.iter().all(|(column, _)| column.is_some())
            && (own || parts.iter().all(|(_, coll)| binary(coll)) || ddl::collates(sql));
        let collations = parts.iter().filter_map(|(c, coll)| Some((c.clone()?, coll.clone()?))).collect();
        let columns = parts.into_iter().filter_map(|(column, _)| column).collect();
        let index = UniqueIndex { name, columns, immediate: true, valid: true, complete, exclusion: false };
        found.push(((index, collations), own));
    }
    if !primary {
        // INTEGER PRIMARY KEY has no index: the table itself is it.
        let rows = catalog.rows("SELECT name FROM pragma_table_xinfo(?) WHERE pk > 0".into()).await?;
        let key: Vec<String> =
            rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map_err(|error| catalog.failed(error))?;
        if !key.is_empty() && key.iter().all(|name| columns.iter().any(|c| c.name == *name)) {
            let index = UniqueIndex {
                name: "the primary key".into(),
                columns: key,
                immediate: true,
                valid: true,
                complete: true,
                exclusion: false,
            };
            found.push(((index, Vec::new()), true));
        }
    }
    Ok(found)
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A table's name as SQL, once the catalog has confirmed it.
pub(super) fn table_sql(table: &TableName) -> String {
    quoted(&table.name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::merge::{ColumnSpec, FaultKind, Guard, Merge, Operation, TargetSpec, resolve};

    async fn database(sql: &str) -> SqliteConnection {
        use sqlx::Connection as _;
        let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
        conn
    }

    async fn info(sql: &str) -> TableInfo {
        let mut conn = database(sql).await;
        table_info(&mut conn, &TableName { schema: None, name: "T".into() }).await.unwrap()
    }

    fn spec() -> TargetSpec {
        let column = |name: &str| ColumnSpec { name: name.into(), merge: Merge::Replace };
        TargetSpec {
            name: "t".into(),
            table: TableName { schema: None, name: "t".into() },
            columns: vec![column("id"), column("v")],
            key: vec![0],
            guard: None,
            operations: BTreeSet::from([Operation::Upsert]),
            soft_delete: None,
        }
    }

    async fn faults(sql: &str, spec: &TargetSpec) -> Vec<FaultKind> {
        match resolve(spec, &info(sql).await) {
            Ok(_) => Vec::new(),
            Err(faults) => faults.into_iter().map(|fault| fault.kind).collect(),
        }
    }

    #[tokio::test]
    async fn good_keys_are_found() {
        for sql in [
            "CREATE TABLE t (id TEXT PRIMARY KEY, v TEXT) STRICT",
            "CREATE TABLE t (id TEXT PRIMARY KEY, v TEXT) STRICT, WITHOUT ROWID",
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT) STRICT",
            "CREATE TABLE t (id TEXT NOT NULL UNIQUE, v TEXT) STRICT",
            "CREATE TABLE t (id TEXT NOT NULL, v TEXT) STRICT; CREATE UNIQUE INDEX i ON t (id)",
        ] {
            assert_eq!(faults(sql, &spec()).await, [], "{sql}");
        }
        let mut pair = spec();
        pair.key = vec![1, 0];
        let sql = "CREATE TABLE t (id TEXT, v TEXT, PRIMARY KEY (id, v)) STRICT";
        assert_eq!(faults(sql, &pair).await, []);
        assert!(faults(sql, &spec()).await.iter().any(|f| matches!(f, FaultKind::NoUniqueIndex { .. })));
    }

    #[tokio::test]
    async fn keys_that_let_duplicates_in_are_refused() {
        for (sql, expected) in [
            ("CREATE TABLE t (id TEXT UNIQUE, v TEXT) STRICT", "NullableKey"),
            ("CREATE TABLE t (id TEXT NOT NULL, v TEXT) STRICT", "NoUniqueIndex"),
            (
                "CREATE TABLE t (id TEXT NOT NULL, v TEXT) STRICT; CREATE UNIQUE INDEX i ON t (id) WHERE v > ''",
                "NoUniqueIndex",
            ),
            (
                "CREATE TABLE t (id TEXT NOT NULL, v TEXT) STRICT; CREATE UNIQUE INDEX i ON t (lower(id))",
                "NoUniqueIndex",
            ),
            (
                "CREATE TABLE t (id TEXT NOT NULL, v TEXT) STRICT; CREATE UNIQUE INDEX i ON t (id COLLATE NOCASE)",
                "NoUniqueIndex",
            ),
            ("CREATE TABLE t (id TEXT PRIMARY KEY COLLATE NOCASE, v TEXT) STRICT", "KeyCollation"),
            ("CREATE TABLE t (id TEXT PRIMARY KEY, v TEXT)", "Table"),
            ("CREATE TABLE b (id TEXT PRIMARY KEY, v TEXT) STRICT; CREATE VIEW t AS SELECT * FROM b", "Table"),
            ("CREATE TABLE t (id TEXT PRIMARY KEY, v TEXT AS (id) STORED) STRICT", "Generated"),
            ("CREATE TABLE t (id TEXT PRIMARY KEY, v ANY) STRICT", "Type"),
            ("CREATE TABLE t (id TEXT PRIMARY KEY, v TEXT, w TEXT NOT NULL) STRICT", "Required"),
        ] {
            let found = faults(sql, &spec()).await;
            assert!(found.iter().any(|f| format!("{f:?}").starts_with(expected)), "{sql}: {found:?}");
        }
    }

    #[tokio::test]
    async fn no_comparing_merge_on_decimals_kept_as_text() {
        let sql = "CREATE TABLE t (id TEXT PRIMARY KEY, v TEXT) STRICT";
        for merge in [Merge::Greatest, Merge::Least, Merge::Add] {
            let mut declared = spec();
            declared.columns[1].merge = merge;
            let found = faults(sql, &declared).await;
            assert!(matches!(found[..], [FaultKind::MergeType { .. }]), "{merge:?}: {found:?}");
        }
        let mut declared = spec();
        declared.guard = Some(Guard::NewerBy(1));
        assert!(matches!(faults(sql, &declared).await[..], [FaultKind::GuardType { .. }]));
    }

    #[tokio::test]
    async fn what_sees_a_row_is_listed() {
        let found = info(
            "CREATE TABLE p (id TEXT PRIMARY KEY) STRICT;
             CREATE TABLE t (id TEXT PRIMARY KEY, v INTEGER CHECK (v > 0), r TEXT REFERENCES p (id)) STRICT;
             CREATE TABLE c (id TEXT PRIMARY KEY REFERENCES t (id)) STRICT;
             CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END",
        )
        .await;
        assert_eq!(found.checks, [vec!["v".to_owned()]]);
        assert_eq!(found.references, [TableName { schema: None, name: "p".into() }]);
        assert!(found.referenced);
        assert_eq!(found.triggers, ["g"]);
        assert_eq!(found.table.name, "t", "as the catalog spells it");
    }
}
