//! Kafka and the database disagree about where a consumer stands, because one of them has forgotten, or an operator has set
//! Kafka's offset: whichever is behind decides (Invariant 1), and what is read again is a duplicate.

use tidegate_tests::{
    host::HostProcess,
    kafka, postgres, wait,
    workload::{Event, Workload},
};

use crate::payments::{Payments, Publisher};

const EVENTS: Workload = Workload { messages: 8_000, seed: 14 };
/// So many of them are consumed before anybody forgets anything.
const BEFORE: usize = 5_000;

/// A consumer that has come so far and was stopped, and whoever publishes the rest.
struct Past {
    payments: Payments,
    publisher: Publisher,
    events: Vec<Event>,
}

impl Past {
    async fn new() -> Self {
        let payments = Payments::new(kafka(), postgres().await, 4).await;
        let events = EVENTS.events();
        let mut publisher = payments.publisher();
        publisher.publish(&events[..BEFORE]);
        payments.run_to_the_end().await;
        Self { payments, publisher, events }
    }
}

#[tokio::test]
async fn a_database_restored_to_an_older_state_gets_back_what_it_lost() {
    let Past { payments, mut publisher, events } = Past::new().await;
    let after = &events[BEFORE..];
    let backup = payments.database.snapshot().await;

    publisher.publish(after);
    payments.run_to_the_end().await;
    payments.assert_each_applied_once(&events).await;

    payments.database.restore(&backup).await;
    assert_ne!(payments.committed(), payments.positions().await, "Kafka is ahead of what the database remembers");
    payments.run_to_the_end().await;
    payments.assert_each_applied_once(&events).await;
}

#[tokio::test]
async fn a_host_with_nothing_to_do_notices_that_its_database_went_back() {
    let Past { payments, mut publisher, events } = Past::new().await;
    let after = &events[BEFORE..];
    let backup = payments.database.snapshot().await;

    publisher.publish(after);
    let mut host = HostProcess::start("host", &payments.setup());
    host.alive_during(payments.until_consumed()).await;
    host.alive_during(payments.until_committed()).await;
    // Nothing more is published: no batch of the host's would run into the chain that is shorter now.
    payments.database.restore(&backup).await;
    host.alive_during(payments.until_consumed()).await;
    host.terminate();
    assert_eq!(host.wait().code(), Some(0), "{}", host.log());
    payments.assert_each_applied_once(&events).await;
}

#[tokio::test]
async fn a_host_whose_whole_life_its_database_has_lost_begins_anew() {
    let payments = Payments::new(kafka(), postgres().await, 4).await;
    // From before the consumer was registered.
    let backup = payments.database.snapshot().await;
    let events = EVENTS.events();
    let (before, after) = events.split_at(BEFORE);
    let mut publisher = payments.publisher();
    publisher.publish(before);
    // A rebalance may take half a session: enough on a busy machine to begin everything anew.
    let setup = payments.setup().with_kafka("session.timeout.ms", "20000");
    let mut host = HostProcess::start("host", &setup);
    host.alive_during(payments.until_consumed()).await;
    payments.database.restore(&backup).await;
    // Some lanes have work, some may not.
    publisher.publish(after);
    host.alive_during(payments.until_consumed()).await;
    host.terminate();
    assert_eq!(host.wait().code(), Some(0), "{}", host.log());
    payments.assert_each_applied_once(&events).await;
}

#[tokio::test]
async fn offsets_that_kafka_has_forgotten_are_known_to_the_database() {
    let Past { payments, mut publisher, events } = Past::new().await;
    let after = &events[BEFORE..];

    payments.broker.delete_group(&payments.group).await;
    assert_eq!(payments.committed(), [0; 4], "Kafka knows nothing");
    publisher.publish(after);
    payments.run_to_the_end().await;
    // Nothing was read a second time: each record is counted once.
    payments.assert_each_applied_once(&events).await;
    assert_eq!(payments.committed(), payments.positions().await);
}

#[tokio::test]
async fn an_operator_s_rewind_is_honoured_and_gives_duplicates_only() {
    let payments = Payments::new(kafka(), postgres().await, 4).await;
    let events = EVENTS.events();
    payments.publish(&events);
    payments.run_to_the_end().await;

    let ends = payments.positions().await;
    for partition in 0..4 {
        payments.broker.set_committed(&payments.group, &payments.topic, partition, 0);
    }
    // The chains say that everything was consumed, so their position is no sign of the end here; their total is.
    let total = 2 * i64::try_from(events.len()).unwrap();
    let mut host = HostProcess::start("host", &payments.setup());
    let again = wait::until("all is read again", async || payments.totals().await.consumed, |&n| n >= total);
    host.alive_during(again).await;
    host.terminate();
    assert_eq!(host.wait().code(), Some(0), "{}", host.log());
    assert_eq!(payments.positions().await, ends);
    assert_eq!(payments.totals().await.consumed, total);
    payments.assert_each_applied_once_whatever_came_again(&events).await;
}

#[tokio::test]
async fn kafka_is_told_while_the_host_lives() {
    let payments = Payments::new(kafka(), postgres().await, 4).await;
    let mut host = HostProcess::start("host", &payments.setup());
    let mut publisher = payments.publisher();
    for events in EVENTS.events().chunks(2_000) {
        publisher.publish(events);
        host.alive_during(payments.until_consumed()).await;
        host.alive_during(payments.until_committed()).await;
    }
}
