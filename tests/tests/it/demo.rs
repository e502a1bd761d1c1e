//! `tidegate demo`, as a newcomer runs it: it proves itself, and it does not prove what is not so.

use std::{
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;
use sqlx::{Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tidegate_tests::{
    host::{plugin, program},
    kafka, postgres,
    services::signal,
    wait,
};

fn demo(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program("tidegate"));
    let plugins = plugin("settlement").parent().unwrap().to_owned();
    command.args(["demo", "--json", "--dir"]).arg(folder).arg("--plugins").arg(plugins).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The one object on standard output; where there is none, what was said instead and the log's end.
fn object(output: &Output, folder: &Path) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        let log = std::fs::read_to_string(folder.join("tidegate.log")).unwrap_or_default();
        let tail: Vec<_> = log.lines().rev().take(40).collect();
        panic!("no object, {}:\n{said}\n{}", output.status, tail.into_iter().rev().collect::<Vec<_>>().join("\n"))
    })
}

fn number(object: &Value, key: &str) -> i64 {
    object[key].as_i64().unwrap_or_else(|| panic!("no number {key} in {object}"))
}

fn failing(object: &Value) -> Vec<(&str, &str)> {
    let proofs = object["proofs"].as_array().unwrap().iter().filter(|p| p["ok"] == false);
    proofs.map(|p| (p["consumer"].as_str().unwrap_or(""), p["code"].as_str().unwrap())).collect()
}

/// Everything that is true of a run of 3,000 events, whatever it ran on.
fn holds(output: &Output, folder: &Path) {
    let all = object(output, folder);
    assert_eq!(failing(&all), []);
    assert_eq!((output.status.code(), &all["ok"]), (Some(0), &Value::Bool(true)));
    assert_eq!((number(&all, "target_duplicates"), number(&all, "too_old")), (0, 0));
    let consumers = all["consumers"].as_object().unwrap();
    assert_eq!(consumers.keys().collect::<Vec<_>>(), ["order-summary-service", "settlement-service"]);
    for object in consumers.values().chain([&all]) {
        let outcomes = ["applied", "duplicate", "skipped", "dead", "too_old"].map(|key| number(object, key));
        assert_eq!(number(object, "consumed"), outcomes.iter().sum::<i64>(), "{object}");
        assert!(outcomes[..4].iter().all(|n| *n > 0), "each of these is met: {object}");
    }
    assert_eq!(number(&all["consumers"]["order-summary-service"], "consumed"), number(&all, "produced"));
    assert!(number(&all, "produced") > 3_000 && number(&all, "repeated_inputs") > 200, "a tenth comes again: {all}");
}

#[test]
fn it_proves_itself() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("demo");
    let output = demo(&folder, &["--events", "3000"]).output().unwrap();
    holds(&output, &folder);
    // A second run into the same folder overwrites nothing.
    let again = demo(&folder, &["--events", "3000"]).output().unwrap();
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("not empty"));
}

#[tokio::test]
async fn it_proves_itself_on_real_services() {
    let (database, broker) = (postgres().await, kafka());
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("demo");
    let services = ["--database-url", database.url(), "--bootstrap-servers", broker.bootstrap()];
    let output = demo(&folder, &["--events", "3000"]).args(services).output().unwrap();
    holds(&output, &folder);
    assert_eq!(database.number("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").await, 0);
}

/// A child that does not outlive a failed test.
struct Running(Option<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[tokio::test]
async fn a_changed_total_and_a_vanished_ledger_row_fail_it() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("demo");
    let child = demo(&folder, &["--events", "400", "--keep-running"]).spawn().unwrap();
    let id = child.id();
    let mut running = Running(Some(child));
    // From here on all is proven once, and it goes on slowly.
    let proven = folder.join("summary.json");
    wait::until_true("the first proofs are through", async || {
        assert!(running.0.as_mut().unwrap().try_wait().unwrap().is_none(), "the demo has ended by itself");
        proven.exists()
    })
    .await;
    assert_eq!(serde_json::from_slice::<Value>(&std::fs::read(proven).unwrap()).unwrap()["ok"], true);

    let options = SqliteConnectOptions::new().filename(folder.join("demo.db"));
    let mut database = SqliteConnection::connect_with(&options).await.unwrap();
    let sabotage = "UPDATE order_summary SET ordered_minor = ordered_minor + 1 WHERE order_id =
                        (SELECT min(order_id) FROM order_summary WHERE ordered_minor > 0);
                    DELETE FROM processed_messages WHERE consumer_name = 'settlement-service' AND message_id =
                        (SELECT min(message_id) FROM processed_messages WHERE consumer_name = 'settlement-service');";
    sqlx::raw_sql(sabotage).execute(&mut database).await.unwrap();
    database.close().await.unwrap();

    assert!(signal(id, "INT"));
    let child = running.0.take().unwrap();
    let output = child.wait_with_output().unwrap();
    let all = object(&output, &folder);
    assert_eq!(failing(&all), [("settlement-service", "ledger"), ("order-summary-service", "total")]);
    assert_eq!((output.status.code(), &all["ok"]), (Some(1), &Value::Bool(false)));
    assert_eq!(all["consumers"]["settlement-service"]["ok"], false);
}
