//! What the catalog says, and how every kind of value gets into every kind of column.

use super::*;

#[tokio::test]
async fn every_kind_reaches_every_column_that_takes_it_without_loss() {
    let fixture = Fixture::new(
        "CREATE SCHEMA \"Odd schema\"; CREATE TYPE \"Odd schema\".\"order State\" AS ENUM ('new', 'it''s paid'); \
         CREATE DOMAIN amount AS numeric(12,2) CHECK (VALUE < 1000); \
         CREATE TABLE \"Odd schema\".\"All \"\"types\" (id uuid PRIMARY KEY, b boolean, i2 smallint, i4 int, i8 bigint, \
         n numeric(12,2), plain numeric, f4 real, f8 double precision, t text, v varchar(5), c char(4), raw bytea, \
         at timestamptz, clock timestamp(3), d date, tod time, j json, jb jsonb, e \"Odd schema\".\"order State\", dom amount, \
         \"select\" int)",
    )
    .await;
    let columns = [
        "id", "b", "i2", "i4", "i8", "n", "plain", "f4", "f8", "t", "v", "c", "raw", "at", "clock", "d", "tod", "j",
        "jb", "e", "dom", "select",
    ];
    let mut declared = spec("All \"types", &columns, &[0]);
    declared.table.schema = Some("Odd schema".into());
    let target = fixture.target(&declared).await.unwrap();
    assert!(!target.foldable, "a domain sees every row");
    let id = "0192f0c1-2d3e-7f00-8000-000000000001";
    let values = |n: i64, word: &str| {
        vec![
            text(id),
            Value::Boolean(true),
            Value::Integer(-32_768),
            Value::Real(7.0),
            Value::Decimal("9223372036854775807".into()),
            Value::Decimal("9999999999.99".into()),
            Value::Decimal("123456789012345678901234567890.123456789".into()),
            Value::Real(0.5),
            Value::Real(0.1),
            text("ünï\tcode \\ \" '"),
            text("ééééé"),
            text("ab  "),
            Value::Bytes(vec![0, 255, 10]),
            Value::Timestamp(1_764_524_700_123_456),
            text("2026-11-30T18:45:00.123+01:00"),
            text("0044-03-15"),
            text("17:45"),
            Value::Json("{\"b\":1, \"a\":1}".into()),
            Value::Json("{\"b\":1, \"a\":1}".into()),
            text(word),
            Value::Integer(999),
            Value::Integer(n),
        ]
    };
    let mut lane = fixture.lane().await;
    for n in [1, 2] {
        lane.begin(&fixture.consumer).await.unwrap();
        let change = upsert(&target, values(n, "it's paid"));
        lane.write(std::slice::from_ref(&target), &[&change]).await.unwrap();
        lane.commit().await.unwrap();
        let shown = fixture
            .strings(
                "SELECT concat_ws('|', id, b, i2, i4, i8, n, plain, f4, f8, t, v, c || '<', encode(raw, 'hex'), at AT TIME ZONE 'UTC', \
                 clock, d, tod, j, jb, e, dom, \"select\") FROM \"Odd schema\".\"All \"\"types\"",
            )
            .await;
        assert_eq!(
            shown,
            [format!(
                "{id}|t|-32768|7|9223372036854775807|9999999999.99|123456789012345678901234567890.123456789|0.5|0.1|\
                 ünï\tcode \\ \" '|ééééé|ab<|00ff0a|2025-11-30 17:45:00.123456|2026-11-30 17:45:00.123|0044-03-15|17:45:00|\
                 {{\"b\":1, \"a\":1}}|{{\"a\": 1, \"b\": 1}}|it's paid|999.00|{n}"
            )]
        );
    }
    // The same row again is not rewritten.
    let version = "SELECT xmin::text::bigint FROM \"Odd schema\".\"All \"\"types\"";
    let before = fixture.database.number(version).await;
    lane.begin(&fixture.consumer).await.unwrap();
    let change = upsert(&target, values(2, "it's paid"));
    lane.write(std::slice::from_ref(&target), &[&change]).await.unwrap();
    lane.commit().await.unwrap();
    assert_eq!(fixture.database.number(version).await, before);
}

#[tokio::test]
async fn the_catalog_is_read_as_it_is() {
    let fixture = Fixture::new(
        "CREATE TABLE parents (id int PRIMARY KEY); \
         CREATE TABLE t (a varchar(9) COLLATE \"C\" NOT NULL, b int NOT NULL, c numeric(6,-2) CHECK (c > 0), \
         g int GENERATED ALWAYS AS (b + 1) STORED, i bigint GENERATED ALWAYS AS IDENTITY, d int NOT NULL DEFAULT 0, \
         p int REFERENCES parents, span interval, many int[], gone timestamptz, UNIQUE (b, a), UNIQUE (d) DEFERRABLE); \
         CREATE UNIQUE INDEX partial ON t (b) WHERE b > 0; \
         CREATE UNIQUE INDEX covering ON t (a) INCLUDE (b); \
         CREATE TABLE parts (id int NOT NULL, day date NOT NULL, PRIMARY KEY (id, day)) PARTITION BY RANGE (day); \
         CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2026-01-01') TO ('2027-01-01'); \
         CREATE UNLOGGED TABLE fleeting (id int PRIMARY KEY); CREATE VIEW seen AS SELECT 1 AS id; \
         CREATE COLLATION folding (provider = icu, locale = 'und-u-ks-level2', deterministic = false); \
         CREATE TABLE names (name text COLLATE folding PRIMARY KEY, other text COLLATE \"en-x-icu\")",
    )
    .await;
    let table = |name: &str| TableName { schema: None, name: name.into() };
    let info = fixture.store.table_info(&table("t")).await.unwrap();
    assert_eq!(info.table.schema.as_deref(), Some("public"));
    let column = |name: &str| info.column(name).unwrap();
    assert_eq!(column("a").column_type, Ok(ColumnType::Text(Some(9))));
    assert_eq!(column("c").column_type, Ok(ColumnType::Numeric(Some((6, -2)))));
    assert_eq!(column("span").column_type, Err("interval".into()));
    assert_eq!(column("many").column_type, Err("integer[]".into()));
    assert!(column("g").generated && column("i").identity_always && column("d").has_default && !column("d").nullable);
    assert_eq!(info.checks, [vec!["c".to_owned()]]);
    assert_eq!(info.references.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["parents"]);
    let by_name = |name: &str| info.unique.iter().find(|u| u.name == name).unwrap();
    assert_eq!(by_name("covering").columns, ["a"]);
    assert!(!by_name("partial").complete && !by_name("t_d_key").immediate && by_name("t_b_a_key").complete);
    assert!(fixture.store.table_info(&table("parents")).await.unwrap().referenced);
    assert!(fixture.store.table_info(&table("nowhere")).await.unwrap_err().to_string().contains("nowhere"));

    assert!(fixture.target(&spec("t", &["a", "b", "c"], &[0, 1])).await.is_ok());
    let faults = fixture.target(&spec("t", &["a", "b", "g", "i", "span"], &[1])).await.unwrap_err();
    for expected in ["Generated", "Identity", "Type", "NoUniqueIndex"] {
        assert!(faults.iter().any(|f| format!("{f:?}").starts_with(expected)), "{expected} in {faults:?}");
    }
    let parts = fixture.target(&spec("parts", &["id", "day"], &[0, 1])).await.unwrap();
    assert!(parts.foldable);
    assert!(fixture.target(&spec("fleeting", &["id"], &[0])).await.is_err());
    assert!(fixture.target(&spec("seen", &["id"], &[0])).await.is_err());
    let faults = fixture.target(&spec("names", &["name", "other"], &[0])).await.unwrap_err();
    assert!(faults.iter().any(|f| matches!(f, FaultKind::KeyCollation { .. })), "{faults:?}");
    // What hangs on one partition sees rows of the whole.
    fixture.database.execute("ALTER TABLE parts_1 ADD CHECK (id <> 0)").await;
    assert!(!fixture.target(&spec("parts", &["id", "day"], &[0, 1])).await.unwrap().foldable);
}
