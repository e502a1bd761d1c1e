//! A declared target against the catalog: everything that would make a write wrong, or refuse every record, is found
//! at start.

use super::{
    Collation, Column, ColumnInfo, ColumnType, FaultKind, Guard, Merge, Operation, SoftDelete, SoftKind, TableInfo,
    TableKind, Target, TargetFault, TargetSpec, UniqueIndex, is_own_table,
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
    // SQLite finds a table under any spelling: the catalog's name counts.
    if is_own_table(&info.table.name) {
        check.fault(FaultKind::OwnTable { table: info.table.to_string() });
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::collections::BTreeSet;

    use super::{super::testing::*, *};

    /// A good target over `id`, `c1 bigint`, `c2 numeric`; tests spoil it.
    fn good() -> (TargetSpec, TableInfo) {
        let found = info(&[ColumnType::Int(8), ColumnType::Numeric(Some((12, 2)))]);
        (spec(&[Merge::Replace, Merge::Replace], None), found)
    }

    fn faults(spoil: impl FnOnce(&mut TargetSpec, &mut TableInfo)) -> Vec<FaultKind> {
        let (mut declared, mut found) = good();
        spoil(&mut declared, &mut found);
        let faults = resolve(&declared, &found).expect_err("the target should be refused");
        for fault in &faults {
            assert!(fault.to_string().starts_with("target rows: "), "{fault}");
        }
        faults.into_iter().map(|f| f.kind).collect()
    }

    macro_rules! assert_fault {
        ($spoil:expr, $pattern:pat) => {
            let found = faults($spoil);
            assert!(found.iter().any(|f| matches!(f, $pattern)), "{found:?}");
        };
    }

    #[test]
    fn a_good_target_is_taken_and_folds() {
        let (declared, found) = good();
        let target = resolve(&declared, &found).unwrap();
        assert!(target.foldable);
        assert_eq!(target.columns.len(), 3);
    }

    #[test]
    fn the_key_needs_an_index_that_holds() {
        assert_fault!(|_, t| t.unique.clear(), FaultKind::NoUniqueIndex { .. });
        assert_fault!(|_, t| t.unique[0].valid = false, FaultKind::NoUniqueIndex { .. });
        assert_fault!(|_, t| t.unique[0].immediate = false, FaultKind::NoUniqueIndex { .. });
        assert_fault!(|_, t| t.unique[0].complete = false, FaultKind::NoUniqueIndex { .. });
        assert_fault!(|_, t| t.unique[0].exclusion = true, FaultKind::NoUniqueIndex { .. });
        assert_fault!(|_, t| t.unique[0].columns.push("c1".into()), FaultKind::NoUniqueIndex { .. });
        assert_fault!(|_, t| t.columns[0].nullable = true, FaultKind::NullableKey { .. });
        assert_fault!(|_, t| t.columns[0].collation = Collation::Folding, FaultKind::KeyCollation { .. });
        assert_fault!(
            |_, t| t.columns[0].column_type = Ok(ColumnType::Json { binary: true }),
            FaultKind::KeyType { .. }
        );
        assert_fault!(|s, _| s.key.clear(), FaultKind::NoKey);
        assert_fault!(|s, _| s.key.push(0), FaultKind::Twice { list: "key", .. });
        let why = faults(|_, t| t.unique[0].immediate = false).remove(0).to_string();
        assert!(why.contains("rows_pkey is deferrable") && why.contains("CREATE UNIQUE INDEX"), "{why}");
    }

    #[test]
    fn a_flawed_index_beside_a_good_one_does_no_harm() {
        let (declared, mut found) = good();
        let mut flawed = found.unique[0].clone();
        flawed.valid = false;
        found.unique.insert(0, flawed);
        assert!(resolve(&declared, &found).is_ok());
    }

    #[test]
    fn only_permanent_tables_and_writable_columns_are_targets() {
        assert_fault!(|_, t| t.kind = TableKind::Other("a view".into()), FaultKind::Table { .. });
        assert_fault!(|s, _| s.columns[1].name = "nope".into(), FaultKind::NoColumn { .. });
        assert_fault!(|_, t| t.columns[1].generated = true, FaultKind::Generated { .. });
        assert_fault!(|_, t| t.columns[1].identity_always = true, FaultKind::Identity { .. });
        assert_fault!(|_, t| t.columns[1].column_type = Err("interval".into()), FaultKind::Type { .. });
        assert_fault!(|s, _| s.columns[2].name = "c1".into(), FaultKind::Twice { list: "columns", .. });
        assert_fault!(|s, _| s.operations.clear(), FaultKind::NoOperation);
    }

    #[test]
    fn what_an_insert_lacks_is_found_at_start() {
        let required = |t: &mut TableInfo| {
            let mut more = column("more", ColumnType::Int(8));
            more.nullable = false;
            t.columns.push(more);
        };
        assert_fault!(|_, t| required(t), FaultKind::Required { .. });
        // An update inserts nothing.
        let (mut declared, mut found) = good();
        required(&mut found);
        declared.operations = BTreeSet::from([Operation::Update]);
        assert!(resolve(&declared, &found).is_ok());
        // A tombstone has only key, version and mark.
        assert_fault!(
            |s, t| {
                s.guard = Some(Guard::NewerBy(1));
                s.operations.insert(Operation::Delete);
                s.soft_delete = Some("gone".into());
                t.columns.push(column("gone", ColumnType::Timestamptz(6)));
                t.columns[2].nullable = false;
            },
            FaultKind::RequiredByTombstone { .. }
        );
    }

    #[test]
    fn merges_must_work_on_their_columns() {
        assert_fault!(|s, _| s.columns[0].merge = Merge::Keep, FaultKind::KeyMerge { .. });
        let add_to = |column_type| {
            move |s: &mut TargetSpec, t: &mut TableInfo| {
                s.columns[1].merge = Merge::Add;
                t.columns[1].column_type = Ok(column_type);
            }
        };
        assert_fault!(add_to(ColumnType::Text(None)), FaultKind::MergeType { .. });
        assert_fault!(add_to(ColumnType::LooseText), FaultKind::MergeType { way_out: MINOR_UNITS, .. });
        assert_fault!(
            |s, t| {
                s.columns[1].merge = Merge::Greatest;
                t.columns[1].column_type = Ok(ColumnType::LooseText);
            },
            FaultKind::MergeType { .. }
        );
        let checked = |s: &mut TargetSpec, t: &mut TableInfo| {
            s.columns[1].merge = Merge::Add;
            t.checks.push(vec!["c1".into()]);
        };
        assert_fault!(checked, FaultKind::AddChecked { .. });
        let (mut declared, mut found) = good();
        checked(&mut declared, &mut found);
        declared.operations = BTreeSet::from([Operation::Update]);
        assert!(resolve(&declared, &found).is_ok(), "an update is checked as a whole");
    }

    #[test]
    fn guards_must_be_able_to_decide() {
        assert_fault!(|s, _| s.guard = Some(Guard::NewerBy(0)), FaultKind::GuardInKey { .. });
        assert_fault!(
            |s, _| {
                s.guard = Some(Guard::NewerBy(1));
                s.columns[1].merge = Merge::Keep;
            },
            FaultKind::GuardMerge { .. }
        );
        assert_fault!(
            |s, t| {
                s.guard = Some(Guard::NewerBy(1));
                t.columns[1].column_type = Ok(ColumnType::LooseText);
            },
            FaultKind::GuardType { .. }
        );
        let step = || BTreeSet::from([("new".to_owned(), "paid".to_owned())]);
        assert_fault!(|s, _| s.guard = Some(transition(1, &["new"], step())), FaultKind::StateType { .. });
        assert_fault!(
            |s, t| {
                s.guard = Some(transition(1, &["new"], step()));
                t.columns[1].column_type = Ok(ColumnType::Enum(vec!["new".into()]));
            },
            FaultKind::States { .. }
        );
        assert_fault!(
            |s, t| {
                s.guard = Some(transition(1, &[], step()));
                t.columns[1].column_type = Ok(ColumnType::Text(None));
            },
            FaultKind::States { .. }
        );
    }

    #[test]
    fn deletes_under_a_guard_are_soft() {
        let deleting = |s: &mut TargetSpec| {
            s.operations.insert(Operation::Delete);
        };
        assert_fault!(
            |s, _| {
                deleting(s);
                s.guard = Some(Guard::NewerBy(1));
            },
            FaultKind::HardDeleteGuarded
        );
        assert_fault!(|s, _| s.soft_delete = Some("c1".into()), FaultKind::SoftGranted { .. });
        assert_fault!(|s, _| s.soft_delete = Some("nope".into()), FaultKind::NoColumn { .. });
        let soft = |column_type, nullable| {
            move |s: &mut TargetSpec, t: &mut TableInfo| {
                s.soft_delete = Some("gone".into());
                let mut gone = column("gone", column_type);
                gone.nullable = nullable;
                t.columns.push(gone);
            }
        };
        assert_fault!(soft(ColumnType::Text(None), true), FaultKind::SoftType { .. });
        assert_fault!(soft(ColumnType::Timestamptz(6), false), FaultKind::SoftNotNull { .. });
        for (column_type, nullable, kind) in [
            (ColumnType::Bool, false, SoftKind::Boolean),
            (ColumnType::Timestamptz(6), true, SoftKind::Timestamp),
            (ColumnType::LooseInteger, false, SoftKind::Boolean),
            (ColumnType::LooseInteger, true, SoftKind::Timestamp),
        ] {
            let (mut declared, mut found) = good();
            soft(column_type, nullable)(&mut declared, &mut found);
            assert_eq!(resolve(&declared, &found).unwrap().soft.unwrap().kind, kind);
        }
    }

    #[test]
    fn what_sees_intermediate_rows_forbids_folding() {
        let spoils: [fn(&mut TargetSpec, &mut TableInfo); 8] = [
            |_, t| t.checks.push(Vec::new()),
            |_, t| t.references.push(table("parents")),
            |_, t| t.referenced = true,
            |_, t| t.triggers.push("audit".into()),
            |_, t| t.columns[1].domain = true,
            |_, t| {
                let mut more = t.unique[0].clone();
                more.columns = vec!["c1".into()];
                t.unique.push(more);
            },
            |s, t| {
                s.columns[1].merge = Merge::Greatest;
                t.columns[1].column_type = Ok(ColumnType::Text(None));
                t.columns[1].collation = Collation::Language;
            },
            |s, t| {
                s.columns[1].merge = Merge::Add;
                t.columns[1].column_type = Ok(ColumnType::Float(8));
            },
        ];
        for (i, spoil) in spoils.into_iter().enumerate() {
            let (mut declared, mut found) = good();
            spoil(&mut declared, &mut found);
            assert!(!resolve(&declared, &found).unwrap().foldable, "{i}");
        }
    }
}
