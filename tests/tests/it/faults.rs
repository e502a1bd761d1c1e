//! The fault primitives do what they say, or every test that uses them proves nothing.

use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection};
use tidegate_tests::{
    Database,
    fault::{Crowd, Ending, Faults, Moment, Nth, Provoked, Proxy, Rival, Standby, Swallow},
    postgres,
    services::{Durability, Folder, Postgres, Shape},
    wait,
};
use tokio::time::timeout;

/// Longer than any answer of a server that answers.
const LONG: Duration = Duration::from_secs(20);
/// How long an answer is waited for that must not come.
const A_WHILE: Duration = Duration::from_millis(500);

async fn connect(proxy: &Proxy, database: &Database) -> PgConnection {
    PgConnection::connect(&proxy.url(database.url())).await.unwrap()
}

#[tokio::test]
async fn a_connection_is_cut_before_during_and_after_its_commit() {
    let database = postgres().await;
    database.execute("CREATE TABLE t (n int PRIMARY KEY)").await;
    let proxy = Proxy::of_database(database.url());
    let mut number = 0;
    for (moment, there) in [(Moment::Before, false), (Moment::During, true), (Moment::After, true)] {
        for extended in [false, true] {
            number += 1;
            let mut connection = connect(&proxy, &database).await;
            connection.execute("BEGIN").await.unwrap();
            let insert = sqlx::AssertSqlSafe(format!("INSERT INTO t VALUES ({number})"));
            connection.execute(insert).await.unwrap();
            // The first COMMIT goes through, and it is somebody else's.
            proxy.cut_at_commit(moment, Nth::Once(2));
            connect(&proxy, &database).await.execute("BEGIN; COMMIT").await.unwrap();
            let committed = if extended {
                sqlx::query("COMMIT").execute(&mut connection).await.map(drop)
            } else {
                connection.execute(sqlx::raw_sql("SET CONSTRAINTS ALL IMMEDIATE; COMMIT")).await.map(drop)
            };
            assert!(matches!(committed, Err(sqlx::Error::Io(_))), "{moment:?}: {committed:?}");
            let rows = format!("SELECT count(*) FROM t WHERE n = {number}");
            if there {
                let what = format!("{moment:?}: it is committed");
                wait::until(&what, async || database.number(&rows).await, |&rows| rows == 1).await;
            } else {
                let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                            AND state LIKE 'idle in transaction%'";
                wait::until("it is rolled back", async || database.number(open).await, |&open| open == 0).await;
                assert_eq!(database.number(&rows).await, 0);
            }
            assert_eq!(proxy.commits_cut(), number);
        }
    }
}

#[tokio::test]
async fn connections_are_refused_swallowed_slowed_and_sent_elsewhere() {
    let (one, other) = (postgres().await, postgres().await);
    let proxy = Proxy::of_database(one.url());
    let mut connection = connect(&proxy, &one).await;
    connection.execute("SELECT 1").await.unwrap();
    assert_eq!(proxy.cut(Ending::Reset), 1);
    assert!(connection.execute("SELECT 1").await.is_err());

    for ending in [Ending::Reset, Ending::Close] {
        proxy.set(Faults { refuse: Some(ending), ..Faults::default() });
        assert!(PgConnection::connect(&proxy.url(one.url())).await.is_err(), "{ending:?}");
    }
    proxy.set(Faults { latency: Duration::from_millis(20), bytes_per_second: Some(100_000), ..Faults::default() });
    timeout(LONG, async { connect(&proxy, &one).await.execute("SELECT 1").await.unwrap() }).await.unwrap();
    proxy.heal();

    for swallow in [Swallow::ToServer, Swallow::ToClient, Swallow::Both] {
        let mut connection = connect(&proxy, &one).await;
        let mut beside = connect(&proxy, &one).await;
        let links = proxy.links();
        links[links.len() - 2].set(Faults { swallow: Some(swallow), ..Faults::default() });
        assert!(timeout(A_WHILE, connection.execute("SELECT 1")).await.is_err(), "{swallow:?}");
        timeout(LONG, beside.execute("SELECT 1")).await.unwrap().unwrap();
        proxy.cut(Ending::Close);
    }

    // Another database is as good as another server here.
    let target = one.url().rsplit_once('@').unwrap().1.split('/').next().unwrap();
    let fresh = Proxy::ahead();
    assert!(PgConnection::connect(&fresh.url(other.url())).await.is_err(), "nobody is there yet");
    fresh.retarget(target);
    connect(&fresh, &other).await.execute("SELECT 1").await.unwrap();
}

#[tokio::test]
async fn a_promoted_standby_lacks_what_it_has_not_received() {
    let folder = Folder::new().unwrap();
    let mut primary = Postgres::start(folder.path(), Durability::None).unwrap();
    let database = Database::on(&primary.url()).await;
    database.execute("CREATE TABLE t (n int); INSERT INTO t VALUES (1)").await;
    let standby = Standby::of(&primary, folder.path()).await.unwrap();
    database.execute("INSERT INTO t VALUES (2)").await;
    standby.caught_up(&primary).await;
    standby.stop_receiving().await;
    database.execute("INSERT INTO t VALUES (3)").await;
    let there = database.url().replace(&primary.address(), &standby.server().address());
    let mut connection = PgConnection::connect(&there).await.unwrap();
    let refused = connection.execute("INSERT INTO t VALUES (4)").await.unwrap_err();
    assert_eq!(refused.as_database_error().unwrap().code().as_deref(), Some("25006"), "{refused}");

    primary.kill();
    let promoted = standby.promote().await;
    let sum: i64 = sqlx::query_scalar("SELECT sum(n) FROM t").fetch_one(&mut connection).await.unwrap();
    assert_eq!(sum, 3, "what came last is lost");
    connection.execute("INSERT INTO t VALUES (5)").await.unwrap();

    // And a new one of it; the killed one comes back as well, on its own data.
    let again = Standby::of(&promoted, folder.path()).await.unwrap();
    again.caught_up(&promoted).await;
    primary.resume().unwrap();
    assert_eq!(database.number("SELECT sum(n) FROM t").await, 6);
}

#[tokio::test]
async fn rivals_provoke_what_databases_refuse() {
    let database = postgres().await;
    database.execute("CREATE TABLE t (n int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0), (2, 0)").await;
    let code = |result: Result<_, sqlx::Error>| {
        result.err().and_then(|error| error.as_database_error()?.code().map(|code| code.into_owned()))
    };

    // A circle of locks, and the rival is never its victim.
    let mut rival = Rival::begin(&database).await;
    rival.run("UPDATE t SET v = 1 WHERE n = 2").await.unwrap();
    let mut victim = database.pool().begin().await.unwrap();
    victim.execute("UPDATE t SET v = 2 WHERE n = 1").await.unwrap();
    let circle = rival.close_the_circle(&database, "UPDATE t SET v = 1 WHERE n = 1");
    let victim = async move {
        let refused = victim.execute("UPDATE t SET v = 2 WHERE n = 2").await;
        victim.rollback().await.unwrap();
        refused
    };
    let (closed, refused) = tokio::join!(circle, victim);
    assert_eq!(closed.unwrap(), 1);
    assert_eq!(code(refused).as_deref(), Some("40P01"));
    rival.end().await;

    let provoked = Provoked::on(&database, "t").await;
    provoked.refuse(&database, "40001", 2).await;
    for _ in 0..2 {
        let refused = database.pool().execute("UPDATE t SET v = 3").await;
        assert_eq!(code(refused).as_deref(), Some("40001"));
    }
    database.execute("UPDATE t SET v = 3").await;
    assert_eq!(provoked.refused(&database).await, 2);
}

#[tokio::test]
async fn all_connections_can_be_taken() {
    let folder = Folder::new().unwrap();
    let shape = Shape::from(Durability::None).with("max_connections=8").with("superuser_reserved_connections=0");
    let mut server = Postgres::start(folder.path(), shape).unwrap();
    let crowd = Crowd::take_all(&server.url()).await;
    assert!((1..=8).contains(&crowd.len()), "{}", crowd.len());
    assert!(PgConnection::connect(&server.url()).await.is_err());
    drop(crowd);
    wait::until_true("there is room again", async || PgConnection::connect(&server.url()).await.is_ok()).await;

    // Killed with a statement under way, it starts again nevertheless.
    let mut busy = PgConnection::connect(&server.url()).await.unwrap();
    let (sleeping, ()) = tokio::join!(timeout(LONG, busy.execute("SELECT pg_sleep(2)")), async { server.kill() });
    assert!(sleeping.is_ok());
    assert!(!server.is_running());
    server.resume().unwrap();
    assert!(server.is_running() && PgConnection::connect(&server.url()).await.is_ok());
}
