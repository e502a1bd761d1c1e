//! Fold ≡ waves ≡ one by one (Invariant 12), without a database: the plan's statements in their order, and a fold over
//! the row that the first wave leaves, against the model that takes one change after the other.

use std::collections::BTreeSet;

use bigdecimal::BigDecimal;
use proptest::{collection::vec, prelude::*};

use super::{
    model::{Effect, Model},
    testing::*,
    *,
};

const TYPES: [ColumnType; 6] = [
    ColumnType::Int(8),
    ColumnType::Numeric(Some((4, 1))),
    ColumnType::Text(None),
    ColumnType::Timestamptz(6),
    ColumnType::Bool,
    ColumnType::Int(2),
];

fn cell(column_type: &ColumnType, raw: Option<i8>) -> Cell {
    let Some(n) = raw else { return Cell::Null };
    match column_type {
        // Large enough for a sum to leave the column's range now and then.
        ColumnType::Int(2) => Cell::Int(i64::from(n) * 6000),
        ColumnType::Int(_) => Cell::Int(n.into()),
        ColumnType::Numeric(_) => Cell::Decimal(BigDecimal::from(n) * BigDecimal::from(150)),
        ColumnType::Text(_) => Cell::Text(["", "a", "B", "é"][usize::from(n.unsigned_abs() % 4)].into()),
        ColumnType::Timestamptz(_) => Cell::Timestamp(n.into()),
        _ => Cell::Bool(n % 2 == 0),
    }
}

/// A version in `c1`, then columns of every type under any merge that it knows.
fn targets() -> impl Strategy<Value = Target> {
    let merge = |add: bool| {
        let last = if add { Merge::Add } else { Merge::Replace };
        prop::sample::select(vec![Merge::Replace, Merge::Keep, Merge::Greatest, Merge::Least, last])
    };
    let merges: Vec<_> =
        TYPES.iter().map(|t| merge(matches!(t, ColumnType::Int(_) | ColumnType::Numeric(_)))).collect();
    (merges, any::<bool>(), 0..3_u8).prop_map(|(mut merges, guarded, kinds)| {
        merges.insert(0, Merge::Replace);
        let mut declared = spec(&merges, guarded.then_some(Guard::NewerBy(1)));
        if kinds > 0 {
            declared.operations.extend([Operation::Update, Operation::Delete]);
        }
        if kinds > 1 || (kinds > 0 && guarded) {
            declared.soft_delete = Some("gone".into());
        }
        let mut types = vec![ColumnType::Int(8)];
        types.extend(TYPES);
        let mut table = info(&types);
        table.columns.push(column("gone", ColumnType::Timestamptz(6)));
        resolve(&declared, &table).unwrap_or_else(|faults| panic!("{faults:?}"))
    })
}

/// Targets whose upserts may be combined: under a guard only what the newest and the first change say between them.
fn combinable() -> impl Strategy<Value = Target> {
    let merge = prop::sample::select(vec![Merge::Replace, Merge::Keep, Merge::Greatest, Merge::Least]);
    (vec(merge, TYPES.len()), any::<bool>()).prop_map(|(mut merges, guarded)| {
        if guarded {
            for merge in merges.iter_mut().filter(|merge| **merge != Merge::Keep) {
                *merge = Merge::Replace;
            }
        }
        merges.insert(0, Merge::Replace);
        let declared = spec(&merges, guarded.then_some(Guard::NewerBy(1)));
        let mut types = vec![ColumnType::Int(8)];
        types.extend(TYPES);
        let mut table = info(&types);
        for (column, merge) in table.columns[1..].iter_mut().zip(&merges) {
            column.nullable = !guarded || *merge != Merge::Keep;
        }
        resolve(&declared, &table).unwrap_or_else(|faults| panic!("{faults:?}"))
    })
}

/// Without a NULL where the column takes none.
fn filled(target: &Target, mut change: TypedChange) -> TypedChange {
    for (cell, column) in change.cells.iter_mut().zip(&target.columns) {
        if cell.is_null() && !column.nullable {
            *cell = self::cell(&column.column_type, Some(0));
        }
    }
    change
}

type Raw = (u8, u8, i8, Vec<Option<i8>>);

fn raw() -> impl Strategy<Value = Raw> {
    let value = prop_oneof![1 => Just(None), 3 => (-5..6_i8).prop_map(Some)];
    (0..5_u8, 0..3_u8, -4..5_i8, vec(value, TYPES.len()))
}

fn change(target: &Target, record: usize, (operation, key, version, values): &Raw) -> TypedChange {
    let granted: BTreeSet<Operation> = target.spec.operations.clone();
    let operation = [Operation::Upsert, Operation::Update, Operation::Delete]
        .into_iter()
        .filter(|op| granted.contains(op))
        .nth(usize::from(operation.saturating_sub(2)))
        .unwrap_or(Operation::Upsert);
    let mut cells = vec![Cell::Text(format!("k{key}"))];
    if operation != Operation::Delete || target.spec.guard.is_some() {
        cells.push(Cell::Int((*version).into()));
    }
    if operation != Operation::Delete {
        cells.extend(TYPES.iter().zip(values).map(|(t, &v)| cell(t, v)));
    }
    TypedChange { record, target: 0, operation, cells }
}

/// A row of the model as a fold reads it.
fn row_of(model: &Model, target: &Target, key: &[Cell]) -> Option<Row> {
    let row = model.tables.get(&target.table)?.get(key)?;
    let cells = target.columns.iter().map(|c| row.get(&c.name).cloned().unwrap_or(Cell::Null)).collect();
    let marked = row.get("gone") == Some(&Cell::Bool(true));
    Some(Row { cells, mark: if marked { Mark::Deleted } else { Mark::There } })
}

fn put_row(model: &mut Model, target: &Target, key: &[Cell], row: &Row) {
    let table = model.tables.entry(target.table.clone()).or_default();
    let stored = table.entry(key.to_vec()).or_default();
    for (column, cell) in target.columns.iter().zip(&row.cells) {
        stored.insert(column.name.clone(), cell.clone());
    }
    if target.soft.is_some() {
        stored.insert("gone".into(), Cell::Bool(row.mark != Mark::There));
    }
}

/// Whether a sum left its column's range: a database refuses such a change, a model does not.
fn overflows(model: &Model, target: &Target) -> bool {
    let fits = |t: &ColumnType, cell: &Cell| match (t, cell) {
        (ColumnType::Int(2), Cell::Int(i)) => i16::try_from(*i).is_ok(),
        (ColumnType::Numeric(_), Cell::Decimal(d)) => d.abs() < 1000,
        _ => true,
    };
    model
        .tables
        .values()
        .flat_map(|table| table.values())
        .any(|row| target.columns.iter().any(|c| row.get(&c.name).is_some_and(|cell| !fits(&c.column_type, cell))))
}

/// Rows as they are seen: no difference between never written and NULL, or between no mark and a cleared one.
fn seen(model: &Model, target: &Target) -> Vec<(Vec<Cell>, Option<Row>)> {
    let keys = model.tables.get(&target.table).map(|t| t.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    keys.into_iter().map(|key| (key.clone(), row_of(model, target, &key))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn waves_and_folds_end_like_one_by_one(
        target in targets(),
        before in vec(raw(), 0..4),
        raws in vec(raw(), 1..60),
    ) {
        let mut start = Model::default();
        for raw in &before {
            start.apply(&target, &change(&target, 0, raw));
        }
        let changes: Vec<TypedChange> = raws.iter().enumerate().map(|(i, raw)| change(&target, i, raw)).collect();

        // One by one; where a sum overflows the database would have refused, and the fold must say so.
        let mut one_by_one = start.clone();
        let mut stale = 0;
        let mut overflowed = overflows(&start, &target);
        for change in &changes {
            stale += u64::from(one_by_one.apply(&target, change) == Effect::Stale);
            overflowed |= overflows(&one_by_one, &target);
        }
        prop_assume!(!overflows(&start, &target));

        // Waves, and folds from the second wave on.
        let targets = std::slice::from_ref(&target);
        let Plan::Tables(tables) = Layout::new(targets).plan(targets, &changes) else {
            return Err(TestCaseError::fail("nothing is linked here"));
        };
        let (mut waved, mut folded) = (start.clone(), start.clone());
        let mut folded_stale = 0;
        let mut gave_up = false;
        for table in &tables {
            let longest = table.keys.iter().map(|k| k.changes.len()).max().unwrap_or(0);
            for number in 0..longest {
                for statement in wave(&table.keys, number) {
                    let keys: BTreeSet<_> = statement.changes.iter().map(|c| c.cells[0].clone()).collect();
                    prop_assert_eq!(keys.len(), statement.changes.len(), "a key twice in a statement");
                    for change in statement.changes {
                        let effect = waved.apply(&target, change);
                        if number == 0 {
                            folded_stale += u64::from(effect == Effect::Stale);
                            folded.apply(&target, change);
                        }
                    }
                }
            }
            for key in &table.keys {
                let name = [key.changes[0].cells[0].clone()];
                let result = row_of(&folded, &target, &name)
                    .and_then(|row| fold(&target, row, key.changes[1..].iter().copied()));
                match result {
                    Some(result) => {
                        folded_stale += result.stale;
                        put_row(&mut folded, &target, &name, &result.row);
                    }
                    None => {
                        gave_up = true;
                        for change in &key.changes[1..] {
                            folded_stale += u64::from(folded.apply(&target, change) == Effect::Stale);
                        }
                    }
                }
            }
        }
        prop_assert_eq!(seen(&waved, &target), seen(&one_by_one, &target));
        prop_assert_eq!(seen(&folded, &target), seen(&one_by_one, &target));
        prop_assert_eq!(folded_stale, stale);
        if overflowed && !gave_up {
            // The sum left its range in the first wave, which is the database's to refuse.
            let first_wave = tables.iter().flat_map(|t| &t.keys).map(|k| k.changes[0]);
            let mut first = start;
            first_wave.for_each(|change| { first.apply(&target, change); });
            prop_assert!(overflows(&first, &target), "a fold went over a sum that the database would have refused");
        }
    }
    #[test]
    fn combined_changes_end_like_one_by_one(
        target in combinable(),
        before in vec(raw(), 0..4),
        raws in vec(raw(), 1..40),
    ) {
        let change = |i: usize, raw: &Raw| filled(&target, change(&target, i, raw));
        let mut one_by_one = Model::default();
        for raw in &before {
            one_by_one.apply(&target, &change(0, raw));
        }
        let mut combined = one_by_one.clone();
        let changes: Vec<TypedChange> = raws.iter().enumerate().map(|(i, raw)| change(i, raw)).collect();
        let mut stale = 0;
        for change in &changes {
            stale += u64::from(one_by_one.apply(&target, change) == Effect::Stale);
        }
        let targets = std::slice::from_ref(&target);
        let Plan::Tables(tables) = Layout::new(targets).plan(targets, &changes) else {
            return Err(TestCaseError::fail("nothing is linked here"));
        };
        let mut combined_stale = 0;
        for key in tables.iter().flat_map(|table| &table.keys) {
            let one = combine(&target, &key.changes).expect("the row has no say");
            let name = [key.changes[0].cells[0].clone()];
            let version = row_of(&combined, &target, &name).map_or(Cell::Null, |row| row.cells[1].clone());
            let told = one.oldest.as_ref().is_none_or(|oldest| version.is_null() || version < *oldest);
            let mut ended = combined.clone();
            let refused = ended.apply(&target, &one.change) == Effect::Stale;
            // Its rows are right whether or not it is told how many were refused.
            let mut waved = combined.clone();
            let one_after_the_other =
                key.changes.iter().filter(|change| waved.apply(&target, change) == Effect::Stale).count();
            prop_assert_eq!(seen(&ended, &target), seen(&waved, &target));
            combined_stale += if told { one.stale + u64::from(refused) } else { one_after_the_other as u64 };
            combined = ended;
        }
        prop_assert_eq!(seen(&combined, &target), seen(&one_by_one, &target));
        prop_assert_eq!(combined_stale, stale);
    }
}
