//! Reloads of a real plugin by a real host, under load, by every way that there is: nothing is lost, nothing doubled, and
//! a build with other keys is refused meanwhile. An adding column is the oracle.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tidegate_tests::{
    Message,
    builds::Builds,
    host::{HostProcess, Setup, run_once},
    http, kafka, oracle, postgres,
    services::Folder,
    wait,
};

const CONSUMER: &str = "rules";
const PARTITIONS: i32 = 3;
const TOKEN: &str = "0123456789abcdef";

/// Produces until it is told to stop; answers how many.
fn produce(topic: &str, stop: Arc<AtomicBool>) -> thread::JoinHandle<i64> {
    let topic = topic.to_owned();
    thread::spawn(move || {
        let producer = kafka().producer(&[]);
        let mut sent = 0;
        while !stop.load(Ordering::Relaxed) {
            let message = |n: i64| {
                let partition = i32::try_from(n % i64::from(PARTITIONS)).unwrap();
                let account = n % 50;
                Message::new(format!(r#"{{"id":"e{n}","account":"a{account}","cents":1}}"#)).to(partition)
            };
            producer.send(&topic, (sent..sent + 100).map(message));
            sent += 100;
            thread::sleep(Duration::from_millis(40));
        }
        sent
    })
}

async fn state(host: &HostProcess) -> Value {
    let answer = host.get(&format!("/v1/consumers/{CONSUMER}")).await.expect("the host answers");
    serde_json::from_str(&answer.body).unwrap()
}

/// How many reloads by default; `RELOADS` says otherwise.
fn reloads() -> usize {
    std::env::var("RELOADS").ok().map_or(40, |text| text.parse().expect("RELOADS is a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn reloads_under_load_lose_and_double_nothing() {
    let folder = Folder::new().unwrap();
    let file = folder.path().join("rules.wasm");
    let builds = Builds::new(folder.path());
    builds.put(&file);
    let (database, broker) = (postgres().await, kafka());
    let topic = broker.topic(PARTITIONS).await;
    database.execute("CREATE TABLE balances (account text PRIMARY KEY, total bigint NOT NULL)").await;
    let consumer = format!(
        r#"
[[consumer]]
name = "{CONSUMER}"
group = "{CONSUMER}-{topic}"
topics = ["{topic}"]
start = "earliest"
lanes = 2
batch = {{ max_records = 200, max_bytes = "1MiB", linger = "5ms" }}
plugin = {{ path = "{}" }}
[[consumer.target]]
name = "balances"
table = "balances"
columns = ["account", "total"]
key = ["account"]
merge = {{ total = "add" }}
"#,
        file.display()
    );
    let setup = Setup::new(database.url(), &broker, consumer).with_token(TOKEN);
    assert!(run_once(&setup, &["migrate"]).status.success());
    let mut host = HostProcess::start("host", &setup);
    host.ready().await;
    let stop = Arc::new(AtomicBool::new(false));
    let producing = produce(&topic, Arc::clone(&stop));
    let applied = async || database.number("SELECT coalesce(sum(total), 0)::bigint FROM balances").await;
    wait::until("messages are applied", applied, |n| *n > 0).await;
    let samples = async || database.number("SELECT count(*) FROM key_samples").await;
    wait::until("inputs are kept with their keys", samples, |n| *n > 0).await;

    let (begun, before) = (Instant::now(), applied().await);
    let rules = async |wanted: String| {
        let sha256 = async || state(&host).await["plugin"]["sha256"].as_str().unwrap_or_default().to_owned();
        wait::until("it rules", sha256, |sha256| *sha256 == wanted).await;
    };
    let reloads = reloads();
    for number in 1..=reloads {
        let build = builds.numbered(number);
        build.put(&file);
        match number % 10 {
            // The host sees it by itself.
            3 => {}
            6 => host.signal("HUP"),
            _ => {
                let path = format!("/v1/consumers/{CONSUMER}/reload");
                assert_eq!(http::post(host.port(), &path, Some(TOKEN)).await.unwrap().status, 202);
            }
        }
        rules(build.sha256()).await;
        if number == reloads / 2 {
            builds.numbered(99_999).with_other_keys().put(&file);
            let why = async || state(&host).await["last_reload"]["why"].as_str().unwrap_or_default().to_owned();
            let why = wait::until("other keys are refused", why, |why| !why.is_empty()).await;
            assert!(why.contains("error[TG009]") && why.contains("--accept-key-change"), "{why}");
            assert_eq!(host.get("/readyz").await.unwrap().status, 200, "the rules of before go on");
            rules(build.sha256()).await;
        }
    }
    let (took, during) = (begun.elapsed(), applied().await - before);
    stop.store(true, Ordering::Relaxed);
    let sent = producing.join().unwrap();
    host.alive_during(oracle::until_consumed(&database, &broker, CONSUMER, &topic)).await;
    host.terminate();
    assert_eq!(host.wait().code(), Some(0), "{}", host.log());
    // How long nothing was committed at the most: what a reload costs those who wait.
    let pause = "SELECT (max(pause) * 1000)::bigint FROM (SELECT extract(epoch FROM committed_at - lag(committed_at) \
                 OVER (ORDER BY committed_at)) AS pause FROM checkpoints WHERE kind = 'r') p";
    println!(
        "{reloads} reloads in {:.1} s; meanwhile {during} messages were applied; the longest pause between two commits was {} ms",
        took.as_secs_f64(),
        database.number(pause).await
    );

    assert_eq!(applied().await, sent, "each once");
    let totals = oracle::totals(&database, CONSUMER).await;
    assert_eq!((totals.applied, totals.duplicate, totals.dead), (sent, 0, 0));
    oracle::assert_chain_tiles(&database, CONSUMER).await;
    assert_eq!(database.number("SELECT count(*) FROM key_changes").await, 0);
    // Most of the builds ruled long enough to apply something.
    let ruled = database.number("SELECT count(DISTINCT plugin_digest) FROM checkpoints WHERE kind = 'r'").await;
    assert!(ruled > 1, "{ruled} builds applied something");
}
