//! `tidegate run` as a process: what it ends with, and that a second signal forces.

use tidegate_tests::{
    Message,
    host::{self, HostProcess, Setup},
    kafka, postgres, wait,
};

/// A consumer of the settlement plugin whose target is `table`.
fn consumer(topic: &str, table: &str) -> String {
    format!(
        r#"
[[consumer]]
name = "settlement-service"
group = "{topic}"
topics = ["{topic}"]
[consumer.plugin]
path = "{}"
[[consumer.target]]
name = "settlements"
table = "{table}"
columns = ["payment_id", "order_id", "amount", "status", "event_version", "created_at"]
key = ["payment_id"]
"#,
        host::plugin("settlement").display()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_whose_consumers_cannot_run_ends_with_1() {
    let (database, broker) = (postgres().await, kafka());
    let topic = broker.topic(1).await;
    let setup = Setup::new(database.url(), &broker, consumer(&topic, "not_there"));
    let output = host::run_once(&setup, &["run"]);
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "no schema: {log}");
    assert!(log.contains("tidegate migrate"), "{log}");

    assert!(host::run_once(&setup, &["migrate"]).status.success());
    let output = host::run_once(&setup, &["run", "--log-format", "json"]);
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "no table: {log}");
    assert!(log.contains("not_there"), "{log}");
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
    }
}

/// A lane that waits for somebody's lock cannot drain: one signal is not enough, and the second must be.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_forces() {
    let (database, broker) = (postgres().await, kafka());
    let topic = broker.topic(1).await;
    database.execute(tidegate_tests::workload::SETTLEMENTS).await;
    let patient = consumer(&topic, "settlements").replace("topics =", "revoke_deadline = \"40s\"\ntopics =");
    let setup = Setup::new(database.url(), &broker, patient).with_kafka("session.timeout.ms", "45000");
    assert!(host::run_once(&setup, &["migrate"]).status.success());
    let mut lock = database.pool().begin().await.unwrap();
    sqlx::query("LOCK TABLE settlements IN EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();

    let event = r#"{"event_id":"evt-1","type":"payment.captured","payment_id":"p-1","order_id":"o-1","amount":"1.00","currency":"KRW","version":1,"occurred_at":"2026-01-01T00:00:00Z"}"#;
    broker.producer(&[]).send(&topic, [Message::new(event)]);
    let mut host = HostProcess::start("host", &setup);
    host.ready().await;
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'settlements'::regclass";
    wait::until("the lane waits for the lock", async || database.number(waiting).await, |n| *n > 0).await;

    host.terminate();
    wait::until("the host drains", async || host.log().matches("draining").count(), |n| *n > 0).await;
    assert!(host.is_running(), "it waits for what is at hand: {}", host.log());
    host.terminate();
    assert_eq!(host.wait().code(), Some(143), "{}", host.log());
    lock.rollback().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM processed_messages").await, 0, "nothing was applied");
}
