//! What happens to logs and topics under a consumer: transactions, retention, partitions added, topics made again.

use tidegate::config::Start;
use tidegate_tests::{Message, oracle, oracle::Totals, wait};

use crate::{
    accounts::event,
    kafka_scene::{Scene, Wanted, until_ready, until_reason},
};

fn events(range: std::ops::Range<i64>) -> impl Iterator<Item = Message> {
    range.map(|n| Message::new(event(n, "a", 1, n)).to(0))
}

/// The end of a log lies beyond its last record: after markers and aborted records.
#[tokio::test(flavor = "multi_thread")]
async fn the_chain_covers_control_records_and_retention_after_them_loses_nothing() {
    let scene = Scene::new(1).await;
    let wanted = [scene.consumer("c").await];
    let app = scene.start(&wanted);
    let producer = scene.broker.producer(&[("transactional.id", &scene.topic)]);
    producer.begin(true);
    producer.send(&scene.topic, events(0..10));
    producer.commit();
    producer.begin(false);
    producer.send(&scene.topic, events(100..105));
    producer.abort();
    producer.begin(false);
    producer.send(&scene.topic, events(10..15));
    producer.commit();
    producer.begin(false);
    producer.send(&scene.topic, events(200..205));
    producer.abort();

    // 15 + 10 records and 4 markers.
    assert_eq!(scene.broker.watermarks(&scene.topic), [(0, 29)]);
    scene.consumed(&app, "c").await;
    app.drain().await;
    let expected = Totals { consumed: 15, applied: 15, ..Totals::default() };
    assert_eq!(oracle::totals(&scene.database, "c").await, expected, "what was aborted is never seen");
    assert_eq!(oracle::positions(&scene.database, "c", &scene.topic, 1).await, [29]);

    // All is deleted; nothing of it was unread.
    scene.broker.truncate(&scene.topic, 0, 29).await;
    let app = scene.start(&wanted);
    until_ready(&app).await;
    producer.begin(false);
    producer.send(&scene.topic, events(15..20));
    producer.commit();
    scene.consumed(&app, "c").await;
    assert_eq!(app.health().reasons(), []);
    app.drain().await;
    assert_eq!(scene.sum("c").await, 20);
    scene.proofs("c").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_deleted_before_they_were_read_stop_that_partition_alone() {
    let scene = Scene::new(2).await;
    let wanted = [scene.consumer("c").await];
    scene.produce(0, (0..10).map(|n| event(format!("p0-{n}"), "a", 1, n)));
    scene.produce(1, (0..10).map(|n| event(format!("p1-{n}"), "b", 1, n)));
    let app = scene.start(&wanted);
    scene.consumed(&app, "c").await;
    app.drain().await;

    scene.produce(0, (10..20).map(|n| event(format!("p0-{n}"), "a", 1, n)));
    scene.broker.truncate(&scene.topic, 0, 15).await;
    let app = scene.start(&wanted);
    until_reason(&app, "offsets 10 to 14 (5 of them) were deleted before they were read").await;
    scene.produce(1, (10..20).map(|n| event(format!("p1-{n}"), "b", 1, n)));
    wait::until_true("the other partition goes on", async || scene.sum("c").await == 30).await;
    assert_eq!(app.health().reasons().len(), 1, "{:?}", app.health().reasons());
    app.drain().await;
    let at = oracle::positions(&scene.database, "c", &scene.topic, 2).await;
    assert_eq!(at, [10, 20], "nothing was skipped over in silence");
    scene.proofs("c").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_made_again_stops_loudly_while_running_and_at_the_next_start() {
    let scene = Scene::new(1).await;
    let other = scene.broker.topic(1).await;
    let wanted = [Wanted { topics: vec![scene.topic.clone(), other.clone()], ..scene.consumer("c").await }];
    scene.produce(0, (0..10).map(|n| event(n, "a", 1, n)));
    let app = scene.start(&wanted);
    scene.consumed(&app, "c").await;

    scene.broker.delete(&scene.topic).await;
    wait::until_true("the topic is gone", async || scene.broker.partitions(&scene.topic) == 0).await;
    scene.broker.create(&scene.topic, 1, &[]).await;
    // More records than were read of the old one: the client itself would go on at offset 10 and say nothing.
    scene.produce(0, (100..130).map(|n| event(n, "a", 1, n)));
    until_reason(&app, "was deleted and made again").await;
    scene.broker.producer(&[]).send(&other, events(500..510));
    wait::until_true("the other topic goes on", async || scene.sum("c").await == 20).await;
    app.drain().await;

    let app = scene.start(&wanted);
    until_reason(&app, "was deleted and made again").await;
    app.drain().await;
    assert_eq!(scene.sum("c").await, 20, "nothing of the new topic was taken for the old one's");
    scene.proofs("c").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn latest_means_one_moment_and_partitions_added_later_begin_at_their_first_record() {
    let scene = Scene::new(2).await;
    scene.produce(0, (0..10).map(|n| event(format!("old-{n}"), "a", 1, n)));
    let wanted = [Wanted { start: Start::Latest, ..scene.consumer("c").await }];
    let mut scene = scene;
    scene.properties.insert("metadata.max.age.ms".to_owned(), "30000".to_owned());
    let app = scene.start(&wanted);
    let placed = async || {
        scene.database.try_number("SELECT count(*) FROM checkpoints WHERE consumer_name = 'c'").await.unwrap_or(0)
    };
    wait::until("both partitions have their start", placed, |&links| links >= 2).await;
    scene.produce(0, (0..5).map(|n| event(format!("new-{n}"), "a", 1, n)));
    scene.consumed(&app, "c").await;
    app.drain().await;
    assert_eq!(scene.sum("c").await, 5, "what was there before is not read");

    scene.broker.grow(&scene.topic, 3).await;
    scene.produce(2, (0..7).map(|n| event(format!("added-{n}"), "a", 1, n)));
    let app = scene.start(&wanted);
    wait::until_true("the added partition is read from its first record", async || scene.sum("c").await == 12).await;
    app.drain().await;
    scene.proofs("c").await;
}
