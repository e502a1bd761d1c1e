//! Values: into every column that takes them, and back.

use tidegate::{
    identity::ConsumerName,
    merge::{Merge, Operation},
    record::Header,
    store::Applier,
    value::Value,
};

use super::fixture::{Consumer, Fixture, event, spec, text};

/// Column, its PostgreSQL type, what is written, what `::text` gives.
fn postgres_columns() -> Vec<(&'static str, Value, &'static str)> {
    let decimal = |digits: &str| Value::Decimal(digits.into());
    let json = |text: &str| Value::Json(text.into());
    vec![
        ("boolean", Value::Boolean(true), "true"),
        ("smallint", Value::Integer(-32_768), "-32768"),
        ("integer", Value::Integer(2_147_483_647), "2147483647"),
        ("bigint", Value::Integer(i64::MIN), "-9223372036854775808"),
        ("bigint", decimal("9007199254740993"), "9007199254740993"),
        ("numeric", decimal("123456789012345678901234567890.123456789"), "123456789012345678901234567890.123456789"),
        ("numeric(12,2)", decimal("9999999999.99"), "9999999999.99"),
        ("numeric(12,2)", Value::Integer(7), "7.00"),
        ("real", Value::Real(0.5), "0.5"),
        ("double precision", Value::Real(0.1), "0.1"),
        ("text", text("a'b\"c\\d é"), "a'b\"c\\d é"),
        ("varchar(3)", text("äöü"), "äöü"),
        ("bytea", Value::Bytes(vec![0, 255]), "\\x00ff"),
        ("timestamptz", Value::Timestamp(1_700_000_000_123_456), "2023-11-14 22:13:20.123456+00"),
        ("timestamptz", text("2023-11-14T23:13:20.5+01:00"), "2023-11-14 22:13:20.5+00"),
        ("timestamp", Value::Timestamp(-1), "1969-12-31 23:59:59.999999"),
        ("date", text("0001-01-01"), "0001-01-01"),
        ("time", text("23:59:59.25"), "23:59:59.25"),
        ("uuid", text("550e8400-e29b-41d4-a716-446655440000"), "550e8400-e29b-41d4-a716-446655440000"),
        ("uuid", Value::Bytes(vec![1; 16]), "01010101-0101-0101-0101-010101010101"),
        ("jsonb", json("{\"b\": [1, null], \"a\": 1.10}"), "{\"a\": 1.10, \"b\": [1, null]}"),
        ("json", json("{\"b\":1}"), "{\"b\":1}"),
        ("mood", text("happy"), "happy"),
        ("text", Value::Null, "NULL"),
    ]
}

fn sqlite_columns() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("INTEGER", Value::Integer(i64::MIN), "-9223372036854775808"),
        ("INTEGER", Value::Boolean(true), "1"),
        ("INTEGER", Value::Timestamp(1_700_000_000_123_456), "1700000000123456"),
        ("REAL", Value::Real(0.1), "0.1"),
        ("TEXT", text("a'b\"c\\d é"), "a'b\"c\\d é"),
        ("TEXT", Value::Decimal("10.0050".into()), "10.0050"),
        ("TEXT", Value::Json("{\"b\":1}".into()), "{\"b\":1}"),
        ("BLOB", Value::Bytes(vec![65, 66]), "AB"),
        ("TEXT", Value::Null, "NULL"),
    ]
}

pub(super) async fn every_value_arrives_in_every_column_that_takes_it(f: &Fixture) {
    let columns = if f.is_sqlite() { sqlite_columns() } else { postgres_columns() };
    let names: Vec<String> = (0..columns.len()).map(|i| format!("c{i}")).collect();
    let declared: Vec<String> = names.iter().zip(&columns).map(|(name, (kind, ..))| format!("{name} {kind}")).collect();
    if !f.is_sqlite() {
        f.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')").await;
    }
    let strict = if f.is_sqlite() { "STRICT" } else { "" };
    f.execute(&format!(
        "CREATE TABLE \"odd \"\"name\" (id TEXT NOT NULL PRIMARY KEY, {}) {strict}",
        declared.join(", ")
    ))
    .await;
    let mut granted = vec![("id", Merge::Replace)];
    granted.extend(names.iter().map(|name| (name.as_str(), Merge::Replace)));
    let targets = f.resolve(&[spec("odd \"name", &granted, None, &[Operation::Upsert, Operation::Update])]).await;
    f.register("c").await;
    let applier = Applier::new(ConsumerName::new("c").unwrap(), targets, Default::default());
    let mut lane = Consumer { store: f.store.clone(), applier: applier.into() }.lane(&[0]).await;
    let row = |id: &str, operation| {
        let mut values = vec![text(id)];
        values.extend(columns.iter().map(|(_, value, _)| value.clone()));
        event(&format!("{id} {operation:?}")).change(0, operation, values)
    };
    let nulls = |id: &str| {
        let mut values = vec![text(id)];
        values.resize(columns.len() + 1, Value::Null);
        event(&format!("{id} nulls")).change(0, Operation::Upsert, values)
    };
    // Inserted, and put into a row that was there with nothing in it; by upsert and by update.
    let events = vec![
        row("inserted", Operation::Upsert),
        nulls("merged"),
        row("merged", Operation::Upsert),
        nulls("updated"),
        row("updated", Operation::Update),
    ];
    let applied = lane.feed(0, events).await;
    let letters = f.texts("SELECT message FROM dead_letters").await;
    assert_eq!(applied.report.counts.applied, 5, "{letters:?}");
    for (name, (kind, value, expected)) in names.iter().zip(&columns) {
        for id in ["inserted", "merged", "updated"] {
            let cast =
                if *kind == "timestamptz" { format!("{name} AT TIME ZONE 'UTC' || '+00'") } else { name.clone() };
            let found = f.texts(&format!("SELECT {cast} FROM \"odd \"\"name\" WHERE id = '{id}'")).await;
            assert_eq!(found, [*expected], "{value:?} in {kind}, {id}");
        }
    }
    // The same again changes nothing.
    let applied = lane
        .feed(
            0,
            vec![event("again").change(0, Operation::Update, {
                let mut values = vec![text("merged")];
                values.extend(columns.iter().map(|(_, value, _)| value.clone()));
                values
            })],
        )
        .await;
    assert_eq!(applied.report.written.missing, 0);
}

pub(super) async fn dead_letters_keep_the_raw_input(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    let mut prepared = {
        let sample = lane.prepare(&[(0, vec![event("a").reject("co\0de")])]);
        let mut batch = sample.batch().clone();
        batch.records[0].key = Some(vec![0, 1, 255].into());
        batch.records[0].headers = vec![
            Header { name: "h".into(), value: Some(vec![0, 255].into()) },
            Header { name: "n".into(), value: None },
        ];
        lane.consumer.prepare(batch, vec![event("a").reject("co\0de").evaluated()])
    };
    lane.apply(&mut prepared).await.unwrap();
    let hex = |column: &str| {
        if f.is_sqlite() {
            format!("SELECT lower(hex({column})) FROM dead_letters")
        } else {
            format!("SELECT encode({column}, 'hex') FROM dead_letters")
        }
    };
    assert_eq!(f.texts(&hex("key")).await, ["0001ff"]);
    assert_eq!(f.texts(&hex("payload")).await.concat().len(), 2 * "payload of a".len());
    let headers = f.texts("SELECT headers FROM dead_letters").await.concat().replace(' ', "");
    assert_eq!(headers, r#"[{"name":"h","value_hex":"00ff"},{"name":"n","value":null}]"#);
    assert_eq!(f.texts("SELECT code FROM dead_letters").await, ["co\u{fffd}de"]);
}
