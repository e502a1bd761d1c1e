//! A declared target against the catalog: everything that would make a write wrong, or refuse every record, is found
//! at start.

use super::{
    Collation, Column, ColumnInfo, ColumnType, FaultKind, Guard, Merge, Operation, SoftDelete, SoftKind, TableInfo,
    TableKind, Target, TargetFault, TargetSpec, UniqueIndex,
};

const MINOR_UNITS: &str = "store amounts as INTEGER minor units and times as INTEGER microseconds";
const ORDERED: &str = "use an integer, numeric, timestamptz, date or text column";

/// Holds a declaration against its table (R2.5). Asks nothing but what it is given.
///
/// # Errors
/// Everything that is wrong, not only the first.
pub fn resolve(spec: &TargetSpec, info: &TableInfo) -> Result<Target, Vec<TargetFault>> {
    let mut check = Check { spec, info, faults: Vec::new() };
    check.declaration();
    if let TableKind::Other(what) = &info.kind {
        check.fault(FaultKind::Table { table: info.table.to_string(), what: what.clone() });
    }
    let columns: Vec<Option<Column>> = spec.columns.iter().map(|c| check.column(&c.name)).collect();
    check.key();
    check.merges();
    check.guard();
    let soft = check.soft();
    check.required();
    if !check.faults.is_empty() {
        return Err(check.faults.into_iter().map(|kind| TargetFault { target: spec.name.clone(), kind }).collect());
    }
    let columns: Vec<Column> = columns.into_iter().flatten().collect();
    Ok(Target {
        spec: spec.clone(),
        table: info.table.clone(),
        foldable: foldable(spec, &columns, info),
        columns,
        soft,
        references: info.references.iter().filter(|&t| *t != info.table).cloned().collect(),
    })
}

/// Invariant 12: whether several changes of a row may become one. Whatever could see or refuse an intermediate row
/// forbids it, and so does a column that the host does not merge and compare exactly as the database does.
fn foldable(spec: &TargetSpec, columns: &[Column], info: &TableInfo) -> bool {
    let unseen = info.checks.is_empty()
        && info.references.is_empty()
        && !info.referenced
        && info.triggers.is_empty()
        && info.unique.len() == 1
        && !info.columns.iter().any(|c| c.domain || c.generated);
    let exact = spec.columns.iter().zip(columns).all(|(declared, column)| match declared.merge {
        Merge::Replace | Merge::Keep => true,
        Merge::Greatest | Merge::Least => column.host_compares,
        Merge::Add => {
            matches!(column.column_type, ColumnType::Int(_) | ColumnType::Numeric(_) | ColumnType::LooseInteger)
        }
    });
    let guard = match spec.guard {
        Some(Guard::NewerBy(i)) => columns[i].host_compares,
        _ => true,
    };
    unseen && exact && guard
}

struct Check<'a> {
    spec: &'a TargetSpec,
    info: &'a TableInfo,
    faults: Vec<FaultKind>,
}

impl Check<'_> {
    fn fault(&mut self, fault: FaultKind) {
        if !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    fn table(&self) -> String {
        self.info.table.to_string()
    }

    /// What needs no catalog.
    fn declaration(&mut self) {
        if self.spec.key.is_empty() {
            self.fault(FaultKind::NoKey);
        }
        if self.spec.operations.is_empty() {
            self.fault(FaultKind::NoOperation);
        }
        let names: Vec<&str> = self.spec.columns.iter().map(|c| c.name.as_str()).collect();
        let key: Vec<&str> = self.spec.key.iter().map(|&i| names[i]).collect();
        for (list, names) in [("columns", &names), ("key", &key)] {
            for (i, name) in names.iter().enumerate() {
                if names[..i].contains(name) {
                    self.fault(FaultKind::Twice { column: (*name).into(), list });
                }
            }
        }
    }

    fn find(&mut self, name: &str) -> Option<ColumnInfo> {
        let found = self.info.column(name).cloned();
        if found.is_none() {
            let table = self.table();
            self.fault(FaultKind::NoColumn { table, column: name.into() });
        }
        found
    }

    fn column(&mut self, name: &str) -> Option<Column> {
        let info = self.find(name)?;
        if info.generated {
            self.fault(FaultKind::Generated { column: name.into() });
        }
        if info.identity_always {
            self.fault(FaultKind::Identity { column: name.into() });
        }
        match info.column_type {
            Ok(column_type) => Some(Column {
                host_compares: host_compares(&column_type, info.collation),
                name: info.name,
                column_type,
                sql_type: info.sql_type,
                nullable: info.nullable,
            }),
            Err(sql_type) => {
                self.fault(FaultKind::Type { column: name.into(), sql_type });
                None
            }
        }
    }

    /// A valid, immediate, complete unique index over exactly the key, and nothing nullable in it.
    fn key(&mut self) {
        let mut key: Vec<&str> = self.spec.key.iter().map(|&i| self.spec.columns[i].name.as_str()).collect();
        if key.is_empty() {
            return;
        }
        for name in &key {
            let Some(column) = self.info.column(name) else { continue };
            if column.nullable {
                let table = self.table();
                self.fault(FaultKind::NullableKey { table, column: (*name).into() });
            }
            if column.collation == Collation::Folding {
                self.fault(FaultKind::KeyCollation { column: (*name).into() });
            }
            if let Ok(ColumnType::Json { .. } | ColumnType::Float(_)) = column.column_type {
                self.fault(FaultKind::KeyType { column: (*name).into(), sql_type: column.sql_type.clone() });
            }
        }
        let shown = key.join(", ");
        key.sort_unstable();
        let same = self.info.unique.iter().filter(|index| {
            let mut columns: Vec<&str> = index.columns.iter().map(String::as_str).collect();
            columns.sort_unstable();
            columns == key && !index.exclusion
        });
        let mut near = String::new();
        for index in same {
            let why = match index {
                UniqueIndex { valid: false, .. } => "is not valid (a failed or running CREATE INDEX CONCURRENTLY)",
                UniqueIndex { immediate: false, .. } => "is deferrable",
                UniqueIndex { complete: false, .. } => "covers only a part of the rows or contains expressions",
                _ => return,
            };
            near = format!("; {} {why}", index.name);
        }
        let table = self.table();
        self.fault(FaultKind::NoUniqueIndex { table, key: shown, near });
    }

    fn merges(&mut self) {
        let inserts = self.spec.operations.contains(&Operation::Upsert);
        for (i, declared) in self.spec.columns.iter().enumerate() {
            let name = merge_name(declared.merge);
            if declared.merge == Merge::Replace {
                continue;
            }
            if self.spec.key.contains(&i) {
                self.fault(FaultKind::KeyMerge { column: declared.name.clone(), merge: name });
                continue;
            }
            let Some(info) = self.info.column(&declared.name) else { continue };
            let Ok(column_type) = &info.column_type else { continue };
            let (works, way_out) = match declared.merge {
                Merge::Add => (
                    matches!(
                        column_type,
                        ColumnType::Int(_) | ColumnType::Numeric(_) | ColumnType::Float(_) | ColumnType::LooseInteger
                    ),
                    if *column_type == ColumnType::LooseText { MINOR_UNITS } else { "use a numeric or integer column" },
                ),
                Merge::Greatest | Merge::Least => {
                    (ordered(column_type), if *column_type == ColumnType::LooseText { MINOR_UNITS } else { ORDERED })
                }
                Merge::Replace | Merge::Keep => (true, ""),
            };
            if !works {
                let (column, sql_type) = (declared.name.clone(), info.sql_type.clone());
                self.fault(FaultKind::MergeType { column, merge: name, sql_type, way_out });
            }
            if declared.merge == Merge::Add && inserts && self.info.is_checked(&declared.name) {
                self.fault(FaultKind::AddChecked { column: declared.name.clone() });
            }
        }
    }

    fn guard(&mut self) {
        let Some(guard) = &self.spec.guard else { return };
        let (Guard::NewerBy(i) | Guard::Transition { column: i, .. }) = guard;
        let declared = &self.spec.columns[*i];
        let column = declared.name.clone();
        if self.spec.key.contains(i) {
            self.fault(FaultKind::GuardInKey { column: column.clone() });
        }
        if declared.merge != Merge::Replace {
            self.fault(FaultKind::GuardMerge { column: column.clone(), merge: merge_name(declared.merge) });
        }
        let Some(info) = self.info.column(&column) else { return };
        let Ok(column_type) = &info.column_type else { return };
        let sql_type = info.sql_type.clone();
        match guard {
            Guard::NewerBy(_) if !ordered(column_type) => {
                let way_out = if *column_type == ColumnType::LooseText { MINOR_UNITS } else { ORDERED };
                self.fault(FaultKind::GuardType { column, sql_type, way_out });
            }
            Guard::NewerBy(_) => {}
            Guard::Transition { initial, allow, .. } => match column_type {
                ColumnType::Text(_) | ColumnType::Char(_) | ColumnType::LooseText => {
                    self.states(&column, initial.is_empty(), None);
                }
                ColumnType::Enum(labels) => {
                    let states = initial.iter().chain(allow.iter().flat_map(|(from, to)| [from, to]));
                    let unknown = states.into_iter().find(|state| !labels.contains(state)).map(String::as_str);
                    self.states(&column, initial.is_empty(), unknown);
                }
                _ => self.fault(FaultKind::StateType { column, sql_type }),
            },
        }
    }

    fn states(&mut self, column: &str, no_initial: bool, unknown: Option<&str>) {
        let column = column.to_owned();
        if let Some(state) = unknown {
            let what =
                format!("the column's enum has no label \"{state}\"; correct it, or add the label in a migration");
            self.fault(FaultKind::States { column: column.clone(), what });
        }
        if no_initial && self.spec.operations.contains(&Operation::Upsert) {
            let what =
                "`initial` is empty, so no row could ever be inserted; name the states a row may begin in".into();
            self.fault(FaultKind::States { column, what });
        }
    }

    fn soft(&mut self) -> Option<SoftDelete> {
        let deletes = self.spec.operations.contains(&Operation::Delete);
        let Some(name) = &self.spec.soft_delete else {
            if deletes && self.spec.guard.is_some() {
                self.fault(FaultKind::HardDeleteGuarded);
            }
            return None;
        };
        if self.spec.columns.iter().any(|c| c.name == *name) {
            self.fault(FaultKind::SoftGranted { column: name.clone() });
        }
        let info = self.find(name)?;
        if info.generated {
            self.fault(FaultKind::Generated { column: name.clone() });
        }
        let kind = match info.column_type {
            Ok(ColumnType::Bool) => SoftKind::Boolean,
            Ok(ColumnType::LooseInteger) if !info.nullable => SoftKind::Boolean,
            Ok(ColumnType::Timestamptz(_) | ColumnType::Timestamp(_) | ColumnType::LooseInteger) => SoftKind::Timestamp,
            _ => {
                self.fault(FaultKind::SoftType { column: name.clone(), sql_type: info.sql_type });
                return None;
            }
        };
        if kind == SoftKind::Timestamp && !info.nullable {
            let table = self.table();
            self.fault(FaultKind::SoftNotNull { table, column: name.clone() });
        }
        Some(SoftDelete { column: info.name, kind })
    }

    /// An upsert's proposed row is checked before the conflict is found: what it lacks fails every record.
    fn required(&mut self) {
        if !self.spec.operations.contains(&Operation::Upsert) {
            return;
        }
        let tombstones = self.spec.operations.contains(&Operation::Delete) && self.spec.guard.is_some();
        for info in &self.info.columns {
            if info.nullable || info.has_default || info.generated || info.identity_always {
                continue;
            }
            if self.spec.soft_delete.as_ref() == Some(&info.name) {
                continue;
            }
            let table = self.table();
            let Some(i) = self.spec.columns.iter().position(|c| c.name == info.name) else {
                self.fault(FaultKind::Required { table, column: info.name.clone() });
                continue;
            };
            let guards = match &self.spec.guard {
                Some(Guard::NewerBy(column) | Guard::Transition { column, .. }) => *column == i,
                None => false,
            };
            if tombstones && !guards && !self.spec.key.contains(&i) {
                self.fault(FaultKind::RequiredByTombstone { table, column: info.name.clone() });
            }
        }
    }
}

fn merge_name(merge: Merge) -> &'static str {
    match merge {
        Merge::Replace => "replace",
        Merge::Keep => "keep",
        Merge::Greatest => "greatest",
        Merge::Least => "least",
        Merge::Add => "add",
    }
}

/// Whether the database orders the type in a way that means something.
fn ordered(column_type: &ColumnType) -> bool {
    !matches!(column_type, ColumnType::Json { .. } | ColumnType::LooseText)
}

/// Whether a [`super::Cell`]'s order is the database's.
fn host_compares(column_type: &ColumnType, collation: Collation) -> bool {
    match column_type {
        ColumnType::Text(_) | ColumnType::Char(_) => collation == Collation::Bytes,
        ColumnType::Json { .. } | ColumnType::LooseText | ColumnType::Enum(_) | ColumnType::Time(_) => false,
        ColumnType::Bool
        | ColumnType::Int(_)
        | ColumnType::Numeric(_)
        | ColumnType::Float(_)
        | ColumnType::Bytes
        | ColumnType::Timestamptz(_)
        | ColumnType::Timestamp(_)
        | ColumnType::Date
        | ColumnType::Uuid
        | ColumnType::LooseInteger => true,
    }
}
