//! The broker is killed, frozen, or its connections carry nothing: `/readyz` says so, busy or idle, and the host goes on by
//! itself.

use std::{sync::Arc, time::Duration};

use tidegate_tests::{
    Broker,
    fault::{Ending, Faults, Proxy, Swallow},
    host::HostProcess,
    postgres,
    services::{Folder, Kafka},
    wait,
    workload::Workload,
};

use crate::payments::{Payments, distinct};

const EVENTS: Workload = Workload { messages: 12_000, seed: 45 };

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_away_is_told_and_waited_for() {
    let folder = Folder::new().unwrap();
    let proxy = Proxy::ahead();
    let (mut kafka, behind) = Kafka::start_behind(folder.path(), proxy.port()).unwrap();
    proxy.retarget(&behind);
    let payments = Arc::new(Payments::new(Broker::at(&kafka.bootstrap()), postgres().await, 4).await);
    let setup = payments
        .setup()
        .with_kafka("bootstrap.servers", &proxy.address())
        .with_health("silent_after", "3s")
        .with_kafka("session.timeout.ms", "6000")
        // A minute by default: the client itself notices a silent connection so late.
        .with_kafka("socket.timeout.ms", "5000");
    let events = distinct(EVENTS.events());
    let mut portions = events.chunks(1_000);
    let mut publisher = payments.publisher();
    let mut host = HostProcess::start("host", &setup);
    host.ready().await;
    publisher.publish(portions.next().unwrap());
    host.alive_during(payments.until_consumed()).await;

    // Gone, with nothing to do.
    kafka.kill();
    host.until_not_ready("Kafka: has not answered").await;
    kafka.resume().unwrap();
    host.ready().await;
    publisher.publish(portions.next().unwrap());
    host.alive_during(payments.until_consumed()).await;

    // There, and silent.
    publisher.publish(portions.next().unwrap());
    kafka.freeze();
    host.until_not_ready("Kafka: has not answered").await;
    kafka.thaw();
    host.alive_during(payments.until_consumed()).await;
    host.ready().await;

    // Every connection half open, in one way or the other; new ones work.
    for (link, swallow) in proxy.links().iter().zip([Swallow::ToClient, Swallow::ToServer].into_iter().cycle()) {
        link.set(Faults { swallow: Some(swallow), ..Faults::default() });
    }
    publisher.publish(portions.next().unwrap());
    host.alive_during(payments.until_consumed()).await;
    host.ready().await;

    // Nobody comes through for a while, then slowly.
    proxy.set(Faults { refuse: Some(Ending::Reset), ..Faults::default() });
    proxy.cut(Ending::Reset);
    publisher.publish(portions.next().unwrap());
    host.until_not_ready("Kafka: has not answered").await;
    proxy.set(Faults { latency: Duration::from_millis(50), bytes_per_second: Some(200_000), ..Faults::default() });
    host.alive_during(payments.until_consumed()).await;
    proxy.heal();
    host.ready().await;
    wait::until_true("Kafka is told", async || payments.committed() == payments.positions().await).await;

    host.terminate();
    assert_eq!(host.wait().code(), Some(0), "{}", host.log());
    payments.assert_each_applied_once_whatever_came_again(&events[..5_000]).await;
}
