//! Small targets for the tests of this module.

use std::collections::BTreeSet;

use super::{
    Collation, ColumnInfo, ColumnSpec, ColumnType, Guard, Merge, OnRefused, Operation, TableInfo, TableKind, TableName,
    TargetSpec, UniqueIndex,
};

pub(super) fn table(name: &str) -> TableName {
    TableName { schema: Some("public".into()), name: name.into() }
}

/// `id` as key, then `c1`, `c2`, … with these merges; upsert only.
pub(crate) fn spec(merges: &[Merge], guard: Option<Guard>) -> TargetSpec {
    let id = ColumnSpec { name: "id".into(), merge: Merge::Replace };
    let rest = merges.iter().enumerate().map(|(i, &merge)| ColumnSpec { name: format!("c{}", i + 1), merge });
    TargetSpec {
        name: "rows".into(),
        table: table("rows"),
        columns: std::iter::once(id).chain(rest).collect(),
        key: vec![0],
        guard,
        operations: BTreeSet::from([Operation::Upsert]),
        soft_delete: None,
    }
}

pub(crate) fn transition(column: usize, initial: &[&str], allow: BTreeSet<(String, String)>) -> Guard {
    let initial = initial.iter().map(|&s| s.into()).collect();
    Guard::Transition { column, initial, allow, on_refused: OnRefused::DeadLetter }
}

pub(super) fn column(name: &str, column_type: ColumnType) -> ColumnInfo {
    ColumnInfo {
        name: name.into(),
        sql_type: column_type.to_string(),
        column_type: Ok(column_type),
        nullable: name != "id",
        has_default: false,
        generated: false,
        identity_always: false,
        domain: false,
        collation: Collation::Bytes,
    }
}

/// The table of [`spec`]: `id text` and these columns, nothing that forbids folding.
pub(crate) fn info(types: &[ColumnType]) -> TableInfo {
    let rest = types.iter().enumerate().map(|(i, t)| column(&format!("c{}", i + 1), t.clone()));
    TableInfo {
        table: table("rows"),
        kind: TableKind::Ordinary,
        columns: std::iter::once(column("id", ColumnType::Text(None))).chain(rest).collect(),
        unique: vec![UniqueIndex {
            name: "rows_pkey".into(),
            columns: vec!["id".into()],
            immediate: true,
            valid: true,
            complete: true,
            exclusion: false,
        }],
        checks: Vec::new(),
        references: Vec::new(),
        referenced: false,
        triggers: Vec::new(),
    }
}
