//! SIGHUP: a real host that watches nothing reads its configuration and its plugins again when it is told, and says in the
//! log, in its metrics and in its state what became of it. Other keys are accepted by the command.

use std::process::Command;

use serde_json::Value;
use tidegate_tests::{
    Message,
    builds::{Builds, replace},
    host::{HostProcess, Setup, program, run_once},
    kafka, oracle, postgres,
    services::Folder,
    wait,
};

const CONSUMER: &str = "rules";
const TOKEN: &str = "0123456789abcdef";

async fn json(host: &HostProcess, path: &str) -> Value {
    let answer = host.get(path).await.expect("the host answers");
    serde_json::from_str(&answer.body).unwrap()
}

/// Tells it, and waits for what becomes of its configuration: how many times that was so, and why.
async fn hang_up(host: &HostProcess, result: &str) -> String {
    let name = format!("tidegate_config_reloads_total{{result=\"{result}\"}}");
    let count = async || {
        let answer = host.get("/metrics").await.expect("the host answers");
        let line = answer.body.lines().find_map(|line| line.strip_prefix(&name)?.trim().parse::<u64>().ok());
        line.unwrap_or_default()
    };
    let before = count().await;
    host.signal("HUP");
    wait::until(&format!("the configuration is {result}"), count, |n| *n > before).await;
    let told = json(host, "/v1/consumers").await["last_configuration_reload"].clone();
    assert_eq!(told["result"], result, "{told}");
    told["why"].as_str().unwrap_or_default().to_owned()
}

async fn last_reload(host: &HostProcess) -> Value {
    json(host, &format!("/v1/consumers/{CONSUMER}")).await["last_reload"].clone()
}

/// Waits until another look at the plugin has come to this; answers why.
async fn until_reloaded(host: &HostProcess, before: &Value, result: &str) -> String {
    let other = |last: &Value| last["at"] != before["at"] && last["result"] == result;
    let last = wait::until(&format!("the plugin is {result}"), async || last_reload(host).await, other).await;
    last["why"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_has_configuration_and_plugins_read_again() {
    let folder = Folder::new().unwrap();
    let file = folder.path().join("rules.wasm");
    let builds = Builds::new(folder.path());
    builds.put(&file);
    let (database, broker) = (postgres().await, kafka());
    let topic = broker.topic(1).await;
    database.execute("CREATE TABLE balances (account text PRIMARY KEY, total bigint NOT NULL)").await;
    database.execute("CREATE TABLE moved (LIKE balances INCLUDING ALL)").await;
    let setup = |table: &str| {
        let consumer = format!(
            "[[consumer]]\nname = \"{CONSUMER}\"\ngroup = \"{CONSUMER}-{topic}\"\ntopics = [\"{topic}\"]\nstart = \
             \"earliest\"\nlanes = 1\nplugin = {{ path = \"{}\" }}\n[[consumer.target]]\nname = \"balances\"\ntable = \
             \"{table}\"\ncolumns = [\"account\", \"total\"]\nkey = [\"account\"]\nmerge = {{ total = \"add\" }}\n",
            file.display()
        );
        Setup::new(database.url(), &broker, consumer).with_token(TOKEN).unwatched()
    };
    assert!(run_once(&setup("balances"), &["migrate"]).status.success());
    let mut host = HostProcess::start("host", &setup("balances"));
    host.ready().await;
    let sum =
        async |table: &str| database.number(&format!("SELECT coalesce(sum(total), 0)::bigint FROM {table}")).await;
    let producer = broker.producer(&[]);
    let mut sent = 0;
    let mut goes_on = async |table: &str| {
        let before = sum(table).await;
        let message = |n: i64| Message::new(format!(r#"{{"id":"e{n}","account":"a{}","cents":1}}"#, n % 5)).to(0);
        producer.send(&topic, (sent..sent + 10).map(message));
        sent += 10;
        wait::until("messages are applied", async || sum(table).await, |n| *n == before + 10).await;
    };
    goes_on("balances").await;
    let samples = async || database.number("SELECT count(*) FROM key_samples").await;
    wait::until("inputs are kept with their keys", samples, |n| *n > 0).await;
    let rules = async || json(&host, &format!("/v1/consumers/{CONSUMER}")).await["plugin"]["sha256"].clone();

    // Nothing is new.
    let before = last_reload(&host).await;
    assert_eq!(hang_up(&host, "unchanged").await, "");
    until_reloaded(&host, &before, "unchanged").await;

    // Another configuration.
    host.configure(&setup("moved"));
    assert_eq!(hang_up(&host, "taken").await, "");
    goes_on("moved").await;

    // Another plugin.
    builds.numbered(1).put(&file);
    assert_eq!(rules().await, builds.sha256(), "nobody has told it yet");
    let before = last_reload(&host).await;
    host.signal("HUP");
    until_reloaded(&host, &before, "taken").await;
    assert_eq!(rules().await, builds.numbered(1).sha256());
    goes_on("moved").await;

    // A file that is none: the old one stays, in force and as what is compared with.
    replace(&host.config(), b"[[consumer]\nname = ");
    let why = hang_up(&host, "refused").await;
    assert!(why.contains("tidegate.toml") && why.contains("invalid TOML"), "{why}");
    assert!(host.log().contains("the configuration stays as it was, nothing of the file is taken"), "{}", host.log());
    goes_on("moved").await;
    host.configure(&setup("moved"));
    assert_eq!(hang_up(&host, "unchanged").await, "");

    // A plugin that is none.
    let before = last_reload(&host).await;
    replace(&file, b"no plugin");
    host.signal("HUP");
    let why = until_reloaded(&host, &before, "refused").await;
    assert!(why.contains("rules.wasm"), "{why}");
    assert!(host.log().contains("the rules of before stay in force"), "{}", host.log());
    assert_eq!(rules().await, builds.numbered(1).sha256());
    goes_on("moved").await;

    // Other keys, with an operator's word by the command.
    let other = builds.numbered(2).with_other_keys();
    other.put(&file);
    let before = last_reload(&host).await;
    host.signal("HUP");
    let why = until_reloaded(&host, &before, "refused").await;
    assert!(why.contains(&format!("consumers reload {CONSUMER} --accept-key-change {}", other.sha256())), "{why}");
    let command = |sha256: &str| {
        let mut command = Command::new(program("tidegate"));
        command.args(["consumers", "reload", CONSUMER, "--accept-key-change", sha256]);
        command.arg("--config").arg(host.config()).output().unwrap()
    };
    let short = command(&other.sha256()[..12]);
    assert_eq!(short.status.code(), Some(2), "{}", String::from_utf8_lossy(&short.stderr));
    assert!(String::from_utf8_lossy(&short.stderr).contains("all 64 hexadecimal digits"));
    // It waits for what becomes of it.
    let wrong = command(&"0".repeat(64));
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(wrong.status.code() == Some(1) && said.contains(&format!("{CONSUMER}: refused: ")), "{said}");
    let accepted = command(&other.sha256());
    let said = String::from_utf8_lossy(&accepted.stdout);
    assert!(accepted.status.success() && said.starts_with(&format!("{CONSUMER}: taken: plugin ")), "{accepted:?}");
    assert_eq!(rules().await, other.sha256());
    goes_on("moved").await;
    assert_eq!(database.number("SELECT count(*) FROM key_changes WHERE made_by LIKE '%, over HTTP'").await, 1);

    host.terminate();
    assert_eq!(host.wait().code(), Some(0), "{}", host.log());
    let totals = oracle::totals(&database, CONSUMER).await;
    assert_eq!((totals.applied, totals.duplicate, totals.dead), (sent, 0, 0));
    assert_eq!(sum("balances").await + sum("moved").await, sent);
    oracle::assert_chain_tiles(&database, CONSUMER).await;
}
