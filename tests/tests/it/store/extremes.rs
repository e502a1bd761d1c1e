//! Values at the edges of what there is, into columns of every type: what the host's own check lets through, the database
//! takes. What it refuses is a dead letter before any SQL, and no neighbour pays for it in careful mode.

use tidegate::{
    identity::ConsumerName,
    merge::{BAD_VALUE, Merge, Operation},
    outcome::Outcome,
    store::{Applier, Policy},
    value::Value,
};

use super::fixture::{Consumer, Event, Fixture, event, spec, text};

const POSTGRES: [&str; 23] = [
    "boolean",
    "smallint",
    "integer",
    "bigint",
    "numeric",
    "numeric(12,2)",
    "numeric(5,-2)",
    "real",
    "double precision",
    "text",
    "varchar(5)",
    "char(5)",
    "bytea",
    "timestamptz",
    "timestamptz(0)",
    "timestamp",
    "date",
    "time",
    "time(2)",
    "uuid",
    "json",
    "jsonb",
    "mood",
];
const SQLITE: [&str; 4] = ["INTEGER", "REAL", "TEXT", "BLOB"];

fn values() -> Vec<Value> {
    let mut values = vec![Value::Null, Value::Boolean(false), Value::Bytes(vec![]), Value::Bytes(vec![0; 1 << 20])];
    for n in [0, 1, -1, 127, 32_767, 32_768, -32_769, 2_147_483_648, 1 << 53, (1 << 53) + 1, i64::MAX, i64::MIN] {
        values.extend([Value::Integer(n), Value::Timestamp(n), Value::Decimal(n.to_string())]);
    }
    // Where PostgreSQL's timestamps begin, and where a date's year has five digits.
    for micros in [-210_866_803_200_000_000, -210_866_803_200_000_001, 253_402_300_800_000_000, 999_999, 1_000_000] {
        values.push(Value::Timestamp(micros));
    }
    for real in [
        0.0,
        -0.0,
        0.1,
        1e15,
        1e308,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        5e-324,
        3.5e38,
        1e-46,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ] {
        values.push(Value::Real(real));
    }
    let nines = "9".repeat(200);
    let long = "1".repeat(140_000);
    let fraction = format!("0.{}", "3".repeat(20_000));
    for digits in [
        "",
        "-",
        ".",
        "-.5",
        "+1",
        " 1",
        "1_0",
        "\u{661}",
        "0x10",
        "NaN",
        "Infinity",
        "-0",
        "-0.00",
        "1e5",
        "1E-5",
        "1e131072",
        "1e-16384",
        "1e999999999",
        "1e-999999999",
        "1e2147483648",
        "99999.99",
        "9999999999.99",
        "0.005",
        &nines,
        &long,
        &fraction,
    ] {
        values.push(Value::Decimal(digits.into()));
    }
    let megabyte = "x".repeat(1 << 20);
    for text in [
        "",
        " ",
        "     ",
        "\0",
        "a\0b",
        "\u{10ffff}",
        "\u{feff}",
        "a\u{301}",
        "ab   c",
        "abcdef",
        "\u{1f980}\u{1f980}",
        "NULL",
        "now",
        "today",
        "infinity",
        "-infinity",
        "epoch",
        "allballs",
        "happy",
        "Happy",
        "0000-00-00",
        "0000-01-01",
        "0001-01-01",
        "9999-12-31",
        "2026-02-30",
        "10000-01-01",
        "24:00",
        "24:00:00",
        "23:59:60",
        "23:59:59.999999",
        "12:00:00.5",
        "12:00+01",
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00",
        "2026-01-01T00:00:00.0000001Z",
        "9999-12-31T23:59:59.999999Z",
        "0000-01-01T00:00:00Z",
        "-009999-01-01T00:00:00Z",
        "2026-01-01 00:00:00+00",
        "2016-12-31T23:59:60Z",
        "550e8400e29b41d4a716446655440000",
        "{550e8400-e29b-41d4-a716-446655440000}",
        "urn:uuid:550e8400-e29b-41d4-a716-446655440000",
        &megabyte,
    ] {
        values.push(Value::Text(text.into()));
    }
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let (some, deep, deeper) = (nested(300), nested(20_000), nested(300_000));
    let object = format!("{}1{}", "{\"a\":".repeat(50_000), "}".repeat(50_000));
    for json in [
        "null",
        "1",
        "\"\"",
        "",
        "{",
        "{\"a\":1,\"a\":2}",
        "\"\\u0000\"",
        "\"\\\\u0000\"",
        "\"\\ud800\"",
        "\"\\ud83e\\udd80\"",
        "1e400",
        "-0",
        "1e-400",
        "[1,]",
        "NaN",
        "\u{feff}1",
        "\"a\tb\"",
        "{\"\":{}}",
        &some,
        &deep,
        &deeper,
        &object,
    ] {
        values.push(Value::Json(json.into()));
    }
    values
}

pub(super) async fn what_the_host_lets_through_the_database_takes(f: &Fixture) {
    let types: &[&str] = if f.is_sqlite() { &SQLITE } else { &POSTGRES };
    if !f.is_sqlite() {
        f.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')").await;
    }
    f.register("c").await;
    let strict = if f.is_sqlite() { "STRICT" } else { "" };
    let values = values();
    for (n, kind) in types.iter().enumerate() {
        let table = format!("t{n}");
        f.execute(&format!("CREATE TABLE {table} (id TEXT NOT NULL PRIMARY KEY, v {kind}) {strict}")).await;
        let columns = [("id", Merge::Replace), ("v", Merge::Replace)];
        let targets = f.resolve(&[spec(&table, &columns, None, &[Operation::Upsert])]).await;
        let applier = Applier::new(ConsumerName::new("c").unwrap(), targets, Policy::default());
        let mut lane =
            Consumer { store: f.store.clone(), applier: applier.into() }.lane(&[i32::try_from(n).unwrap()]).await;
        // Few at a time: whatever the breaker thinks of so many refusals is another test's.
        for (part, values) in values.chunks(12).enumerate() {
            let row = |at: usize, value: &Value| -> Event {
                let id = format!("{n}-{part}-{at}");
                event(&id).change(0, Operation::Upsert, vec![text(&id), value.clone()])
            };
            let events = values.iter().enumerate().map(|(at, value)| row(at, value)).collect();
            let applied = lane.feed(i32::try_from(n).unwrap(), events).await;
            assert!(
                !applied.report.careful,
                "{kind}: the database refused {:?}",
                f.texts(&format!("SELECT sqlstate || ' ' || message FROM dead_letters WHERE code <> '{BAD_VALUE}'"))
                    .await
            );
            assert!(applied.report.outcomes.iter().all(|outcome| matches!(outcome, Outcome::Applied | Outcome::Dead)));
        }
        assert!(f.number(&format!("SELECT count(v) FROM {table}")).await > 0, "nothing fits {kind}");
    }
    let codes = f.texts("SELECT DISTINCT code FROM dead_letters").await;
    assert_eq!(codes, [BAD_VALUE]);
}
