//! `tidegate run` as a process: what it ends with, and that a second signal forces.

use tidegate_tests::{
    Message,
    host::{self, HostProcess, Setup},
    kafka, postgres,
    services::free_port,
    settlement::Settlement,
    wait,
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

/// A consumer of the settlement plugin whose target is `table`.
pub(crate) fn consumer(topic: &str, table: &str) -> String {
    Settlement::of(topic).in_group(topic).into_table(table).toml()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_whose_configuration_does_not_fit_ends_with_2() {
    let (database, broker) = (postgres().await, kafka());
    let topic = broker.topic(1).await;
    let setup = Setup::new(database.url(), &broker, consumer(&topic, "not_there"));
    let output = host::run_once(&setup, &["run"]);
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "no schema: {log}");
    assert!(log.contains("tidegate migrate"), "{log}");

    assert!(host::run_once(&setup, &["migrate"]).status.success());
    let output = host::run_once(&setup, &["run", "--log-format", "json"]);
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "no table: {log}");
    assert!(log.contains("table not_there: there is no such table; create it"), "{log}");
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
    }
}

/// Makes a broker reachable at a port of this machine.
async fn forward(port: u16, broker: String) {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    loop {
        let (mut client, _) = listener.accept().await.unwrap();
        let broker = broker.clone();
        tokio::spawn(async move {
            let mut server = TcpStream::connect(&broker).await.unwrap();
            let _ = copy_bidirectional(&mut client, &mut server).await;
        });
    }
}

/// The topic keeps more than the ledger remembers; the broker that knows it comes only after the host.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_forgets_too_early_is_refused_by_a_broker_that_comes_later() {
    let (database, broker) = (postgres().await, kafka());
    database.execute(tidegate_tests::workload::SETTLEMENTS).await;
    let topic = broker.topic_with(1, &[("retention.ms", "-1")]).await;
    broker.producer(&[]).send(&topic, [Message::new("never read")]);
    for (retention, runs) in [("30d", false), ("forever", true)] {
        let port = free_port().unwrap();
        let ledger = format!("ledger = {{ retention = \"{retention}\" }}\ntopics =");
        let setup = Setup::new(database.url(), &broker, consumer(&topic, "settlements").replace("topics =", &ledger))
            .with_kafka("bootstrap.servers", &format!("127.0.0.1:{port}"));
        assert!(host::run_once(&setup, &["migrate"]).status.success());
        let mut host = HostProcess::start("host", &setup);
        // Nobody answers, and the host has gone on without an answer.
        wait::until_true("the host has started", async || host.get("/livez").await.is_some()).await;
        let forward = tokio::spawn(forward(port, broker.bootstrap().to_owned()));
        if runs {
            host.ready().await;
            host.terminate();
            assert_eq!(host.wait().code(), Some(0), "{}", host.log());
        } else {
            assert_eq!(host.wait().code(), Some(2), "{}", host.log());
            assert!(host.log().contains("error[TG004]") && host.log().contains("\"forever\""), "{}", host.log());
            assert_eq!(database.number("SELECT count(*) FROM checkpoints").await, 0, "nothing has begun");
            assert_eq!(broker.committed(&topic, &topic), [None]);
        }
        forward.abort();
    }
}

/// While broker and topic are away the process shows why, from the first moment on, and says it once.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_host_waits_for_is_shown_at_once() {
    let (database, broker) = (postgres().await, kafka());
    database.execute(tidegate_tests::workload::SETTLEMENTS).await;
    let topic = format!("{}-misspelt", broker.topic(1).await);
    let here = Setup::new(database.url(), &broker, consumer(&topic, "settlements"));
    assert!(host::run_once(&here, &["migrate"]).status.success());

    let away = here.clone().with_kafka("bootstrap.servers", "127.0.0.1:1");
    let host = HostProcess::start("away", &away);
    let warned = "WARN cannot start yet: Kafka 127.0.0.1:1 does not answer";
    wait::until("the outage is told", async || host.log().matches("cannot start yet").count(), |n| *n > 0).await;
    let log = host.log();
    let asking = log.find("asking Kafka 127.0.0.1:1 for the retention of its topics").expect(&log);
    assert!(asking < log.find("cannot start yet").unwrap(), "{log}");
    assert!(log.contains(warned) && !log.contains("fac="), "{log}");
    assert_eq!(host.get("/livez").await.expect("HTTP answers").status, 200);
    let ready = host.get("/readyz").await.expect("HTTP answers");
    assert!(ready.status == 503 && ready.body.contains("Kafka 127.0.0.1:1"), "{ready:?}");
    drop(host);

    let host = HostProcess::start("misspelt", &here);
    let expected = format!("topic {topic} does not exist on {}: create it", broker.bootstrap());
    wait::until("the topic is missed", async || host.log().matches(&expected).count(), |n| *n > 0).await;
    wait::until(
        "it is in /readyz",
        async || host.get("/readyz").await.map(|r| r.body).unwrap_or_default(),
        |text| text.contains(&expected),
    )
    .await;
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

#[tokio::test]
async fn a_fail_point_that_there_is_none_is_refused_with_those_that_there_are() {
    let answer = std::process::Command::new(tidegate_tests::host::program("tidegate"))
        .arg("run")
        .env("TIDEGATE_FAIL_POINT", "after-comit:1:kill")
        .output()
        .unwrap();
    assert_eq!(answer.status.code(), Some(2));
    let text = String::from_utf8_lossy(&answer.stderr);
    assert!(text.contains("after-comit") && text.contains("after-commit"), "{text}");
}
