//! The same input more than once, in every way that Kafka brings it, and inputs that are none.

use tidegate::config::Dialect;
use tidegate_tests::{Message, Sql, host::Protocol, oracle, oracle::Totals, wait};

use crate::{
    accounts::event,
    kafka_scene::{Scene, Wanted, on_both_databases},
};

on_both_databases! {
    one_event_three_times_counts_once: 2,
    two_consumers_process_the_same_event_independently: 1,
    the_same_ids_in_all_partitions_by_several_lanes_at_once: 6,
    the_same_ids_in_all_partitions_by_two_members_at_once: 4,
    two_hosts_that_both_believe_they_own_every_partition: 2,
    another_payload_under_a_known_id_is_kept_and_reported: 1,
    what_is_no_event_is_skipped_or_a_dead_letter_and_its_neighbours_are_applied: 1,
    every_codec_is_read: 5,
}

/// In a group whose partitions the broker assigns (KIP-848).
mod under_the_newer_protocol {
    use super::{Protocol, Scene};

    #[tokio::test(flavor = "multi_thread")]
    async fn the_same_ids_in_all_partitions_by_two_members_at_once() {
        let scene = Scene::new(4).await.under(Protocol::Consumer);
        super::the_same_ids_in_all_partitions_by_two_members_at_once(scene).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn two_hosts_that_both_believe_they_own_every_partition() {
        let scene = Scene::new(2).await.under(Protocol::Consumer);
        super::two_hosts_that_both_believe_they_own_every_partition(scene).await;
    }
}

fn totals(consumed: i64, applied: i64, duplicate: i64) -> Totals {
    Totals { consumed, applied, duplicate, ..Totals::default() }
}

async fn one_event_three_times_counts_once(scene: Scene<impl Sql>) {
    let app = scene.start(&[scene.consumer("c").await]);
    // Twice at two offsets of one partition, and published again to another partition.
    scene.produce(0, [event("e1", "a", 7, 1), event("e1", "a", 7, 1)]);
    scene.produce(1, [event("e1", "a", 7, 1)]);
    scene.consumed(&app, "c").await;
    app.drain().await;
    assert_eq!(oracle::totals(&scene.database, "c").await, totals(3, 1, 2));
    assert_eq!(scene.sum("c").await, 7);
    let repeated = "SELECT count(*) FROM processed_input_attempts GROUP BY input_id HAVING count(*) > 1";
    assert_eq!(scene.database.number(repeated).await, 3, "the attempts can be counted by hand");
    scene.proofs("c").await;
}

async fn two_consumers_process_the_same_event_independently(scene: Scene<impl Sql>) {
    let app = scene.start(&[scene.consumer("one").await, scene.consumer("two").await]);
    scene.produce(0, (0..50).map(|n| event(n, "a", 1, n)));
    for consumer in ["one", "two"] {
        scene.consumed(&app, consumer).await;
    }
    app.drain().await;
    for consumer in ["one", "two"] {
        assert_eq!(oracle::totals(&scene.database, consumer).await, totals(50, 50, 0));
        assert_eq!(scene.sum(consumer).await, 50);
        scene.proofs(consumer).await;
    }
}

async fn the_same_ids_in_all_partitions_by_several_lanes_at_once(scene: Scene<impl Sql>) {
    for partition in 0..6 {
        scene.produce(partition, (0..400).map(|n| event(n, &format!("a{}", n % 7), 1, n)));
    }
    // Small batches: the lanes meet at many ids.
    let app = scene.start(&[Wanted { lanes: 3, max_records: 40, ..scene.consumer("c").await }]);
    scene.consumed(&app, "c").await;
    app.drain().await;
    assert_eq!(oracle::totals(&scene.database, "c").await, totals(2_400, 400, 2_000));
    assert_eq!(scene.sum("c").await, 400);
    scene.proofs("c").await;
}

async fn the_same_ids_in_all_partitions_by_two_members_at_once(scene: Scene<impl Sql>) {
    let wanted = Wanted { max_records: 40, ..scene.consumer("c").await };
    let apps = [scene.start(std::slice::from_ref(&wanted)), scene.start(std::slice::from_ref(&wanted))];
    for partition in 0..4 {
        scene.produce(partition, (0..400).map(|n| event(n, &format!("a{}", n % 7), 1, n)));
    }
    scene.consumed(&apps[0], "c").await;
    for app in apps {
        app.drain().await;
    }
    let found = oracle::totals(&scene.database, "c").await;
    assert_eq!((found.consumed, found.applied), (1_600, 400));
    assert_eq!(scene.sum("c").await, 400);
    scene.proofs("c").await;
}

/// Two groups under one consumer name: both members own every partition, for good. They fence each other all the time.
async fn two_hosts_that_both_believe_they_own_every_partition(scene: Scene<impl Sql>) {
    for partition in 0..2 {
        scene.produce(partition, (0..500).map(|n| event(format!("{partition}-{n}"), &format!("a{}", n % 7), 1, n)));
    }
    let of_group = |wanted: &Wanted, group: &str| Wanted {
        group: Some(format!("{group}-{}", scene.topic)),
        max_records: 50,
        ..wanted.clone()
    };
    let wanted = scene.consumer("c").await;
    let apps = [scene.start(&[of_group(&wanted, "one")]), scene.start(&[of_group(&wanted, "two")])];
    scene.consumed(&apps[0], "c").await;
    for app in apps {
        app.drain().await;
    }
    assert_eq!(scene.sum("c").await, 1_000, "each once, whoever it was");
    assert_eq!(oracle::totals(&scene.database, "c").await.applied, 1_000);
    scene.proofs("c").await;
}

async fn another_payload_under_a_known_id_is_kept_and_reported(scene: Scene<impl Sql>) {
    let app = scene.start(&[scene.consumer("c").await]);
    scene.produce(0, [event("e1", "a", 7, 1)]);
    scene.consumed(&app, "c").await;
    scene.produce(0, [event("e1", "a", 9, 1), event("e1", "a", 7, 1)]);
    scene.consumed(&app, "c").await;
    let text = app.metrics().text();
    app.drain().await;
    assert_eq!(oracle::totals(&scene.database, "c").await, totals(3, 1, 2));
    assert_eq!(scene.sum("c").await, 7, "the first one stands");
    let payload = match scene.database.dialect() {
        Dialect::Postgres => "convert_from(payload, 'UTF8')",
        Dialect::Sqlite => "CAST(payload AS TEXT)",
    };
    let kept = format!("SELECT message_id || ' ' || {payload} FROM payload_conflicts");
    assert_eq!(scene.database.texts(&kept).await, ["e1 e1|a|9|1"]);
    assert!(text.contains("tidegate_payload_conflicts_total{consumer=\"c\"} 1"), "{text}");
    scene.proofs("c").await;
}

async fn what_is_no_event_is_skipped_or_a_dead_letter_and_its_neighbours_are_applied(scene: Scene<impl Sql>) {
    let app = scene.start(&[scene.consumer("c").await]);
    let messages = [
        Message::new(event("e1", "a", 1, 1)),
        // A missing id, a plugin's no, no text at all, a value that no column holds.
        Message::new("|a|1|1"),
        Message::new("broken"),
        Message::new(vec![0xff, 0xfe]),
        Message::new("e2|a|much|1"),
        Message::tombstone("k"),
        Message::new("skip"),
        Message::new(event("e3", "a", 1, 2)),
    ];
    scene.broker.producer(&[]).send(&scene.topic, messages.into_iter().map(|message| message.to(0)));
    scene.consumed(&app, "c").await;
    wait::until_true("the metrics say so too", async || {
        app.metrics().text().contains("tidegate_records_total{consumer=\"c\",outcome=\"dead\"} 4")
    })
    .await;
    app.drain().await;
    let expected = Totals { consumed: 8, applied: 2, skipped: 2, dead: 4, ..Totals::default() };
    assert_eq!(oracle::totals(&scene.database, "c").await, expected);
    let offsets = "SELECT \"offset\" FROM dead_letters WHERE topic = (SELECT min(topic) FROM checkpoints) ORDER BY 1";
    assert_eq!(scene.database.texts(offsets).await, ["1", "2", "3", "4"]);
    assert_eq!(scene.sum("c").await, 2);
    scene.proofs("c").await;
}

async fn every_codec_is_read(scene: Scene<impl Sql>) {
    let app = scene.start(&[Wanted { lanes: 2, ..scene.consumer("c").await }]);
    for (partition, codec) in (0..).zip(["none", "gzip", "snappy", "lz4", "zstd"]) {
        let producer = scene.broker.producer(&[("compression.codec", codec)]);
        let events = (0..300).map(|n| Message::new(event(format!("{codec}-{n}"), codec, 1, n)).to(partition));
        producer.send(&scene.topic, events);
    }
    scene.consumed(&app, "c").await;
    app.drain().await;
    assert_eq!(oracle::totals(&scene.database, "c").await, totals(1_500, 1_500, 0));
    let sums = "SELECT account || ' ' || total FROM c_balances ORDER BY account";
    assert_eq!(scene.database.texts(sums).await, ["gzip 300", "lz4 300", "none 300", "snappy 300", "zstd 300"]);
    scene.proofs("c").await;
}
