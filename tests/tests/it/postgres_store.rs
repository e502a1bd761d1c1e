//! What only PostgreSQL has: its catalog, its session settings, its deferred constraints, its words on a failed commit.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tidegate::{
    class::Class,
    config::{Database as DatabaseConfig, Dialect, Secret},
    identity::{AggregateId, ConsumerName, Fingerprint, MessageId},
    merge::{
        Cell, ColumnSpec, ColumnType, FaultKind, Guard, Merge, Operation, SoftKind, TableName, Target, TargetSpec,
        TypedChange, resolve, type_change,
    },
    outcome::{Change, Counts},
    record::TopicPartition,
    store::{
        Connection, ConsumerState, LedgerRow, Link, Registration, SchemaState, Statement, Store, Tip,
        postgres::{PostgresStore, Timeouts},
    },
    value::Value,
};
use tidegate_tests::{Database, postgres};
use uuid::Uuid;

struct Fixture {
    database: Database,
    store: PostgresStore,
    consumer: ConsumerName,
}

impl Fixture {
    async fn new(tables: &str) -> Self {
        Self::with(tables, Timeouts { lock: Duration::from_millis(300), ..Timeouts::default() }).await
    }

    async fn with(tables: &str, timeouts: Timeouts) -> Self {
        let database = postgres().await;
        let url = DatabaseConfig { url: Secret::new(database.url()), dialect: Dialect::Postgres };
        let store = PostgresStore::open(&url, timeouts).unwrap();
        assert_eq!(store.schema_state().await.unwrap(), SchemaState::Missing);
        assert_eq!(store.migrate().await.unwrap(), SchemaState::Current { version: 1 });
        let consumer = ConsumerName::new("c").unwrap();
        let registration = Registration {
            name: consumer.clone(),
            group: "g".into(),
            key_version: 1,
            plugin_digest: [7; 32],
            started_from: serde_json::json!({"start": "earliest"}),
        };
        store.register_consumer(&registration).await.unwrap();
        if !tables.is_empty() {
            database.execute(tables).await;
        }
        Self { database, store, consumer }
    }

    async fn lane(&self) -> Box<dyn Connection> {
        self.store.connect().await.unwrap()
    }

    async fn target(&self, spec: &TargetSpec) -> Result<Target, Vec<FaultKind>> {
        let info = self.store.table_info(&spec.table).await.unwrap();
        resolve(spec, &info).map_err(|faults| faults.into_iter().map(|f| f.kind).collect())
    }

    async fn strings(&self, sql: &'static str) -> Vec<String> {
        sqlx::query_scalar(sql).fetch_all(self.database.pool()).await.unwrap()
    }

    async fn genesis(&self, lane: &mut Box<dyn Connection>) -> (Arc<TopicPartition>, Tip) {
        let partition = Arc::new(TopicPartition {
            cluster_id: "cluster".into(),
            topic_id: Uuid::from_u128(1),
            topic: "orders".into(),
            partition: 3,
        });
        let tip = lane.move_chain(&self.consumer, &partition, None, 10).await.unwrap().unwrap();
        (partition, tip)
    }
}

fn spec(table: &str, columns: &[&str], key: &[usize]) -> TargetSpec {
    TargetSpec {
        name: table.into(),
        table: TableName { schema: None, name: table.into() },
        columns: columns.iter().map(|&c| ColumnSpec { name: c.into(), merge: Merge::Replace }).collect(),
        key: key.to_vec(),
        guard: None,
        operations: BTreeSet::from([Operation::Upsert]),
        soft_delete: None,
    }
}

fn upsert(target: &Target, values: Vec<Value>) -> TypedChange {
    type_change(target, 0, 0, &Change { target: 0, operation: Operation::Upsert, values }).unwrap()
}

fn text(t: &str) -> Value {
    Value::Text(t.into())
}

fn link(partition: &Arc<TopicPartition>, tip: Tip, next: i64) -> Link {
    let counts = Counts { skipped: 1, ..Counts::default() };
    Link {
        id: Uuid::now_v7(),
        prev: tip.id,
        partition: Arc::clone(partition),
        first_offset: tip.next_offset,
        next_offset: next,
        counts,
    }
}

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

#[tokio::test]
async fn a_transaction_is_set_to_what_safety_needs_whatever_the_defaults() {
    let fixture = Fixture::new("").await;
    fixture
        .database
        .execute(
            "DO $$ BEGIN \
             EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = ''repeatable read''', current_database()); \
             EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); \
             EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$",
        )
        .await;
    let mut lane = fixture.lane().await;
    let state = lane.begin(&fixture.consumer).await.unwrap();
    assert_eq!(state, ConsumerState { key_version: 1, horizon_us: i64::MIN, open_dead_letters: false });
    // The lane is idle in its transaction; another session sees the shared lock, and can only share it.
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted \
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    assert_eq!(fixture.database.number(locks).await, 1);
    // Writes pass although the database's default is read-only, and a duplicate race is no 40001.
    let row = LedgerRow {
        message_id: MessageId::new("m").unwrap(),
        aggregate_id: AggregateId::new("a").unwrap(),
        partition: Arc::new(TopicPartition {
            cluster_id: "k".into(),
            topic_id: Uuid::nil(),
            topic: "t".into(),
            partition: 0,
        }),
        offset: 0,
        fingerprint: Fingerprint([1; 16]),
    };
    assert_eq!(
        lane.insert_ledger(&fixture.consumer, std::slice::from_ref(&row)).await.unwrap(),
        [row.message_id.clone()]
    );
    let mut other = fixture.lane().await;
    other.begin(&fixture.consumer).await.unwrap();
    let race = other.insert_ledger(&fixture.consumer, std::slice::from_ref(&row)).await.unwrap_err();
    assert_eq!(
        (race.sqlstate.as_deref(), race.class()),
        (Some("55P03"), Class::Transient),
        "waits, no longer than lock_timeout"
    );
    other.rollback().await.unwrap();
    lane.commit().await.unwrap();
    other.begin(&fixture.consumer).await.unwrap();
    assert_eq!(other.insert_ledger(&fixture.consumer, std::slice::from_ref(&row)).await.unwrap(), []);
    let known = other.lookup(&fixture.consumer, std::slice::from_ref(&row.message_id)).await.unwrap();
    assert_eq!(known[&row.message_id], row.fingerprint);
    other.rollback().await.unwrap();
}

#[tokio::test]
async fn a_failed_transaction_never_reports_a_commit() {
    let fixture = Fixture::new("CREATE TABLE t (id int PRIMARY KEY, v int CHECK (v > 0))").await;
    let target = fixture.target(&spec("t", &["id", "v"], &[0])).await.unwrap();
    let targets = std::slice::from_ref(&target);
    let mut lane = fixture.lane().await;
    lane.begin(&fixture.consumer).await.unwrap();
    let bad = upsert(&target, vec![Value::Integer(1), Value::Integer(-1)]);
    let error = lane.write(targets, &[&bad]).await.unwrap_err();
    assert_eq!(
        (error.sqlstate.as_deref(), error.class(), error.connection_lost),
        (Some("23514"), Class::Poison, false)
    );
    assert!(lane.commit().await.is_err(), "the server would answer ROLLBACK, and the driver call it a success");
    lane.rollback().await.unwrap();
    // Back to a savepoint, the transaction is fit for use again.
    let good = upsert(&target, vec![Value::Integer(1), Value::Integer(1)]);
    lane.begin(&fixture.consumer).await.unwrap();
    lane.savepoint().await.unwrap();
    lane.write(targets, &[&bad]).await.unwrap_err();
    lane.rollback_to_savepoint().await.unwrap();
    lane.savepoint().await.unwrap();
    lane.write(targets, &[&good]).await.unwrap();
    lane.release().await.unwrap();
    lane.commit().await.unwrap();
    assert_eq!(fixture.database.number("SELECT count(*) FROM t").await, 1);
}

#[tokio::test]
async fn what_was_deferred_is_raised_where_a_record_can_be_blamed() {
    // A trigger that defers again what BEGIN made immediate.
    let fixture = Fixture::new(
        "CREATE TABLE parents (id int PRIMARY KEY); \
         CREATE TABLE t (id int PRIMARY KEY, p int REFERENCES parents DEFERRABLE); \
         CREATE FUNCTION defer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN SET CONSTRAINTS ALL DEFERRED; RETURN NEW; END $$; \
         CREATE TRIGGER defer BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION defer()",
    )
    .await;
    let target = fixture.target(&spec("t", &["id", "p"], &[0])).await.unwrap();
    let orphan = upsert(&target, vec![Value::Integer(1), Value::Integer(404)]);
    let mut lane = fixture.lane().await;
    let (partition, tip) = fixture.genesis(&mut lane).await;
    let state = lane.begin(&fixture.consumer).await.unwrap();
    lane.savepoint().await.unwrap();
    lane.write(std::slice::from_ref(&target), &[&orphan]).await.unwrap();
    let error = lane.release().await.unwrap_err();
    assert_eq!((error.statement, error.class()), (Statement::Deferred, Class::Poison));
    lane.rollback_to_savepoint().await.unwrap();
    lane.write(std::slice::from_ref(&target), &[&orphan]).await.unwrap();
    let error = lane.extend_chain(&fixture.consumer, &[7], state, &[link(&partition, tip, 11)]).await.unwrap_err();
    assert_eq!((error.statement, error.class()), (Statement::Deferred, Class::Poison));
    lane.rollback().await.unwrap();
}

#[tokio::test]
async fn a_chain_has_one_successor_and_only_where_it_ended() {
    let fixture = Fixture::new("").await;
    let consumer = &fixture.consumer;
    let mut lane = fixture.lane().await;
    let (partition, tip) = fixture.genesis(&mut lane).await;
    assert_eq!(lane.move_chain(consumer, &partition, None, 99).await.unwrap(), None, "a second genesis");
    assert_eq!(lane.tips(consumer, &[Arc::clone(&partition)]).await.unwrap(), [Some(tip)]);

    let extend = async |lane: &mut Box<dyn Connection>, link: &Link, change: fn(&mut ConsumerState)| {
        let mut state = lane.begin(consumer).await.unwrap();
        change(&mut state);
        let n = lane.extend_chain(consumer, &[7], state, std::slice::from_ref(link)).await.unwrap();
        if n == 1 {
            lane.commit().await.unwrap()
        } else {
            lane.rollback().await.unwrap()
        }
        n
    };
    let first = link(&partition, tip, 20);
    assert_eq!(extend(&mut lane, &first, |s| s.key_version += 1).await, 0, "another key version");
    assert_eq!(extend(&mut lane, &first, |s| s.horizon_us = 5).await, 0, "another horizon");
    let gap = Link { first_offset: 11, ..first.clone() };
    assert_eq!(extend(&mut lane, &gap, |_| {}).await, 0, "not where the tip ended");
    assert_eq!(extend(&mut lane, &first, |_| {}).await, 1);
    assert_eq!(extend(&mut lane, &first, |_| {}).await, 0, "the same id again");
    assert_eq!(extend(&mut lane, &link(&partition, tip, 30), |_| {}).await, 0, "a zombie on the old tip");
    let found = lane.find_checkpoints(&[first.id, Uuid::nil()]).await.unwrap();
    assert_eq!((found.len(), found[&first.id].next_offset, found[&first.id].counts), (1, 20, first.counts));

    // An operator's move fences whoever holds the old tip.
    let tip = lane.tips(consumer, &[Arc::clone(&partition)]).await.unwrap()[0].unwrap();
    let moved = lane.move_chain(consumer, &partition, Some(tip), 15).await.unwrap().unwrap();
    assert_eq!((moved.seq, moved.next_offset), (2, 15));
    assert_eq!(extend(&mut lane, &link(&partition, tip, 30), |_| {}).await, 0);
    assert_eq!(extend(&mut lane, &link(&partition, moved, 30), |_| {}).await, 1);
    assert_eq!(lane.topic_ids(consumer, "cluster", "orders").await.unwrap(), [partition.topic_id]);
    assert_eq!(lane.topic_ids(consumer, "cluster", "others").await.unwrap(), Vec::<Uuid>::new());
    assert_eq!(fixture.store.chain_faults(consumer).await.unwrap(), []);

    // A hole by hand is named.
    fixture.database.execute("UPDATE checkpoints SET first_offset = 17 WHERE seq = 3").await;
    let faults = fixture.store.chain_faults(consumer).await.unwrap();
    assert_eq!((faults[0].fault.as_str(), faults[0].expected, faults[0].found), ("hole", Some(15), 17));
}

#[tokio::test]
async fn a_zombie_s_open_link_makes_the_next_owner_wait_then_try_again() {
    let fixture = Fixture::new("").await;
    let mut zombie = fixture.lane().await;
    let (partition, tip) = fixture.genesis(&mut zombie).await;
    let state = zombie.begin(&fixture.consumer).await.unwrap();
    zombie.extend_chain(&fixture.consumer, &[7], state, &[link(&partition, tip, 20)]).await.unwrap();
    let mut owner = fixture.lane().await;
    let state = owner.begin(&fixture.consumer).await.unwrap();
    let next = link(&partition, tip, 25);
    let waited = owner.extend_chain(&fixture.consumer, &[7], state, std::slice::from_ref(&next)).await.unwrap_err();
    assert_eq!(waited.class(), Class::Transient);
    owner.rollback().await.unwrap();
    // The server ends the zombie's session.
    fixture.database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = current_database()").await;
    let lost = zombie.commit().await.unwrap_err();
    assert!(lost.connection_lost && lost.class() == Class::Transient, "{lost}");
    assert!(zombie.rollback().await.unwrap_err().connection_lost, "nothing goes through it any more");
    let state = owner.begin(&fixture.consumer).await.unwrap();
    assert_eq!(owner.extend_chain(&fixture.consumer, &[7], state, &[next]).await.unwrap(), 1);
    owner.commit().await.unwrap();
}

#[tokio::test]
async fn a_stopped_host_s_transaction_is_ended_by_the_server() {
    let fixture = Fixture::with("", Timeouts { idle: Duration::from_millis(200), ..Timeouts::default() }).await;
    let mut stopped = fixture.lane().await;
    stopped.begin(&fixture.consumer).await.unwrap();
    let open =
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = current_database()";
    tidegate_tests::wait::until("the transaction's end", async || fixture.database.number(open).await, |&n| n == 0)
        .await;
    let error = stopped.commit().await.unwrap_err();
    assert!(error.connection_lost && error.class() == Class::Transient, "{error}");
}

#[tokio::test]
async fn an_altered_table_costs_a_connection_not_a_record() {
    let fixture = Fixture::new("CREATE TABLE t (id int PRIMARY KEY, v int)").await;
    let mut declared = spec("t", &["id", "v"], &[0]);
    declared.operations.insert(Operation::Update);
    let target = fixture.target(&declared).await.unwrap();
    let mut lane = fixture.lane().await;
    let many: Vec<TypedChange> = (0..6).map(|n| upsert(&target, vec![Value::Integer(1), Value::Integer(n)])).collect();
    let all: Vec<&TypedChange> = many.iter().collect();
    lane.begin(&fixture.consumer).await.unwrap();
    lane.write(std::slice::from_ref(&target), &all).await.unwrap();
    lane.commit().await.unwrap();
    fixture.database.execute("ALTER TABLE t ALTER v TYPE bigint").await;
    lane.begin(&fixture.consumer).await.unwrap();
    // Whether the plan is noticed to be stale or quietly made anew, no record is to blame.
    if let Err(error) = lane.write(std::slice::from_ref(&target), &all).await {
        assert_eq!((error.class(), error.connection_lost), (Class::Transient, true), "{error}");
    }
}

#[tokio::test]
async fn a_foreign_table_of_the_same_name_is_refused_with_the_way_out() {
    let database = postgres().await;
    database.execute("CREATE TABLE consumers (id int)").await;
    let url = |url: &str| DatabaseConfig { url: Secret::new(url), dialect: Dialect::Postgres };
    let store = PostgresStore::open(&url(database.url()), Timeouts::default()).unwrap();
    let error = store.migrate().await.unwrap_err();
    assert!(error.to_string().contains("search_path%3Dtidegate"), "{error}");
    // The way out works.
    database.execute("CREATE SCHEMA tidegate").await;
    let with = if database.url().contains('?') { "&" } else { "?" };
    let own = format!("{}{with}options=-c%20search_path%3Dtidegate,public", database.url());
    let store = PostgresStore::open(&url(&own), Timeouts::default()).unwrap();
    assert_eq!(store.migrate().await.unwrap(), SchemaState::Current { version: 1 });
    assert_eq!(store.migrate().await.unwrap(), SchemaState::Current { version: 1 });
    database.execute("INSERT INTO tidegate.tidegate_migrations VALUES (9, 'later', now(), true, '', 0)").await;
    assert_eq!(store.migrate().await.unwrap(), SchemaState::Newer { found: 9, known: 1 });
}

#[tokio::test]
async fn many_lanes_on_the_same_keys_never_deadlock() {
    let fixture = Fixture::with(
        "CREATE TABLE a (id int PRIMARY KEY, n int NOT NULL); CREATE TABLE b (id int PRIMARY KEY, n int NOT NULL); \
         INSERT INTO a SELECT g, 0 FROM generate_series(0, 59) g; INSERT INTO b SELECT g, 0 FROM generate_series(0, 59) g",
        Timeouts { lock: Duration::from_secs(20), statement: Duration::from_secs(30), ..Timeouts::default() },
    )
    .await;
    let mut targets = Vec::new();
    for table in ["b", "a"] {
        let mut declared = spec(table, &["id", "n"], &[0]);
        declared.columns[1].merge = Merge::Add;
        declared.operations.insert(Operation::Update);
        targets.push(fixture.target(&declared).await.unwrap());
    }
    let rounds = 40;
    let lanes = 4;
    let tasks = (0..lanes).map(|lane| {
        let (fixture, targets) = (&fixture, &targets);
        async move {
            let mut connection = fixture.lane().await;
            for round in 0..rounds {
                // The same keys in another order, target and operation each time.
                let changes: Vec<TypedChange> = (0..60_i64)
                    .map(|i| {
                        let key = (i * 7 + round * 13 + lane) % 60;
                        let target = usize::try_from((i + lane) % 2).unwrap();
                        let operation = if (i + round) % 3 == 0 { Operation::Update } else { Operation::Upsert };
                        TypedChange { record: 0, target, operation, cells: vec![Cell::Int(key), Cell::Int(1)] }
                    })
                    .collect();
                connection.begin(&fixture.consumer).await.unwrap();
                connection.write(targets, &changes.iter().collect::<Vec<_>>()).await.unwrap();
                connection.commit().await.unwrap();
            }
        }
    });
    side_by_side(tasks).await;
    let sum = fixture.database.number("SELECT (SELECT sum(n) FROM a) + (SELECT sum(n) FROM b)").await;
    assert_eq!(sum, rounds * lanes * 60);
}

/// Runs futures side by side until all are done.
async fn side_by_side(tasks: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut tasks: Vec<_> = tasks.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        tasks.retain_mut(|task| task.as_mut().poll(context).is_pending());
        if tasks.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn rows_that_others_refer_to_are_deleted_in_record_order() {
    let fixture = Fixture::new(
        "CREATE TABLE orders (id int PRIMARY KEY, v int); CREATE TABLE items (id int PRIMARY KEY, o int NOT NULL REFERENCES orders)",
    )
    .await;
    let mut targets = Vec::new();
    for (table, column) in [("items", "o"), ("orders", "v")] {
        let mut declared = spec(table, &["id", column], &[0]);
        declared.operations.insert(Operation::Delete);
        targets.push(fixture.target(&declared).await.unwrap());
    }
    let change = |target: usize, operation, cells: &[i64]| TypedChange {
        record: 0,
        target,
        operation,
        cells: cells.iter().map(|&i| Cell::Int(i)).collect(),
    };
    use Operation::{Delete, Upsert};
    let mut lane = fixture.lane().await;
    // Child before parent in the record: parents are written first.
    let first = [change(0, Upsert, &[1, 10]), change(1, Upsert, &[10, 0])];
    // The child goes, then its parent, then both come again.
    let second = [
        change(0, Delete, &[1]),
        change(1, Delete, &[10]),
        change(1, Upsert, &[10, 5]),
        change(0, Upsert, &[2, 10]),
        change(0, Delete, &[404]),
    ];
    let mut missing = 0;
    for batch in [&first[..], &second[..]] {
        lane.begin(&fixture.consumer).await.unwrap();
        missing += lane.write(&targets, &batch.iter().collect::<Vec<_>>()).await.unwrap().missing;
        lane.commit().await.unwrap();
    }
    assert_eq!(missing, 1);
    assert_eq!(fixture.strings("SELECT id || ':' || o FROM items").await, ["2:10"]);
    assert_eq!(fixture.database.number("SELECT v FROM orders").await, 5);
}

#[tokio::test]
async fn a_row_that_appears_between_lock_and_write_is_tried_again() {
    let fixture = Fixture::new(
        "CREATE TYPE st AS ENUM ('new', 'paid', 'sent'); CREATE TABLE t (id int PRIMARY KEY, s st, gone timestamptz)",
    )
    .await;
    let mut declared = spec("t", &["id", "s"], &[0]);
    declared.guard = Some(Guard::Transition {
        column: 1,
        initial: ["new", "sent"].map(String::from).into(),
        allow: [("new", "paid")].map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
        on_refused: tidegate::merge::OnRefused::DeadLetter,
    });
    declared.soft_delete = Some("gone".into());
    let target = fixture.target(&declared).await.unwrap();
    assert_eq!(target.soft.as_ref().unwrap().kind, SoftKind::Timestamp);
    let mut lane = fixture.lane().await;
    lane.begin(&fixture.consumer).await.unwrap();
    let key = vec![Cell::Int(1)];
    assert!(lane.lock_states(&target, std::slice::from_ref(&key)).await.unwrap().is_empty());
    fixture.database.execute("INSERT INTO t VALUES (1, 'paid')").await;
    // Judged as a new row that may begin as "sent"; by now it would be a step from "paid" that is not allowed.
    let sent = upsert(&target, vec![Value::Integer(1), text("sent")]);
    let error = lane.write(std::slice::from_ref(&target), &[&sent]).await.unwrap_err();
    assert_eq!(error.class(), Class::Transient, "{error}");
    lane.rollback().await.unwrap();
    lane.begin(&fixture.consumer).await.unwrap();
    let states = lane.lock_states(&target, std::slice::from_ref(&key)).await.unwrap();
    assert_eq!(states[&key], Cell::Text("paid".into()));
    lane.rollback().await.unwrap();
}
