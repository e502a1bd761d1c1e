//! Events as they come in production: JSON, a plugin in its sandbox, the host a process of its own.

use tidegate::config::Dialect;
use tidegate_tests::{
    Message, Sql,
    host::{self, HostProcess, Setup},
    oracle,
    oracle::Totals,
    settlement::CONSUMER,
    sqlite,
    workload::Event,
};

use crate::{
    kafka_scene::{Scene, on_both_databases},
    run_command::consumer,
};

on_both_databases! {
    what_is_no_json_or_has_no_id_is_a_dead_letter_among_applied_neighbours: 1,
}

/// The demo's tables, and a host for the scene's topic.
async fn setup(scene: &Scene<impl Sql>) -> Setup {
    let tables = match scene.database.dialect() {
        Dialect::Postgres => include_str!("../../../config/demo/postgres.sql"),
        Dialect::Sqlite => include_str!("../../../config/demo/sqlite.sql"),
    };
    scene.database.execute(tables).await;
    Setup::new(scene.database.url(), &scene.broker, consumer(&scene.topic, "settlements"))
}

/// The first event of a payment of its own.
fn event(id: &str, cents: i64) -> Event {
    let (order_id, payment_id) = (format!("o-{id}"), format!("p-{id}"));
    Event { event_id: id.to_owned(), order_id, payment_id, version: 1, cents, at: 0 }
}

/// Runs this host until all that is in the topic is consumed.
async fn consume(scene: &Scene<impl Sql>, host: &mut HostProcess) {
    host.alive_during(oracle::until_consumed(&scene.database, &scene.broker, CONSUMER, &scene.topic)).await;
}

fn end(host: &mut HostProcess) {
    host.terminate();
    assert_eq!(host.wait().code(), Some(0), "{}", host.log());
}

async fn what_is_no_json_or_has_no_id_is_a_dead_letter_among_applied_neighbours(scene: Scene<impl Sql>) {
    let setup = setup(&scene).await;
    let json = event("e1", 100).json();
    let messages = [
        Message::new(json.as_str()),
        Message::new(&json[..json.len() / 2]),
        Message::new(json.replace(r#""event_id":"e1","#, "")),
        Message::tombstone("o-e1"),
        Message::new(json.as_str()),
        Message::new(event("e1", 900).json()),
        Message::new(event("e2", 50).json()),
    ];
    scene.broker.producer(&[]).send(&scene.topic, messages.into_iter().map(|message| message.to(0)));
    let mut host = HostProcess::start("host", &setup);
    consume(&scene, &mut host).await;
    end(&mut host);

    let expected = Totals { consumed: 7, applied: 2, duplicate: 2, skipped: 1, dead: 2, ..Totals::default() };
    assert_eq!(oracle::totals(&scene.database, CONSUMER).await, expected);
    oracle::assert_ledger(&scene.database, CONSUMER, &["e1", "e2"].map(str::to_owned).into()).await;
    oracle::assert_chain_tiles(&scene.database, CONSUMER).await;
    let dead = r#"SELECT "offset" FROM dead_letters ORDER BY "offset""#;
    assert_eq!(scene.database.texts(dead).await, ["1", "2"]);
    assert_eq!(scene.database.number("SELECT count(*) FROM payload_conflicts").await, 1);
    let cents = "SELECT payment_id || ' ' || CAST(CAST(amount AS real) * 100 AS bigint) FROM settlements ORDER BY 1";
    assert_eq!(scene.database.texts(cents).await, ["p-e1 100", "p-e2 50"]);
}

/// One process, one writer: several hosts are PostgreSQL's.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_host_on_a_sqlite_file_is_refused_until_the_first_is_gone() {
    let scene = Scene::on(sqlite(), 2).await;
    let setup = setup(&scene).await;
    let produce = |events: &[Event]| scene.broker.producer(&[]).send(&scene.topic, events.iter().map(Event::message));
    let mut first = HostProcess::start("first", &setup);
    first.ready().await;

    let refused = host::run_once(&setup, &["run"]);
    let words = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{words}");
    let owner = format!("another process (process {}) works on", first.pid());
    assert!(words.contains(&owner) && words.contains("use PostgreSQL for several hosts"), "{words}");
    let status = host::run_once(&setup, &["status"]);
    assert!(status.status.success(), "reading needs no lock: {}", String::from_utf8_lossy(&status.stderr));

    produce(&[event("e1", 1), event("e2", 1)]);
    consume(&scene, &mut first).await;
    first.kill();
    produce(&[event("e2", 1), event("e3", 1)]);
    let mut second = HostProcess::start("second", &setup);
    consume(&scene, &mut second).await;
    end(&mut second);
    assert_eq!(oracle::totals(&scene.database, CONSUMER).await.applied, 3);
    oracle::assert_ledger(&scene.database, CONSUMER, &["e1", "e2", "e3"].map(str::to_owned).into()).await;
    oracle::assert_chain_tiles(&scene.database, CONSUMER).await;
}
