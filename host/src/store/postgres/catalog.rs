//! What PostgreSQL's catalog says of a table.

use sqlx::{Row as _, postgres::PgRow};

use super::{
    super::{Statement, StoreError},
    lane::Lane,
    sql,
};
use crate::merge::{Collation, ColumnInfo, ColumnType, TableInfo, TableKind, TableName, UniqueIndex};

const CONTEXT: &str = "read the catalog";

/// The table and all its partitions: what hangs on a partition sees its rows too.
const TREE: &str =
    "WITH tree AS (SELECT $1::oid AS oid UNION SELECT relid::oid FROM pg_partition_tree($1::oid::regclass)) ";

impl Lane {
    /// See [`super::super::Store::table_info`].
    pub(super) async fn table_info(&mut self, name: &TableName) -> Result<TableInfo, StoreError> {
        let query = sqlx::query(
            "SELECT c.oid::int8, n.nspname::text, c.relname::text, c.relkind::text, c.relpersistence::text, \
             c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid), c.relrowsecurity, \
             EXISTS (SELECT FROM pg_partition_tree(c.oid::regclass) p JOIN pg_class l ON l.oid = p.relid \
             WHERE l.relpersistence <> 'p' OR l.relkind = 'f') \
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)",
        )
        .bind(sql::table(name));
        let rows = self.rows(Statement::Catalog, CONTEXT, query).await?;
        let Some(row) = rows.first() else {
            return match self.hidden_schema(&name.name).await? {
                Some((schema, role)) => {
                    let text = format!(
                        "it lies in schema {schema}, which this role may not use: GRANT USAGE ON SCHEMA {schema} TO {role}"
                    );
                    Err(StoreError::no_right(Statement::Catalog, format!("table {name}"), text))
                }
                None => Err(StoreError::no_table(name, " (names are case-sensitive here)")),
            };
        };
        let oid: i64 = get(row, 0)?;
        let kind = table_kind(get(row, 3)?, get(row, 4)?, get(row, 5)?, get(row, 7)?);
        let table = TableName { schema: Some(get(row, 1)?), name: get(row, 2)? };
        // The server cuts names that are too long, and would find another table.
        if table.name != name.name {
            return Err(StoreError::no_table(name, " (names have at most 63 bytes)"));
        }
        let mut triggers = self.triggers(oid).await?;
        if get(row, 6)? {
            triggers.push("row-level security".into());
        }
        let (references, referenced) = self.references(oid).await?;
        Ok(TableInfo {
            columns: self.columns(oid).await?,
            unique: self.unique(oid).await?,
            checks: self.checks(oid).await?,
            table,
            kind,
            references,
            referenced,
            triggers,
        })
    }

    async fn ask(&mut self, sql: &'static str, oid: i64) -> Result<Vec<PgRow>, StoreError> {
        self.rows(Statement::Catalog, CONTEXT, sqlx::query(sql).bind(oid)).await
    }

    async fn ask_tree(&mut self, sql: &str, oid: i64) -> Result<Vec<PgRow>, StoreError> {
        let query = sqlx::query(super::lane::safe(format!("{TREE}{sql}"))).bind(oid);
        self.rows(Statement::Catalog, CONTEXT, query).await
    }

    async fn columns(&mut self, oid: i64) -> Result<Vec<ColumnInfo>, StoreError> {
        // A domain stands for its base type, at any depth; the innermost length or scale is the one that holds.
        let rows = self
            .ask(
                "WITH RECURSIVE base AS ( \
                   SELECT a.attnum, a.atttypid AS typid, a.atttypmod AS typmod, false AS is_domain, false AS not_null, false AS has_default \
                   FROM pg_attribute a WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped \
                   UNION ALL \
                   SELECT b.attnum, t.typbasetype, CASE WHEN b.typmod = -1 THEN t.typtypmod ELSE b.typmod END, true, \
                   b.not_null OR t.typnotnull, b.has_default OR t.typdefault IS NOT NULL \
                   FROM base b JOIN pg_type t ON t.oid = b.typid WHERE t.typtype = 'd') \
                 SELECT a.attname::text, t.typname::text, n.nspname::text, t.typtype::text, b.typmod, \
                 format_type(t.oid, -1), NOT (a.attnotnull OR b.not_null), \
                 a.atthasdef OR a.attidentity <> '' OR b.has_default, a.attgenerated <> '', a.attidentity = 'a', b.is_domain, \
                 CASE WHEN a.attcollation = 0 THEN 'bytes' \
                      WHEN NOT l.collisdeterministic THEN 'folding' \
                      WHEN current_setting('server_encoding') <> 'UTF8' THEN 'language' \
                      WHEN l.collprovider = 'c' AND l.collcollate IN ('C', 'POSIX') THEN 'bytes' \
                      WHEN l.collprovider = 'd' AND d.datcollate IN ('C', 'POSIX') \
                           AND coalesce(to_jsonb(d) ->> 'datlocprovider', 'c') = 'c' THEN 'bytes' \
                      ELSE 'language' END, \
                 ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder) \
                 FROM base b JOIN pg_attribute a ON a.attrelid = $1::oid AND a.attnum = b.attnum \
                 JOIN pg_type t ON t.oid = b.typid JOIN pg_namespace n ON n.oid = t.typnamespace \
                 LEFT JOIN pg_collation l ON l.oid = a.attcollation \
                 JOIN pg_database d ON d.datname = current_database() \
                 WHERE t.typtype <> 'd' ORDER BY a.attnum",
                oid,
            )
            .await?;
        rows.iter()
            .map(|row| {
                let (name, namespace, kind): (String, String, String) = (get(row, 1)?, get(row, 2)?, get(row, 3)?);
                let sql_type: String = get(row, 5)?;
                let found = match (namespace.as_str(), kind.as_str()) {
                    (_, "e") => Some(ColumnType::Enum(get(row, 12)?)),
                    ("pg_catalog", _) => column_type(&name, get(row, 4)?),
                    _ => None,
                };
                Ok(ColumnInfo {
                    name: get(row, 0)?,
                    column_type: found.ok_or_else(|| sql_type.clone()),
                    sql_type,
                    nullable: get(row, 6)?,
                    has_default: get(row, 7)?,
                    generated: get(row, 8)?,
                    identity_always: get(row, 9)?,
                    domain: get(row, 10)?,
                    collation: match get::<String>(row, 11)?.as_str() {
                        "bytes" => Collation::Bytes,
                        "folding" => Collation::Folding,
                        _ => Collation::Language,
                    },
                })
            })
            .collect()
    }

    async fn unique(&mut self, oid: i64) -> Result<Vec<UniqueIndex>, StoreError> {
        // The table's own, and what single partitions have on top of their share of those.
        let rows = self
            .ask_tree(
                "SELECT c.relname::text, i.indimmediate, i.indisvalid AND i.indisready AND i.indislive, \
                 i.indpred IS NULL AND i.indexprs IS NULL AND i.indrelid = $1::oid AND NOT EXISTS ( \
                   SELECT FROM unnest(i.indkey::int[], i.indcollation::oid[]) k(attnum, coll) \
                   JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum \
                   WHERE k.coll IS NOT NULL AND k.coll <> a.attcollation), \
                 i.indisexclusion, \
                 ARRAY(SELECT a.attname::text FROM generate_series(0, i.indnkeyatts - 1) k \
                   JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[k] ORDER BY k) \
                 FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
                 WHERE i.indrelid IN (SELECT oid FROM tree) AND (i.indisunique OR i.indisexclusion) \
                 AND (i.indrelid = $1::oid OR NOT EXISTS (SELECT FROM pg_inherits h WHERE h.inhrelid = i.indexrelid)) \
                 ORDER BY i.indrelid <> $1::oid, c.relname",
                oid,
            )
            .await?;
        rows.iter()
            .map(|row| {
                Ok(UniqueIndex {
                    name: get(row, 0)?,
                    immediate: get(row, 1)?,
                    valid: get(row, 2)?,
                    complete: get(row, 3)?,
                    exclusion: get(row, 4)?,
                    columns: get(row, 5)?,
                })
            })
            .collect()
    }

    async fn checks(&mut self, oid: i64) -> Result<Vec<Vec<String>>, StoreError> {
        let rows = self
            .ask_tree(
                "SELECT ARRAY(SELECT a.attname::text FROM pg_attribute a \
                 WHERE a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey) ORDER BY a.attnum) \
                 FROM pg_constraint k WHERE k.conrelid IN (SELECT oid FROM tree) AND k.contype = 'c' ORDER BY k.conname",
                oid,
            )
            .await?;
        rows.iter().map(|row| get(row, 0)).collect()
    }

    async fn references(&mut self, oid: i64) -> Result<(Vec<TableName>, bool), StoreError> {
        let rows = self
            .ask_tree(
                "SELECT DISTINCT n.nspname::text, c.relname::text, k.confrelid IN (SELECT oid FROM tree) \
                 AND k.conrelid <> ALL (ARRAY(SELECT oid FROM tree)) \
                 FROM pg_constraint k JOIN pg_class c ON c.oid = k.confrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
                 WHERE k.contype = 'f' AND (k.conrelid IN (SELECT oid FROM tree) OR k.confrelid IN (SELECT oid FROM tree)) \
                 ORDER BY 1, 2",
                oid,
            )
            .await?;
        let mut references = Vec::new();
        let mut referenced = false;
        for row in &rows {
            if get(row, 2)? {
                referenced = true;
            } else {
                references.push(TableName { schema: Some(get(row, 0)?), name: get(row, 1)? });
            }
        }
        Ok((references, referenced))
    }

    async fn triggers(&mut self, oid: i64) -> Result<Vec<String>, StoreError> {
        let rows = self
            .ask_tree(
                "SELECT tgname::text FROM pg_trigger WHERE tgrelid IN (SELECT oid FROM tree) AND NOT tgisinternal \
                 AND tgenabled <> 'D' \
                 UNION SELECT rulename::text FROM pg_rewrite WHERE ev_class IN (SELECT oid FROM tree) AND rulename <> '_RETURN' \
                 ORDER BY 1",
                oid,
            )
            .await?;
        rows.iter().map(|row| get(row, 0)).collect()
    }
}

fn get<'r, T>(row: &'r PgRow, at: usize) -> Result<T, StoreError>
where
    T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    row.try_get(at).map_err(|error| StoreError::fatal(Statement::Catalog, CONTEXT, error.to_string()))
}

fn table_kind(kind: String, persistence: String, has_children: bool, odd_partition: bool) -> TableKind {
    let other = |what: &str| TableKind::Other(what.into());
    match (kind.as_str(), persistence.as_str()) {
        (_, "t") => other("a temporary table"),
        (_, "u") => other("an unlogged table, which a crash empties"),
        ("r", _) if has_children => other("a table that others inherit from, which no unique index spans"),
        ("p", _) if odd_partition => other("a partitioned table with an unlogged or foreign partition"),
        ("r", _) => TableKind::Ordinary,
        ("p", _) => TableKind::Partitioned,
        ("v", _) => other("a view"),
        ("m", _) => other("a materialized view"),
        ("f", _) => other("a foreign table"),
        _ => other("no table"),
    }
}

/// A type of the system catalog, with its length or scale.
fn column_type(name: &str, typmod: i32) -> Option<ColumnType> {
    let fraction = u8::try_from(typmod).unwrap_or(6).min(6);
    let length = u32::try_from(typmod - 4).ok().filter(|_| typmod >= 4);
    Some(match name {
        "bool" => ColumnType::Bool,
        "int2" => ColumnType::Int(2),
        "int4" => ColumnType::Int(4),
        "int8" => ColumnType::Int(8),
        "numeric" => ColumnType::Numeric(numeric_limits(typmod)),
        "float4" => ColumnType::Float(4),
        "float8" => ColumnType::Float(8),
        "text" => ColumnType::Text(None),
        "varchar" => ColumnType::Text(length),
        "bpchar" => ColumnType::Char(length.unwrap_or(u32::MAX)),
        "bytea" => ColumnType::Bytes,
        "timestamptz" => ColumnType::Timestamptz(fraction),
        "timestamp" => ColumnType::Timestamp(fraction),
        "date" => ColumnType::Date,
        "time" => ColumnType::Time(fraction),
        "uuid" => ColumnType::Uuid,
        "json" => ColumnType::Json { binary: false },
        "jsonb" => ColumnType::Json { binary: true },
        _ => return None,
    })
}

/// Precision in the upper half; the scale is a signed number of eleven bits.
fn numeric_limits(typmod: i32) -> Option<(u16, i16)> {
    if typmod < 4 {
        return None;
    }
    let packed = typmod - 4;
    let precision = u16::try_from((packed >> 16) & 0xffff).ok()?;
    let scale = i16::try_from(((packed & 0x7ff) ^ 1024) - 1024).ok()?;
    Some((precision, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_scales_are_unpacked() {
        assert_eq!(column_type("numeric", ((12 << 16) | 2) + 4), Some(ColumnType::Numeric(Some((12, 2)))));
        assert_eq!(column_type("numeric", ((2 << 16) | 0x7fe) + 4), Some(ColumnType::Numeric(Some((2, -2)))));
        assert_eq!(column_type("numeric", -1), Some(ColumnType::Numeric(None)));
        assert_eq!(column_type("varchar", 24), Some(ColumnType::Text(Some(20))));
        assert_eq!(column_type("varchar", -1), Some(ColumnType::Text(None)));
        assert_eq!(column_type("bpchar", 5), Some(ColumnType::Char(1)));
        assert_eq!(column_type("timestamptz", 3), Some(ColumnType::Timestamptz(3)));
        assert_eq!(column_type("timestamptz", -1), Some(ColumnType::Timestamptz(6)));
        assert_eq!(column_type("interval", -1), None);
    }
}
