//! Fold ≡ waves ≡ one by one (Invariant 12), over the SQL that is really sent: any sequence of changes, in any split into
//! transactions, ends in the rows and the counts of the naive model, on PostgreSQL and on SQLite.

use std::{collections::BTreeSet, sync::Arc};

use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, TestRunner},
};
use sqlx::{AssertSqlSafe, Connection as _, Row, SqliteConnection};
use tidegate::{
    config::{Database, Dialect, Secret},
    identity::ConsumerName,
    merge::{
        Cell, ColumnSpec, Decision, Guard, Merge, OnRefused, Operation, TableName, Target, TargetSpec, Transitions,
        TypedChange,
        model::{Effect, Model},
        resolve, type_change,
    },
    outcome::Change,
    store::{self, Connection, Registration, Store, Written},
    value::Value,
};

/// What a column holds, and how raw numbers become its values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Version,
    State,
    Integer,
    Decimal,
    Instant,
    Date,
    Text,
    Boolean,
    Bytes,
    Json,
}

use Kind::{Bytes, Date, Instant, Json, State, Version};

const STATES: [&str; 4] = ["new", "paid", "sent", "done"];

impl Kind {
    fn postgres(self) -> &'static str {
        match self {
            Version | Kind::Integer => "bigint",
            State => "varchar(8)",
            Kind::Decimal => "numeric(12,2)",
            Instant => "timestamptz",
            Date => "date",
            Kind::Text => "text COLLATE \"C\"",
            Kind::Boolean => "boolean",
            Bytes => "bytea",
            Json => "jsonb",
        }
    }

    fn sqlite(self) -> &'static str {
        match self {
            Version | Kind::Integer | Instant | Kind::Boolean => "INTEGER",
            State | Kind::Decimal | Date | Kind::Text | Json => "TEXT",
            Bytes => "BLOB",
        }
    }

    /// A column as comparable text.
    fn shown(self, dialect: Dialect, name: &str) -> String {
        match (dialect, self) {
            (Dialect::Postgres, Kind::Decimal) => format!("trim_scale({name})::text"),
            (Dialect::Postgres, Instant) => format!("(extract(epoch FROM {name}) * 1000000)::bigint::text"),
            (Dialect::Postgres, Bytes) => format!("encode({name}, 'hex')"),
            (Dialect::Postgres, _) => format!("{name}::text"),
            (Dialect::Sqlite, Bytes) => format!("CASE WHEN {name} IS NOT NULL THEN lower(hex({name})) END"),
            (Dialect::Sqlite, _) => format!("CAST({name} AS TEXT)"),
        }
    }

    fn value(self, raw: Option<i8>) -> Value {
        // A guard's column is never NULL.
        let n = match (self, raw) {
            (Version | State, raw) => i64::from(raw.unwrap_or(0)),
            (_, None) => return Value::Null,
            (_, Some(n)) => i64::from(n),
        };
        match self {
            Version | Kind::Integer => Value::Integer(n),
            State => Value::Text(STATES[usize::try_from(n.rem_euclid(4)).unwrap()].into()),
            Kind::Decimal => Value::Decimal(format!(
                "{}{}.{}",
                if n < 0 { "-" } else { "" },
                n.abs() / 4,
                [0, 25, 5, 75][usize::try_from(n.abs() % 4).unwrap()]
            )),
            Instant => Value::Timestamp(1_760_000_000_000_000 + n * 1_500_000),
            Date => Value::Text(format!("2026-03-{:02}", 15 + n)),
            Kind::Text => Value::Text(["", "B", "a", "é", "zz"][usize::try_from(n.rem_euclid(5)).unwrap()].into()),
            Kind::Boolean => Value::Boolean(n % 2 == 0),
            Bytes => Value::Bytes(vec![u8::try_from(n.rem_euclid(256)).unwrap(), 0]),
            Json => Value::Json(format!("{{\"n\": {n}}}")),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum GuardKind {
    None,
    Newer,
    Steps { back: bool, ignore: bool },
}

/// A kind of target.
#[derive(Clone, Debug)]
struct Shape {
    columns: Vec<(Kind, Merge)>,
    guard: GuardKind,
    operations: Vec<Operation>,
    soft: Option<&'static str>,
    /// Something in the catalog that forbids folding.
    observed: bool,
}

const UPSERT: &[Operation] = &[Operation::Upsert];
const ALL: &[Operation] = &[Operation::Upsert, Operation::Update, Operation::Delete];

fn shapes(dialect: Dialect) -> Vec<Shape> {
    use Merge::{Add, Greatest, Keep, Least, Replace};
    let mut plain = vec![
        (Kind::Text, Replace),
        (Kind::Integer, Keep),
        (Instant, Greatest),
        (Kind::Integer, Least),
        (Kind::Integer, Add),
        (Bytes, Replace),
        (Json, Replace),
        (Kind::Boolean, Keep),
    ];
    if dialect == Dialect::Postgres {
        // SQLite keeps decimals, dates and texts alike, and does not compare them.
        plain.extend([(Date, Least), (Kind::Decimal, Add), (Kind::Text, Greatest), (Kind::Decimal, Least)]);
    } else {
        plain.extend([(Date, Replace), (Kind::Decimal, Keep)]);
    }
    let with = |first: (Kind, Merge)| std::iter::once(first).chain(plain.iter().copied()).collect::<Vec<_>>();
    let shape = |columns: Vec<(Kind, Merge)>, guard, operations: &[Operation], soft| Shape {
        columns,
        guard,
        operations: operations.to_vec(),
        soft,
        observed: false,
    };
    let soft = match dialect {
        Dialect::Postgres => [Some("timestamptz"), Some("boolean NOT NULL DEFAULT false")],
        Dialect::Sqlite => [Some("INTEGER"), Some("INTEGER NOT NULL DEFAULT 0")],
    };
    let steps = |back, ignore| GuardKind::Steps { back, ignore };
    let mut shapes = vec![
        shape(plain.clone(), GuardKind::None, UPSERT, None),
        shape(plain.clone(), GuardKind::None, ALL, None),
        shape(plain.clone(), GuardKind::None, ALL, soft[0]),
        shape(with((Version, Replace)), GuardKind::Newer, UPSERT, None),
        shape(with((Version, Replace)), GuardKind::Newer, ALL, soft[0]),
        shape(with((Version, Replace)), GuardKind::Newer, ALL, soft[1]),
        shape(with((Version, Replace)), GuardKind::Newer, &[Operation::Update, Operation::Delete], soft[1]),
        shape(with((State, Replace)), steps(false, false), UPSERT, None),
        shape(with((State, Replace)), steps(true, false), ALL, soft[0]),
        shape(with((State, Replace)), steps(true, true), &[Operation::Upsert, Operation::Update], None),
        shape(Vec::new(), GuardKind::None, UPSERT, None),
        // What is combined before it is sent.
        shape(vec![(Version, Replace), (Kind::Text, Replace), (Json, Replace)], GuardKind::Newer, UPSERT, None),
        shape(vec![(Kind::Text, Replace), (Instant, Greatest), (Kind::Integer, Keep)], GuardKind::None, UPSERT, None),
    ];
    // The same where the catalog forbids folding; an upsert's `add` may not be checked, so no column is.
    let observed: Vec<Shape> = shapes.iter().map(|s| Shape { observed: true, ..s.clone() }).collect();
    shapes.extend(observed);
    shapes
}

impl Shape {
    fn column(i: usize) -> String {
        format!("c{i}")
    }

    fn create(&self, dialect: Dialect, table: &str) -> String {
        let columns: String = self
            .columns
            .iter()
            .enumerate()
            .map(|(i, (kind, _))| {
                let sql_type = if dialect == Dialect::Postgres { kind.postgres() } else { kind.sqlite() };
                format!(", {} {sql_type}", Self::column(i))
            })
            .collect();
        let soft = self.soft.map(|t| format!(", gone {t}")).unwrap_or_default();
        let observed = if self.observed { ", CHECK (\"Id\" <> 'never')" } else { "" };
        let (id, end) = match dialect {
            Dialect::Postgres => ("\"Id\" varchar(20) COLLATE \"C\" NOT NULL, part int NOT NULL", ""),
            Dialect::Sqlite => ("\"Id\" TEXT NOT NULL, part INTEGER NOT NULL", " STRICT"),
        };
        format!("CREATE TABLE {table} ({id}{columns}{soft}{observed}, PRIMARY KEY (part, \"Id\")){end}")
    }

    fn spec(&self, table: &str) -> TargetSpec {
        let key = |name: &str| ColumnSpec { name: name.into(), merge: Merge::Replace };
        let rest = self.columns.iter().enumerate().map(|(i, &(_, merge))| ColumnSpec { name: Self::column(i), merge });
        let guard = match self.guard {
            GuardKind::None => None,
            GuardKind::Newer => Some(Guard::NewerBy(2)),
            GuardKind::Steps { back, ignore } => {
                let mut allow: BTreeSet<(String, String)> =
                    [("new", "paid"), ("paid", "sent"), ("new", "done")].map(|(a, b)| (a.into(), b.into())).into();
                if back {
                    allow.extend([("sent", "paid"), ("done", "done")].map(|(a, b)| (a.into(), b.into())));
                }
                Some(Guard::Transition {
                    column: 2,
                    initial: ["new", "paid"].map(String::from).into(),
                    allow,
                    on_refused: if ignore { OnRefused::Ignore } else { OnRefused::DeadLetter },
                })
            }
        };
        TargetSpec {
            name: "rows".into(),
            table: TableName { schema: None, name: table.into() },
            columns: [key("Id"), key("part")].into_iter().chain(rest).collect(),
            // Neither the grant's order nor the alphabet's.
            key: vec![1, 0],
            guard,
            operations: self.operations.iter().copied().collect(),
            soft_delete: self.soft.map(|_| "gone".into()),
        }
    }

    fn change(&self, raw: &RawChange) -> Change {
        let operation = self.operations[usize::from(raw.operation) % self.operations.len()];
        let mut key = [Value::Text(format!("k{}", raw.key / 2)), Value::Integer(i64::from(raw.key % 2))];
        if operation == Operation::Delete {
            key.reverse();
        }
        let guarded = self.guard != GuardKind::None;
        let columns =
            if operation == Operation::Delete { &self.columns[..usize::from(guarded)] } else { &self.columns[..] };
        let rest = columns.iter().enumerate().map(|(i, (kind, _))| kind.value(raw.values[i]));
        Change { target: 0, operation, values: key.into_iter().chain(rest).collect() }
    }

    fn select(&self, dialect: Dialect, table: &str) -> String {
        let columns: String = self
            .columns
            .iter()
            .enumerate()
            .map(|(i, (kind, _))| format!(", {}", kind.shown(dialect, &Self::column(i))))
            .collect();
        let text = |sql: &str| match dialect {
            Dialect::Postgres => format!("({sql})::int::text"),
            Dialect::Sqlite => format!("CAST({sql} AS TEXT)"),
        };
        let gone = match self.soft {
            None => "'0'".into(),
            Some(t) if t.contains("NOT NULL") => text("gone"),
            Some(_) => text("gone IS NOT NULL"),
        };
        format!("SELECT \"Id\", {}, {gone}{columns} FROM {table} ORDER BY \"Id\", part", text("part"))
    }

    /// The model's rows as [`Shape::select`] shows the table's.
    fn expected(&self, model: &Model, target: &Target) -> Vec<Vec<Option<String>>> {
        let rows = model.visible(&target.table, None);
        let shown = |cell: &Cell| match cell {
            Cell::Null => None,
            Cell::Bool(b) => Some(b.to_string()),
            Cell::Int(i) => Some(i.to_string()),
            Cell::Decimal(d) => Some(d.normalized().to_plain_string()),
            Cell::Text(t) | Cell::Json(t) => Some(t.clone()),
            Cell::Bytes(b) => Some(hex::encode(b)),
            Cell::Timestamp(t) => Some(t.to_string()),
            Cell::Date(d) => Some(format!("2026-03-{:02}", d - 20_513 + 1)),
            other => panic!("no such cell here: {other:?}"),
        };
        rows.values()
            .map(|row| {
                let gone = if row.get("gone") == Some(&Cell::Bool(true)) { "1" } else { "0" };
                let head = [shown(&row["Id"]), shown(&row["part"]), Some(gone.into())];
                let rest = (0..self.columns.len()).map(|i| shown(row.get(&Self::column(i)).unwrap_or(&Cell::Null)));
                head.into_iter().chain(rest).collect()
            })
            .collect()
    }
}

#[derive(Clone, Debug)]
struct RawChange {
    operation: u8,
    key: u8,
    values: Vec<Option<i8>>,
}

fn raw_change() -> impl Strategy<Value = RawChange> {
    // Few keys and few values: everything meets everything, and some keys are hot.
    let key = prop_oneof![4 => Just(0_u8), 1 => 1..5_u8];
    let value = prop_oneof![1 => Just(None), 4 => (-6..7_i8).prop_map(Some)];
    // Upserts more often, or most rows are never there.
    let operation = prop_oneof![3 => Just(0_u8), 1 => 1..3_u8];
    (operation, key, vec(value, 16)).prop_map(|(operation, key, values)| RawChange { operation, key, values })
}

type Records = Vec<Vec<RawChange>>;

/// Records of one to three changes, batch by batch.
fn batches() -> impl Strategy<Value = Vec<Records>> {
    vec(vec(vec(raw_change(), 1..4), 1..25), 1..4)
}

/// What a store's side of the comparison needs.
struct Lane {
    dialect: Dialect,
    connection: Box<dyn Connection>,
    consumer: ConsumerName,
}

impl Lane {
    async fn open(url: &str, dialect: Dialect) -> (Arc<dyn Store>, Self) {
        let database = Database::new(Secret::new(url), dialect);
        let store = store::open(&database).unwrap();
        store.migrate().await.unwrap();
        let consumer = ConsumerName::new("property").unwrap();
        let registration = Registration {
            name: consumer.clone(),
            group: "property".into(),
            key_version: 0,
            declared: 0,
            plugin_digest: [0; 32],
            started_from: serde_json::json!({}),
        };
        store.register_consumer(&registration).await.unwrap();
        let connection = store.connect().await.unwrap();
        (store, Self { dialect, connection, consumer })
    }

    /// One batch through the real statements.
    async fn write(&mut self, targets: &[Target], records: &[Vec<TypedChange>]) -> Written {
        let connection = &mut self.connection;
        connection.begin(&self.consumer).await.unwrap();
        let mut accepted: Vec<&TypedChange> = Vec::new();
        if Transitions::needed(targets) {
            let mut transitions = Transitions::new(targets);
            for (target, keys) in transitions.to_lock(records.iter().flatten()) {
                let states = connection.lock_states(&targets[target], &keys).await.unwrap();
                transitions.learn(target, states);
            }
            for record in records {
                let changes: Vec<&TypedChange> = record.iter().collect();
                if let Decision::Accept { leave_out, .. } = transitions.decide(&changes) {
                    let kept = changes.into_iter().enumerate().filter(|(i, _)| !leave_out.contains(i));
                    accepted.extend(kept.map(|(_, change)| change));
                }
            }
        } else {
            accepted.extend(records.iter().flatten());
        }
        let written = connection.write(targets, &accepted).await.unwrap();
        connection.commit().await.unwrap();
        written
    }
}

/// One batch through the model, a record at a time; a record with a refused step leaves nothing, or is applied but for
/// that step.
fn model_batch(model: &mut Model, target: &Target, ignore: bool, records: &[Vec<TypedChange>]) -> Written {
    let mut written = Written::default();
    for record in records {
        let before = (model.clone(), written);
        for change in record {
            match model.apply(target, change) {
                Effect::Stale => written.stale += 1,
                Effect::Missing => written.missing += 1,
                Effect::Refused if !ignore => {
                    (*model, written) = before;
                    break;
                }
                Effect::Done | Effect::SameState | Effect::Refused => {}
            }
        }
    }
    written
}

fn typed(shape: &Shape, target: &Target, records: &Records) -> Vec<Vec<TypedChange>> {
    let one = |record: usize, raw| type_change(target, 0, record, shape.change(raw)).unwrap();
    records.iter().enumerate().map(|(i, record)| record.iter().map(|raw| one(i, raw)).collect()).collect()
}

fn run(
    name: &str,
    cases: u32,
    shapes: &[Shape],
    mut check: impl FnMut(usize, &[Records]) -> Result<(), TestCaseError>,
) {
    for (index, shape) in shapes.iter().enumerate() {
        let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
        let check = std::cell::RefCell::new(&mut check);
        runner
            .run(&batches(), |batches| (check.borrow_mut())(index, &batches))
            .unwrap_or_else(|error| panic!("{name}, {shape:?}: {error}"));
    }
}

#[test]
fn any_changes_in_any_split_end_as_in_the_model_on_postgresql() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(tidegate_tests::postgres());
    let (store, mut lane) = runtime.block_on(Lane::open(database.url(), Dialect::Postgres));
    let shapes = shapes(Dialect::Postgres);
    let targets: Vec<Target> = shapes
        .iter()
        .enumerate()
        .map(|(i, shape)| {
            runtime.block_on(async {
                let table = format!("rows_{i}");
                database.execute(&shape.create(Dialect::Postgres, &table)).await;
                let spec = shape.spec(&table);
                let info = store.table_info(&spec.table).await.unwrap();
                let target = resolve(&spec, &info).unwrap();
                assert_eq!(target.foldable, !shape.observed, "{shape:?}");
                target
            })
        })
        .collect();
    run("PostgreSQL", 24, &shapes, |index, batches| {
        let (shape, target) = (&shapes[index], &targets[index]);
        let table = &target.table.name;
        runtime.block_on(async {
            database.execute(&format!("TRUNCATE {table}")).await;
            let shown = shape.select(lane.dialect, table);
            check(shape, target, &mut lane, batches, async || {
                let rows = sqlx::query(AssertSqlSafe(shown.as_str())).fetch_all(database.pool()).await.unwrap();
                rows.iter().map(|row| (0..row.len()).map(|i| row.get(i)).collect()).collect()
            })
            .await
        })
    });
}

#[test]
fn any_changes_in_any_split_end_as_in_the_model_on_sqlite() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("property.db").display());
    let (store, mut lane) = runtime.block_on(Lane::open(&url, Dialect::Sqlite));
    let mut own = runtime.block_on(SqliteConnection::connect(&url)).unwrap();
    let shapes = shapes(Dialect::Sqlite);
    let targets: Vec<Target> = shapes
        .iter()
        .enumerate()
        .map(|(i, shape)| {
            runtime.block_on(async {
                let table = format!("rows_{i}");
                sqlx::raw_sql(AssertSqlSafe(shape.create(Dialect::Sqlite, &table))).execute(&mut own).await.unwrap();
                let spec = shape.spec(&table);
                resolve(&spec, &store.table_info(&spec.table).await.unwrap()).unwrap()
            })
        })
        .collect();
    let own = tokio::sync::Mutex::new(own);
    run("SQLite", 16, &shapes, |index, batches| {
        let (shape, target) = (&shapes[index], &targets[index]);
        let table = &target.table.name;
        runtime.block_on(async {
            let empty = format!("DELETE FROM {table}");
            sqlx::raw_sql(AssertSqlSafe(empty)).execute(&mut *own.lock().await).await.unwrap();
            let shown = shape.select(lane.dialect, table);
            check(shape, target, &mut lane, batches, async || {
                let mut own = own.lock().await;
                let rows = sqlx::query(AssertSqlSafe(shown.as_str())).fetch_all(&mut *own).await.unwrap();
                rows.iter().map(|row| (0..row.len()).map(|i| row.get(i)).collect()).collect()
            })
            .await
        })
    });
}

/// Batch by batch, rows and counts against the model's.
async fn check(
    shape: &Shape,
    target: &Target,
    lane: &mut Lane,
    batches: &[Records],
    table: impl AsyncFn() -> Vec<Vec<Option<String>>>,
) -> Result<(), TestCaseError> {
    let targets = std::slice::from_ref(target);
    let ignore = matches!(shape.guard, GuardKind::Steps { ignore: true, .. });
    let mut model = Model::default();
    for records in batches {
        let records = typed(shape, target, records);
        let expected = model_batch(&mut model, target, ignore, &records);
        let written = lane.write(targets, &records).await;
        let found: Vec<Vec<Option<String>>> = table().await;
        let wanted: Vec<Vec<Option<String>>> = shape.expected(&model, target);
        let booleans = |rows: Vec<Vec<Option<String>>>| -> Vec<Vec<Option<String>>> {
            // SQLite shows a boolean as the integer that it keeps.
            rows.into_iter()
                .map(|row| {
                    row.into_iter()
                        .map(|c| {
                            c.map(|c| match c.as_str() {
                                "true" => "1".into(),
                                "false" => "0".into(),
                                _ => c,
                            })
                        })
                        .collect()
                })
                .collect()
        };
        prop_assert_eq!(booleans(found), booleans(wanted), "{:?}", shape);
        prop_assert_eq!(written, expected, "{:?}", shape);
    }
    Ok(())
}
