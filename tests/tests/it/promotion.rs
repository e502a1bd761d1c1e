//! The database fails over to a standby that lacks the last commits, while Kafka remembers all offsets: the host goes back to
//! what the database knows, by itself, whether there is something to read or not.

use std::sync::Arc;

use tidegate_tests::{
    Database,
    fault::{Ending, Proxy, Standby},
    host::HostProcess,
    kafka,
    services::{Durability, Folder, Postgres},
    wait,
    workload::Workload,
};

use crate::payments::{Load, Payments, distinct};

/// The host's way to the database and the test's own: whoever is the primary stands behind it.
async fn promote(primary: &mut Postgres, standby: Standby, proxy: &Proxy, host: &mut HostProcess) -> Postgres {
    primary.kill();
    // A failover that has moved the address before it has promoted: the server answers, and takes no writes.
    proxy.retarget(&standby.server().address());
    proxy.cut(Ending::Reset);
    host.until_not_ready("recovery").await;
    let promoted = standby.promote().await;
    proxy.cut(Ending::Reset);
    promoted
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_that_lacks_the_last_commits_gets_them_again() {
    let folder = Folder::new().unwrap();
    let mut first = Postgres::start(folder.path(), Durability::None).unwrap();
    let proxy = Proxy::start(&first.address());
    let database = Database::on(&proxy.url(&first.url())).await;
    let payments = Arc::new(Payments::new(kafka(), database, 4).await);
    let standby = Standby::of(&first, folder.path()).await.unwrap();

    let load = Load::start(&payments, distinct(Workload { messages: 200_000, seed: 42 }.events()));
    let mut host = HostProcess::start("host", &payments.setup());
    host.ready().await;
    let consumed = async || payments.totals().await.consumed;
    host.alive_during(wait::until("the host works", consumed, |&consumed| consumed > 1_000)).await;

    // Under load.
    standby.caught_up(&first).await;
    standby.stop_receiving().await;
    let before = payments.totals().await.consumed;
    host.alive_during(wait::until("commits get lost", consumed, |&consumed| consumed > before + 2_000)).await;
    let known = payments.positions().await;
    let mut second = promote(&mut first, standby, &proxy, &mut host).await;
    host.ready().await;
    let events = load.stop().await;
    host.alive_during(payments.until_consumed()).await;
    assert!(payments.positions().await.iter().zip(&known).all(|(at, known)| at >= known));
    payments.assert_each_applied_once_whatever_came_again(&events).await;

    // With nothing to read, and a standby of what was a standby.
    let standby = Standby::of(&second, folder.path()).await.unwrap();
    standby.caught_up(&second).await;
    standby.stop_receiving().await;
    let more = distinct(Workload { messages: 3_000, seed: 43 }.events());
    let known: std::collections::BTreeSet<_> = events.iter().map(|event| &event.event_id).collect();
    let more: Vec<_> = more.into_iter().filter(|event| !known.contains(&event.event_id)).collect();
    payments.publish(&more);
    host.alive_during(payments.until_consumed()).await;
    host.alive_during(payments.until_committed()).await;
    let third = promote(&mut second, standby, &proxy, &mut host).await;
    host.alive_during(payments.until_consumed()).await;
    host.ready().await;
    host.terminate();
    assert_eq!(host.wait().code(), Some(0), "{}", host.log());
    let all: Vec<_> = events.into_iter().chain(more).collect();
    payments.assert_each_applied_once_whatever_came_again(&all).await;
    assert!(host.log().contains("the database has forgotten"), "{}", host.log());
    drop(third);
}
