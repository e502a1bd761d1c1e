//! The harness holds what it says: fixtures do not see each other, and the broker and the server do what tests ask.

use tidegate_tests::{
    Message, Sql, kafka, postgres,
    services::{Durability, Folder, Postgres},
};

#[tokio::test]
async fn databases_are_fresh_and_dropped() {
    let (one, other) = (postgres().await, postgres().await);
    one.execute("CREATE TABLE t (n int); INSERT INTO t VALUES (1), (2)").await;
    assert_eq!(one.number("SELECT sum(n) FROM t").await, 3);
    assert!(other.try_number("SELECT sum(n) FROM t").await.is_err());

    let name = one.texts("SELECT current_database()").await.remove(0);
    let there = format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'");
    assert_eq!(other.number(&there).await, 1);
    drop(one);
    assert_eq!(other.number(&there).await, 0);
}

#[tokio::test]
async fn topics_hold_what_was_produced_with_every_codec() {
    let broker = kafka();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = broker.topic(2).await;
        let producer = broker.producer(&[("compression.codec", codec)]);
        let messages = (0..100).map(|n| Message::new(format!("{codec} {n}")).key("k").header("h", "v").to(n % 2));
        assert_eq!(producer.send(&topic, messages), 100);
        assert_eq!(broker.watermarks(&topic), [(0, 50), (0, 50)], "{codec}");
    }
}

#[tokio::test]
async fn topics_grow_shrink_and_come_again() {
    let broker = kafka();
    let topic = broker.topic(1).await;
    broker.producer(&[]).send(&topic, (0..10).map(|n| Message::new(n.to_string())));
    broker.truncate(&topic, 0, 4).await;
    assert_eq!(broker.watermarks(&topic), [(4, 10)]);
    broker.grow(&topic, 3).await;
    tidegate_tests::wait::until("three partitions", async || broker.partitions(&topic), |&n| n == 3).await;

    broker.delete(&topic).await;
    broker.create(&topic, 1, &[("cleanup.policy", "compact")]).await;
    assert_eq!(broker.watermarks(&topic), [(0, 0)]);
}

#[tokio::test]
async fn a_group_s_offsets_can_be_set_and_forgotten() {
    let broker = kafka();
    let topic = broker.topic(2).await;
    broker.producer(&[]).send(&topic, (0..10).map(|n| Message::new("x").to(n % 2)));
    broker.set_committed("some-group", &topic, 1, 3);
    assert_eq!(broker.committed("some-group", &topic), [None, Some(3)]);
    broker.delete_group("some-group").await;
    assert_eq!(broker.committed("some-group", &topic), [None, None]);
}

#[tokio::test]
async fn transactions_leave_offsets_without_records() {
    let broker = kafka();
    let topic = broker.topic(1).await;
    let producer = broker.producer(&[("transactional.id", &topic)]);
    producer.begin(true);
    producer.send(&topic, [Message::new("seen")]);
    producer.commit();
    producer.begin(false);
    producer.send(&topic, [Message::new("never seen")]);
    producer.abort();
    // Two records and a marker behind each.
    assert_eq!(broker.watermarks(&topic), [(0, 4)]);
}

#[tokio::test]
async fn a_server_of_one_s_own_can_crash_and_come_back() {
    let folder = Folder::new().unwrap();
    let mut server = Postgres::start(folder.path(), Durability::Fsync).unwrap();
    let database = tidegate_tests::Database::on(&server.url()).await;
    database.execute("CREATE TABLE t (n int); INSERT INTO t VALUES (7)").await;
    server.crash();
    assert!(database.try_number("SELECT n FROM t").await.is_err());
    server.resume().unwrap();
    assert_eq!(database.number("SELECT n FROM t").await, 7);
    server.stop();
    server.resume().unwrap();
    assert_eq!(database.number("SELECT n FROM t").await, 7);
}
