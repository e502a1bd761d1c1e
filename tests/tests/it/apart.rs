//! Consumers of one process that use different databases, brokers or plugins: what keeps one of them from working does not
//! hold up the others.

use std::{path::Path, time::Duration};

use tidegate_tests::{
    Broker, Database, Message,
    fault::{Ending, Faults, Proxy, Swallow},
    host::{self, HostProcess, Setup},
    kafka, oracle, postgres,
    services::{Folder, checkout},
    wait,
};

/// How many records tell that a consumer goes on.
const SOME: i64 = 200;

struct Consumer<'a> {
    name: &'a str,
    topic: &'a str,
    database: &'a str,
    kafka: &'a str,
    lanes: usize,
}

impl Consumer<'_> {
    fn toml(&self, plugin: &Path) -> String {
        let Self { name, topic, database, kafka, lanes } = self;
        format!(
            r#"
[[consumer]]
name = "{name}"
group = "{name}-{topic}"
topics = ["{topic}"]
start = "earliest"
lanes = {lanes}
database = "{database}"
kafka = "{kafka}"
batch = {{ max_records = 500, max_bytes = "1MiB", linger = "5ms" }}
[consumer.plugin]
path = "{}"
[consumer.plugin.limits]
memory = "8MiB"
cpu_base = "5s"
cpu_per_event = "1ms"
[[consumer.target]]
name = "rows"
table = "rows_{name}"
columns = ["id", "n"]
key = ["id"]
"#,
            plugin.display()
        )
    }
}

/// Publishes some records and waits until the consumer has all that stands in the topic.
async fn goes_on(host: &mut HostProcess, broker: &Broker, database: &Database, name: &str, topic: &str) {
    publish(broker, topic, "apply", SOME);
    host.alive_during(oracle::until_consumed(database, broker, name, topic)).await;
}

fn publish(broker: &Broker, topic: &str, does: &str, records: i64) {
    let run = uuid::Uuid::new_v4();
    let message = |n: i64| Message::new(format!(r#"{{"id":"{run}-{n}","does":"{does}","n":{n}}}"#)).key(n.to_string());
    broker.producer(&[]).send(topic, (0..records).map(message));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_consumer_s_trouble_is_not_the_others() {
    let folder = Folder::new().unwrap();
    let source = checkout().join("tests/guests/broken");
    let plugin = tidegate::plugin::build::build(&source, Some(&folder.path().join("broken.wasm"))).unwrap();
    let broker = kafka();
    let (good, bad) = (postgres().await, postgres().await);
    for name in ["steady", "unruly", "faraway"] {
        good.execute(&format!("CREATE TABLE rows_{name} (id text PRIMARY KEY, n bigint NOT NULL)")).await;
    }
    bad.execute("CREATE TABLE rows_homeless (id text PRIMARY KEY, n bigint NOT NULL)").await;
    let (database_proxy, kafka_proxy) = (Proxy::of_database(bad.url()), Proxy::start(broker.bootstrap()));
    let topics = [broker.topic(2).await, broker.topic(2).await, broker.topic(2).await, broker.topic(1).await];
    let consumer =
        |name, topic, database, kafka| Consumer { name, topic, database, kafka, lanes: 2 }.toml(&plugin.path);
    let rest = [
        consumer("steady", &topics[0], "main", "main"),
        consumer("homeless", &topics[1], "other", "main"),
        consumer("faraway", &topics[2], "main", "other"),
        // One lane burns one core, for as long as this test lasts: other tests want some, too.
        Consumer { name: "unruly", topic: &topics[3], database: "main", kafka: "main", lanes: 1 }.toml(&plugin.path),
        format!("[database.other]\nurl = \"{}\"\n", database_proxy.url(bad.url())),
        // What the broker advertises leads past the proxy: only what asks for brokers goes through it.
        format!("[kafka.other]\n\"bootstrap.servers\" = \"{}\"\n", kafka_proxy.address()),
    ];
    let setup = Setup::new(good.url(), &broker, rest.join("\n"));
    assert!(host::run_once(&setup, &["migrate"]).status.success());

    // A broker that swallows everything from the first moment on.
    kafka_proxy.set(Faults { swallow: Some(Swallow::Both), ..Faults::default() });
    let mut host = HostProcess::start("host", &setup);
    host.until_not_ready("faraway: consumer: has not joined its group yet").await;
    goes_on(&mut host, &broker, &good, "steady", &topics[0]).await;
    kafka_proxy.heal();
    goes_on(&mut host, &broker, &good, "faraway", &topics[2]).await;
    host.ready().await;

    // A database that is gone in every way, with work at hand.
    for faults in [
        Faults { refuse: Some(Ending::Reset), ..Faults::default() },
        Faults { swallow: Some(Swallow::Both), ..Faults::default() },
    ] {
        database_proxy.set(faults);
        if faults.refuse.is_some() {
            database_proxy.cut(Ending::Reset);
        }
        publish(&broker, &topics[1], "apply", SOME);
        host.until_not_ready("homeless: lane").await;
        for _ in 0..3 {
            goes_on(&mut host, &broker, &good, "steady", &topics[0]).await;
        }
        database_proxy.heal();
        host.alive_during(oracle::until_consumed(&bad, &broker, "homeless", &topics[1])).await;
        host.ready().await;
    }

    // A plugin that burns its budget on every record, all the while.
    let before = host.cpu();
    publish(&broker, &topics[3], "loop", 400);
    wait::until("it burns", async || host.cpu() - before, |burnt| *burnt > Duration::from_secs(3)).await;
    for _ in 0..3 {
        goes_on(&mut host, &broker, &good, "steady", &topics[0]).await;
    }
    assert_eq!(oracle::positions(&good, "unruly", &topics[3], 1).await, [0], "it burns all the while");
    let ready = host.get("/readyz").await.unwrap().body;
    assert!(!ready.contains("unruly: consumer: stopped"), "{ready}");
    for database in [&good, &bad] {
        assert_eq!(database.number("SELECT count(*) FROM dead_letters").await, 0);
    }
    host.kill();
    for (database, consumer) in [(&good, "steady"), (&good, "faraway"), (&bad, "homeless")] {
        oracle::assert_chain_tiles(database, consumer).await;
    }
}
