//! A broker that hangs (its connections stay, nothing answers) while members come and go.

use std::{sync::Arc, time::Duration};

use tidegate_tests::{
    Broker,
    host::HostProcess,
    postgres,
    services::{Folder, Kafka},
    wait,
    workload::Workload,
};
use tokio::time::sleep;

use crate::payments::{Load, Payments};

const EVENTS: Workload = Workload { messages: 200_000, seed: 23 };

#[tokio::test]
async fn a_broker_that_hangs_in_the_middle_of_a_rebalance_costs_no_record() {
    let folder = Folder::new().unwrap();
    let kafka = Kafka::start(folder.path()).unwrap();
    let payments = Arc::new(Payments::new(Broker::at(&kafka.bootstrap()), postgres().await, 4).await);
    let load = Load::start(&payments, EVENTS.events());
    let mut one = HostProcess::start("one", &payments.setup());
    let consumed = async || payments.totals().await.consumed;
    one.alive_during(wait::until("one works", consumed, |&n| n > 1_000)).await;

    let mut other = HostProcess::start("other", &payments.setup());
    let mut leaving = HostProcess::start("leaving", &payments.setup());
    let steps = async || one.metric("tidegate_rebalances_total").await.unwrap_or_default();
    let before = steps().await;
    wait::until("the group rebalances", steps, |&steps| steps > before).await;
    kafka.freeze();
    // Told to stop while nobody answers, it goes without a goodbye.
    leaving.terminate();
    sleep(Duration::from_secs(6)).await;
    assert_eq!(leaving.wait().code(), Some(0), "{}", leaving.log());
    kafka.thaw();

    let before = consumed().await;
    wait::until("they go on", consumed, |&n| n > before + 1_000).await;
    let events = load.stop().await;
    payments.until_consumed().await;
    for host in [&mut one, &mut other] {
        assert!(host.is_running());
        host.terminate();
        assert_eq!(host.wait().code(), Some(0), "{}", host.log());
    }
    // Whoever gave partitions away meanwhile could not tell Kafka how far they were.
    payments.assert_each_applied_once_whatever_came_again(&events).await;
}
