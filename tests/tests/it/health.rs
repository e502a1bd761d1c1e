//! `/readyz` says no where no progress is possible, with the reason, and `/livez` only where nothing but a restart helps.

use std::sync::Arc;

use tidegate::fail_point::{Action, FailPoint};
use tidegate_tests::{
    Broker,
    fault::{Ending, Faults, Proxy},
    host::{Armed, HostProcess},
    kafka, postgres,
    services::{Folder, Kafka},
    wait,
    workload::Workload,
};

use crate::payments::Payments;

const EVENTS: Workload = Workload { messages: 300, seed: 51 };

/// What stands in the way is outside of the process: a restart would change nothing.
async fn assert_alive(host: &HostProcess) {
    let answer = host.get("/livez").await.expect("HTTP answers");
    assert_eq!((answer.status, answer.body.as_str()), (200, "live\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_without_a_broker_or_without_its_group_says_so_also_a_spare_one() {
    let folder = Folder::new().unwrap();
    let kafka = Kafka::start_set(folder.path(), "group.max.size=2").unwrap();
    let payments = Payments::new(Broker::at(&kafka.bootstrap()), postgres().await, 1).await;
    let setup = payments.setup().with_health("silent_after", "3s");
    let mut one = HostProcess::start("one", &setup);
    one.ready().await;
    // One partition, two members: it has none.
    let mut spare = HostProcess::start("spare", &setup);
    spare.ready().await;

    kafka.freeze();
    for host in [&mut one, &mut spare] {
        host.until_not_ready("Kafka: has not answered").await;
        assert_alive(host).await;
    }
    kafka.thaw();
    for host in [&mut one, &mut spare] {
        host.ready().await;
    }

    // Asleep until it is missed, and its place is another's: a full group lets it in no more.
    one.freeze();
    let mut third = HostProcess::start("third", &setup);
    third.ready().await;
    one.thaw();
    one.until_not_ready("group: is not let in again").await;
    assert_alive(&one).await;
    third.terminate();
    assert_eq!(third.wait().code(), Some(0), "{}", third.log());
    one.ready().await;
    for host in [&mut one, &mut spare] {
        host.terminate();
        assert_eq!(host.wait().code(), Some(0), "{}", host.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_gone_and_a_lane_that_is_stuck_are_told() {
    let database = postgres().await;
    let proxy = Proxy::of_database(database.url());
    let payments = Arc::new(Payments::new(kafka(), database, 1).await);
    let mut setup = payments
        .setup()
        .with_kafka("session.timeout.ms", "45000")
        .with_database("lock_timeout", "9s")
        .with_health("silent_after", "3s")
        .with_health("stuck_after", "2s");
    setup.database_url = proxy.url(payments.database.url());
    let mut host = HostProcess::start("host", &setup);
    host.ready().await;

    // With nothing to do.
    proxy.set(Faults { refuse: Some(Ending::Reset), ..Faults::default() });
    proxy.cut(Ending::Reset);
    host.until_not_ready("database: has not answered").await;
    assert_alive(&host).await;
    proxy.heal();
    host.ready().await;

    // A statement that takes long, for whatever reason: nothing has failed.
    let mut rival = payments.database.pool().begin().await.unwrap();
    sqlx::query("LOCK TABLE settlements IN EXCLUSIVE MODE").execute(&mut *rival).await.unwrap();
    let events = EVENTS.events();
    payments.publish(&events);
    host.until_not_ready("and finished none of it").await;
    assert_alive(&host).await;
    rival.rollback().await.unwrap();
    host.alive_during(payments.until_consumed()).await;
    host.ready().await;
    host.terminate();
    assert_eq!(host.wait().code(), Some(0), "{}", host.log());
    payments.assert_each_applied_once(&events).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_beyond_help_is_not_alive() {
    let payments = Payments::new(kafka(), postgres().await, 1).await;
    let setup = payments.setup().with_health("dead_after", "3s");
    let armed = Armed { point: FailPoint::OffsetsCommitted, hit: 1, action: Action::Hang };
    let mut host = HostProcess::start_armed("host", &setup, armed);
    let events = EVENTS.events();
    payments.publish(&events);
    // The thread that serves the group; the others go on.
    let alive = async || host.get("/livez").await.map(|answer| (answer.status, answer.body));
    let dead = (503, "stuck: restart this process\n".to_owned());
    wait::until("it is not alive", alive, |answer| answer.as_ref() == Some(&dead)).await;
    let ready = host.get("/readyz").await.expect("HTTP answers");
    assert!(ready.status == 503 && ready.body.contains("group: was not served for"), "{ready:?}");
    assert!(host.log().contains("fail point offsets-committed: reached"), "{}", host.log());
    // Whoever watches over it does what is left to do.
    host.kill();
    payments.run_to_the_end().await;
    payments.assert_each_applied_once_and_little_came_again(&events, Some(1)).await;
}
