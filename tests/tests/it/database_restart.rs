//! The database goes away under load and comes back: the same host process goes on by itself, and nothing that was only the
//! infrastructure's fault becomes a dead letter (Invariant 6).

use std::sync::Arc;

use tidegate_tests::{
    Database,
    host::HostProcess,
    kafka,
    services::{Durability, Folder, Postgres},
    wait,
    workload::Workload,
};

use crate::payments::{Load, Payments};

#[tokio::test(flavor = "multi_thread")]
async fn the_host_outlives_a_crash_and_a_restart_of_its_database() {
    // A server of its own: the others' tests go on. With fsync: what was confirmed must survive.
    let folder = Folder::new().unwrap();
    let mut server = Postgres::start(folder.path(), Durability::Fsync).unwrap();
    let payments = Arc::new(Payments::new(kafka(), Database::on(&server.url()).await, 6).await);
    let load = Load::start(&payments, Workload { messages: 600_000, seed: 12 }.events());
    let mut host = HostProcess::start("host", &payments.setup());
    host.ready().await;

    for crash in [true, false, true] {
        let before = payments.totals().await.consumed;
        let what = format!("the host goes on from {before}");
        let going =
            wait::until(&what, async || payments.totals().await.consumed, |&consumed| consumed > before + 2_000);
        host.alive_during(going).await;
        if crash {
            server.crash();
        } else {
            server.stop();
        }
        wait::until_true("the host says that it is not ready", async || {
            host.get("/readyz").await.is_some_and(|answer| answer.status == 503)
        })
        .await;
        server.resume().unwrap();
    }

    let events = load.stop().await;
    host.alive_during(payments.until_consumed()).await;
    assert!(host.is_running());
    host.ready().await;
    host.terminate();
    assert_eq!(host.wait().code(), Some(0));
    payments.assert_each_applied_once_whatever_came_again(&events).await;
}
