//! Session settings, failed commits, deferred constraints, lost connections, altered tables, the schema.

use super::*;

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
    assert_eq!(lane.insert_ledger(&fixture.consumer, std::slice::from_ref(&row)).await.unwrap(), [0]);
    let mut other = fixture.lane().await;
    other.begin(&fixture.consumer).await.unwrap();
    let race = other.insert_ledger(&fixture.consumer, std::slice::from_ref(&row)).await.unwrap_err();
    assert_eq!(
        (race.sqlstate.as_deref(), race.class()),
        (Some("55P03"), Class::Transient),
        "waits, no longer than lock_timeout"
    );
    other.rollback().await.unwrap();
    // Begun before the commit that it has to see.
    other.begin(&fixture.consumer).await.unwrap();
    lane.commit().await.unwrap();
    assert_eq!(other.insert_ledger(&fixture.consumer, std::slice::from_ref(&row)).await.unwrap(), Vec::<usize>::new());
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
    fixture.database.execute("ALTER TABLE t ALTER v TYPE bigint; UPDATE t SET v = 0").await;
    lane.begin(&fixture.consumer).await.unwrap();
    // Whether the plan is noticed to be stale or quietly made anew, no record is to blame.
    if let Err(error) = lane.write(std::slice::from_ref(&target), &all).await {
        assert_eq!((error.class(), error.connection_lost), (Class::Transient, true), "{error}");
        lane = fixture.lane().await;
        lane.begin(&fixture.consumer).await.unwrap();
        lane.write(std::slice::from_ref(&target), &all).await.unwrap();
    }
    lane.commit().await.unwrap();
    assert_eq!(fixture.database.number("SELECT v FROM t").await, 5);
}

#[tokio::test]
async fn a_foreign_table_of_the_same_name_is_refused_with_the_way_out() {
    let database = postgres().await;
    database.execute("CREATE TABLE consumers (id int)").await;
    let url = |url: &str| DatabaseConfig::new(Secret::new(url), Dialect::Postgres);
    let store = PostgresStore::open(&url(database.url()), Timeouts::default()).unwrap();
    let error = store.migrate().await.unwrap_err();
    assert!(error.to_string().contains("search_path%3Dtidegate"), "{error}");
    // Nothing needs to fail for it to be known.
    let pending = store.pending().await.unwrap();
    assert_eq!(pending.clashes, ["consumers"]);
    assert!(pending.creates.iter().any(|name| name == "processed_messages"), "{pending:?}");
    // The way out works.
    database.execute("CREATE SCHEMA tidegate").await;
    let with = if database.url().contains('?') { "&" } else { "?" };
    let own = format!("{}{with}options=-c%20search_path%3Dtidegate,public", database.url());
    let store = PostgresStore::open(&url(&own), Timeouts::default()).unwrap();
    assert_eq!(store.pending().await.unwrap().clashes, [""; 0]);
    assert!(matches!(store.migrate().await.unwrap(), SchemaState::Current { .. }));
    assert!(matches!(store.migrate().await.unwrap(), SchemaState::Current { .. }));
    database.execute("INSERT INTO tidegate.tidegate_migrations VALUES (9, 'later', now(), true, '', 0)").await;
    assert!(matches!(store.migrate().await.unwrap(), SchemaState::Newer { found: 9, .. }));
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    // Accepts connections, and never a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://u@{}/d", silent.local_addr().unwrap());
    let config = DatabaseConfig::new(Secret::new(url), Dialect::Postgres);
    let timeouts = Timeouts { statement: Duration::from_millis(100), ..Timeouts::default() };
    let store = PostgresStore::open(&config, timeouts).unwrap();
    let error = store.schema_state().await.unwrap_err();
    assert_eq!((error.class(), error.connection_lost), (Class::Transient, true), "{error}");
}
