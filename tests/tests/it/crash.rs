//! Hosts that are killed, frozen or asked to stop in the middle of their work: nothing is lost, nothing applied twice.

use std::{sync::Arc, time::Duration};

use tidegate_tests::{
    host::{HostProcess, Protocol},
    kafka, postgres, wait,
    workload::{Random, Workload},
};
use tokio::time::sleep;

use crate::{
    kafka_scene::under_both_protocols,
    payments::{Load, Payments, distinct},
};

/// Enough for the longest of these tests; what is not needed is never published.
const EVENTS: Workload = Workload { messages: 600_000, seed: 11 };

/// Deaths.
const ROUNDS: i64 = 20;

#[tokio::test]
async fn a_host_killed_twenty_times_under_load_applies_each_event_once() {
    let payments = Arc::new(Payments::new(kafka(), postgres().await, 6).await);
    let load = Load::start(&payments, EVENTS.events());
    // Another seed each time; it is printed with a failure.
    let seed = uuid::Uuid::new_v4().as_u64_pair().0;
    eprintln!("seed {seed}");
    let mut random = Random(seed);

    for round in 1..=ROUNDS {
        let mut host = HostProcess::start(&format!("round {round}"), &payments.setup());
        let before = payments.totals().await.consumed;
        // It has begun to work; the moment of its end is then anybody's guess.
        let what = format!("round {round}: the host goes on from {before}");
        let begun = wait::until(&what, async || payments.totals().await.consumed, |&consumed| consumed > before);
        host.alive_during(begun).await;
        sleep(Duration::from_micros(random.below(400_000) as u64)).await;
        host.kill();
    }
    assert!(!load.has_run_out(), "the load ended before the last kill");
    let events = load.stop().await;

    payments.run_to_the_end().await;
    payments.assert_each_applied_once_and_little_came_again(&events, Some(ROUNDS)).await;
}

async fn a_frozen_host_that_wakes_up_as_a_zombie_applies_nothing_twice(protocol: Protocol) {
    let payments = Arc::new(Payments::new(kafka(), postgres().await, 6).await);
    let load = Load::start(&payments, EVENTS.events());
    let setup = payments.setup().under(protocol);
    let mut hosts = ["one", "other"].map(|name| HostProcess::start(name, &setup));
    for host in &mut hosts {
        host.ready().await;
    }

    let share = async |host: &HostProcess| host.metric("tidegate_assigned_partitions").await.unwrap_or_default();
    for (round, frozen) in [0, 1, 0].into_iter().enumerate() {
        // A host without partitions would have nothing to lose.
        let shares = async || (share(&hosts[0]).await, share(&hosts[1]).await, payments.totals().await.consumed);
        let shared = |&(one, other, _): &(f64, f64, i64)| one > 0.0 && other > 0.0 && one + other == 6.0;
        wait::until(&format!("round {round}: both hosts have partitions"), shares, shared).await;
        let before = payments.positions().await;
        let moves = |at: &Vec<i64>| at.iter().zip(&before).all(|(at, before)| at > before);
        wait::until("both hosts work", async || payments.positions().await, moves).await;

        hosts[frozen].freeze();
        // A sleeper that had finished all of its own lies in nobody's way: that everything is consumed does not say that its
        // partitions have changed hands.
        let awake = 1 - frozen;
        let owned = async || (share(&hosts[awake]).await, payments.totals().await.consumed);
        wait::until(&format!("round {round}: the other host owns all partitions"), owned, |(share, _)| *share == 6.0)
            .await;
        // Once Kafka knows all of it, too, the group has settled.
        hosts[awake].alive_during(payments.until_consumed()).await;
        hosts[awake].alive_during(payments.until_committed()).await;
        let without = payments.totals().await.consumed;
        let what = format!("round {round}: the other host goes on alone");
        let alone =
            wait::until(&what, async || payments.totals().await.consumed, |&consumed| consumed > without + 2_000);
        hosts[awake].alive_during(alone).await;
        // The sleeper still holds records that it fetched and a tip that it believes in.
        let lost = r#"tidegate_rebalances_total{consumer="settlement-service",kind="lost"}"#;
        hosts[frozen].thaw();
        let sleeper = &hosts[frozen];
        let what = format!("round {round}: it is told that it has lost its partitions");
        let told = async || sleeper.metric(lost).await.unwrap_or_default() > 0.0;
        wait::until_true(&what, told).await;
    }

    let events = load.stop().await;
    payments.until_consumed().await;
    for host in &mut hosts {
        assert!(host.is_running(), "a fenced host rejoins, it does not give up");
        host.terminate();
        assert!(host.wait().success());
    }
    payments.assert_each_applied_once_and_little_came_again(&events, None).await;
}

under_both_protocols!(a_frozen_host_that_wakes_up_as_a_zombie_applies_nothing_twice);

#[tokio::test]
async fn a_terminated_host_leaves_nothing_to_be_delivered_again() {
    let payments = Arc::new(Payments::new(kafka(), postgres().await, 6).await);
    let load = Load::start(&payments, distinct(EVENTS.events()));
    for round in 1..=5 {
        let mut host = HostProcess::start(&format!("round {round}"), &payments.setup());
        let before = payments.totals().await.consumed;
        let what = format!("round {round}: the host goes on from {before}");
        let begun =
            wait::until(&what, async || payments.totals().await.consumed, |&consumed| consumed > before + 1_000);
        host.alive_during(begun).await;
        host.terminate();
        let status = host.wait();
        assert_eq!(status.code(), Some(0), "{}", host.log());
        assert_eq!(payments.committed(), payments.positions().await, "Kafka knows what the database knows");
    }
    let events = load.stop().await;
    payments.run_to_the_end().await;
    // No event was published twice, so a duplicate would be a redelivery; this holds that there is none.
    payments.assert_each_applied_once(&events).await;
}
