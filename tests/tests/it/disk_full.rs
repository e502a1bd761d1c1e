//! The database's disk is full: first where the rows are, which is an error (53100), then where its log is, which is a panic.
//! No dead letter comes of it, and the host goes on by itself as soon as there is room.

use std::sync::Arc;

use tidegate_tests::{
    Database,
    fault::{Provoked, Proxy, SmallDisk},
    host::HostProcess,
    kafka, postgres,
    services::{Durability, Folder, Postgres, Shape},
    wait,
    workload::Workload,
};

use crate::payments::{Load, Payments, distinct};

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_costs_time_and_no_message() {
    let events = distinct(Workload { messages: 600_000, seed: 44 }.events());
    let disks = SmallDisk::mount(24).zip(SmallDisk::mount(192));
    let Some((rows_disk, data_disk)) = disks else { return simulated(events).await };

    let folder = Folder::new().unwrap();
    let mut shape = Shape::from(Durability::Fsync).with("max_wal_size=64MB");
    shape.disk = Some(data_disk.path().to_owned());
    let mut server = Postgres::start(folder.path(), shape).unwrap();
    server.give(rows_disk.path()).unwrap();
    let proxy = Proxy::start(&server.address());
    let database = Database::on(&proxy.url(&server.url())).await;
    let payments = Arc::new(Payments::new(kafka(), database, 4).await);
    let place = rows_disk.path().display();
    payments.database.execute(&format!("CREATE TABLESPACE small LOCATION '{place}'")).await;
    payments.database.execute("ALTER TABLE settlements SET TABLESPACE small").await;

    let load = Load::start(&payments, events);
    let mut host = HostProcess::start("host", &payments.setup());
    host.ready().await;
    let consumed = async || payments.totals().await.consumed;

    rows_disk.fill(64);
    host.until_not_ready("53100").await;
    rows_disk.free();
    host.ready().await;
    let before = payments.totals().await.consumed;
    host.alive_during(wait::until("the host goes on", consumed, |&consumed| consumed > before)).await;

    data_disk.fill(0);
    // The log itself is full as soon as somebody writes a segment of it.
    let much = "SELECT pg_logical_emit_message(true, 'much', repeat('x', 4000000))";
    let panics = async || {
        let written = payments.database.try_number(&format!("SELECT length(({much})::text)")).await;
        (written.is_err(), server.log().matches("PANIC:").count() > 0)
    };
    wait::until("the server panics", panics, |(_, panicked)| *panicked).await;
    host.until_not_ready("tries its batch again").await;
    data_disk.free();
    // It may have given up, and it may still be trying to recover.
    server.stop();
    server.resume().unwrap();
    host.ready().await;
    let before = payments.totals().await.consumed;
    host.alive_during(wait::until("the host goes on", consumed, |&consumed| consumed > before)).await;
    finish(&payments, host, load).await;
}

/// Where nothing can be mounted: the server says that its disk is full, and it is not.
async fn simulated(events: Vec<tidegate_tests::workload::Event>) {
    let payments = Arc::new(Payments::new(kafka(), postgres().await, 4).await);
    let provoked = Provoked::on(&payments.database, "settlements").await;
    let load = Load::start(&payments, events);
    let mut host = HostProcess::start("host", &payments.setup());
    host.ready().await;
    provoked.refuse(&payments.database, "53100", 1_000).await;
    host.until_not_ready("53100").await;
    provoked.stop(&payments.database).await;
    host.ready().await;
    finish(&payments, host, load).await;
}

async fn finish(payments: &Payments, mut host: HostProcess, load: Load) {
    let events = load.stop().await;
    host.alive_during(payments.until_consumed()).await;
    host.ready().await;
    host.terminate();
    assert_eq!(host.wait().code(), Some(0), "{}", host.log());
    payments.assert_each_applied_once_whatever_came_again(&events).await;
}
