//! The database has no connection left for the host, is killed, and is stopped in every way: it is waited for.

use std::sync::Arc;

use tidegate_tests::{
    Database,
    fault::{Crowd, Ending, Faults, Proxy},
    host::{HostProcess, Setup},
    kafka,
    services::{Durability, Folder, Postgres, Shape},
    wait,
    workload::Workload,
};

use crate::payments::{Load, Payments, distinct};

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_a_connection_left_is_waited_for() {
    let folder = Folder::new().unwrap();
    let shape = Shape::from(Durability::Fsync).with("max_connections=24");
    let mut server = Postgres::start(folder.path(), shape).unwrap();
    let payments = Arc::new(Payments::new(kafka(), Database::on(&server.url()).await, 4).await);
    let proxy = Proxy::of_database(&server.url());
    let setup = Setup { database_url: proxy.url(payments.database.url()), ..payments.setup() };
    let load = Load::start(&payments, distinct(Workload { messages: 200_000, seed: 46 }.events()));

    // At its start.
    let crowd = Crowd::take_all(&server.url()).await;
    let mut host = HostProcess::start("host", &setup);
    host.until_not_ready("53300").await;
    drop(crowd);
    host.ready().await;
    let consumed = async || payments.totals().await.consumed;
    host.alive_during(wait::until("the host works", consumed, |&consumed| consumed > 500)).await;

    // Under way: it has lost its own, and somebody else has taken them.
    proxy.set(Faults { refuse: Some(Ending::Reset), ..Faults::default() });
    proxy.cut(Ending::Reset);
    let crowd = Crowd::take_all(&server.url()).await;
    proxy.heal();
    host.until_not_ready("53300").await;
    drop(crowd);
    host.ready().await;

    let before = payments.totals().await.consumed;
    host.alive_during(wait::until("the host goes on", consumed, |&consumed| consumed > before + 500)).await;
    server.kill();
    host.until_not_ready("connect to").await;
    server.resume().unwrap();
    host.ready().await;

    let events = load.stop().await;
    host.alive_during(payments.until_consumed()).await;
    host.terminate();
    assert_eq!(host.wait().code(), Some(0), "{}", host.log());
    payments.assert_each_applied_once_whatever_came_again(&events).await;
}
