//! Topics that grow, and topics that come, while a consumer runs.

use tidegate_tests::{Message, host::Protocol, oracle, wait};
use uuid::Uuid;

use crate::{
    accounts::event,
    kafka_scene::{Scene, Wanted, under_both_protocols, until_ready},
};

const REFRESH: (&str, &str) = ("topic.metadata.refresh.interval.ms", "1000");

async fn partitions_added_while_it_runs_are_read_from_their_first_record(protocol: Protocol) {
    let scene = Scene::new(1).await.under(protocol).with(REFRESH.0, REFRESH.1);
    let wanted = [Wanted { lanes: 2, ..scene.consumer("c").await }];
    let (app, other) = (scene.start(&wanted), scene.start(&wanted));
    until_ready(&app).await;
    let mut sum = 0;
    // Twice, since the second time it is no longer new that a topic grows.
    for (partition, total) in [(0, 1), (1, 3), (4, 5)] {
        if total > 1 {
            scene.broker.grow(&scene.topic, total).await;
        }
        // Before anybody has noticed.
        scene.produce(partition, (0..10).map(|n| event(format!("{partition}-{n}"), "a", 1, n)));
        sum += 10;
        wait::until("the added partition is read", async || scene.sum("c").await, |&now| now == sum).await;
    }
    let reading = async || app.report()[0].partitions.len() + other.report()[0].partitions.len();
    wait::until("the two share all of them", reading, |&n| n == 5).await;
    app.drain().await;
    other.drain().await;
    assert_eq!(oracle::totals(&scene.database, "c").await.consumed, 30);
    scene.proofs("c").await;
}

async fn a_topic_that_appears_later_is_read_from_its_first_record(protocol: Protocol) {
    let scene = Scene::new(1).await.under(protocol).with(REFRESH.0, REFRESH.1);
    let later = format!("later-{}", Uuid::now_v7().simple());
    let wanted = [Wanted { topics: vec![scene.topic.clone(), later.clone()], ..scene.consumer("c").await }];
    let app = scene.start(&wanted);
    scene.produce(0, [event("e1", "a", 1, 1)]);
    scene.consumed(&app, "c").await;
    let said = app.health().reasons();
    assert!(said.iter().any(|reason| reason.about.contains(&later)), "that it is missing is no secret: {said:?}");

    scene.broker.create(&later, 2, &[]).await;
    let messages = (0..10).map(|n| Message::new(event(format!("later-{n}"), "a", 1, n.into())).to(n % 2));
    scene.broker.producer(&[]).send(&later, messages);
    wait::until("the new topic is read", async || scene.sum("c").await, |&sum| sum == 11).await;
    until_ready(&app).await;
    app.drain().await;
    scene.proofs("c").await;
}

under_both_protocols!(
    partitions_added_while_it_runs_are_read_from_their_first_record,
    a_topic_that_appears_later_is_read_from_its_first_record,
);
