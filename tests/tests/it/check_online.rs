//! `tidegate check --online` against real services: each danger sign that only broker or database can show.

use serde_json::Value;
use tidegate_tests::{
    Broker, Database,
    host::{self, Setup},
    kafka, postgres,
    workload::SETTLEMENTS,
};

const COLUMNS: &str = r#"["payment_id", "order_id", "amount", "status", "event_version", "created_at"]"#;

/// A consumer of the settlement plugin on these topics.
fn setup(database: &Database, broker: &Broker, topics: &[&str], more: &str) -> Setup {
    let rest = format!(
        r#"
[[consumer]]
name = "settlement-service"
topics = {topics:?}
{more}
[consumer.plugin]
path = "{}"
[[consumer.target]]
name = "settlements"
table = "settlements"
columns = {COLUMNS}
key = ["payment_id"]
guard = {{ newer_by = "event_version" }}
"#,
        host::plugin("settlement").display()
    );
    Setup::new(database.url(), broker, rest)
}

/// The exit code and the report.
fn check(setup: &Setup) -> (i32, Value) {
    let output = host::run_once(setup, &["check", "--online", "--json"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let report = serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!("{error} in {text}\n{}", String::from_utf8_lossy(&output.stderr));
    });
    (output.status.code().unwrap(), report)
}

/// How a danger sign stands.
fn state<'a>(report: &'a Value, code: &str) -> &'a str {
    let dangers = report["dangers"].as_array().unwrap();
    dangers.iter().find(|danger| danger["code"] == code).unwrap()["state"].as_str().unwrap()
}

/// What was said about a subject.
fn said(report: &Value, subject: &str) -> String {
    let findings = report["findings"].as_array().unwrap();
    let about = findings.iter().filter(|finding| finding["subject"] == subject);
    about
        .map(|finding| format!("{} {}\n", finding["mark"].as_str().unwrap(), finding["text"].as_str().unwrap()))
        .collect()
}

async fn migrated() -> Database {
    let database = postgres().await;
    database.execute(SETTLEMENTS).await;
    let broker = kafka();
    let output = host::run_once(&setup(&database, &broker, &["any"], ""), &["migrate"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn all_is_well() {
    let (database, broker) = (migrated().await, kafka());
    let topic = broker.topic(3).await;
    let (code, report) = check(&setup(&database, &broker, &[&topic], ""));
    assert_eq!((code, &report["ok"], &report["unreachable"]), (0, &true.into(), &0.into()), "{report:#}");
    for code in ["TG001", "TG002", "TG003", "TG004", "TG005", "TG006", "TG007", "TG009", "TG010"] {
        assert_eq!(state(&report, code), "clear", "{code} in {report:#}");
    }
    assert_eq!(state(&report, "TG008"), "excluded");
    assert_eq!(said(&report, &format!("topic {topic}")), "ok 3 partitions\n");
}

/// Of which kind a plugin's values are is not known beforehand: people can see the types, and a version that is text.
#[tokio::test(flavor = "multi_thread")]
async fn a_targets_types_are_shown_and_a_version_that_is_text_is_warned_of() {
    let (database, broker) = (migrated().await, kafka());
    let topic = broker.topic(1).await;
    let setup = setup(&database, &broker, &[&topic], "");
    database
        .execute(
            "DROP TABLE settlements; CREATE TABLE settlements (payment_id text PRIMARY KEY, order_id integer, amount text,
             status text, event_version text, created_at timestamptz)",
        )
        .await;
    let (code, report) = check(&setup);
    assert_eq!((code, &report["warnings"]), (0, &1.into()), "{report:#}");
    let said = said(&report, "target settlements");
    assert!(said.contains("order_id integer, amount text, "), "{said}");
    assert!(
        said.contains("warning `newer_by` compares event_version (text) as text: \"10\" is older than \"9\""),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_a_database_or_a_user_that_is_not_there() {
    let (database, broker) = (migrated().await, kafka());
    let topic = broker.topic(1).await;
    let mut setup = setup(&database, &broker, &[&topic], "");
    database.execute("DROP TABLE settlements").await;
    let (code, report) = check(&setup);
    let expected = "error table settlements: there is no such table; create it, or correct `table = \"settlements\"`";
    assert_eq!((code, said(&report, "target settlements").contains(expected)), (2, true), "{report:#}");

    let (base, _) = database.url().rsplit_once('/').unwrap();
    setup.database_url = format!("{base}/not_there");
    let (code, report) = check(&setup);
    assert_eq!((code, &report["unreachable"]), (2, &0.into()), "{report:#}");
    assert!(said(&report, "database").starts_with("error the server has no such database: "), "{report:#}");
    for command in ["migrate", "status"] {
        let output = host::run_once(&setup, &[command]);
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), log.contains("CREATE DATABASE")), (Some(2), true), "{command}: {log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_forgets_what_the_topic_keeps() {
    let (database, broker) = (migrated().await, kafka());
    let day = "86400000";
    let short = broker.topic_with(1, &[("retention.ms", day), ("segment.ms", day)]).await;
    let compacted = broker.topic_with(1, &[("cleanup.policy", "compact")]).await;
    let unlimited = broker.topic_with(1, &[("retention.ms", "-1")]).await;
    // A day, a day and a day, and two days of replay.
    let ledger = |retention: &str| format!("ledger = {{ retention = \"{retention}\", replay_window = \"2d\" }}");
    for (topic, retention, expected) in [
        (&short, "5d", "found"),
        (&short, "6d", "clear"),
        (&compacted, "3650d", "found"),
        (&compacted, "forever", "clear"),
        (&unlimited, "3650d", "found"),
        (&unlimited, "forever", "clear"),
    ] {
        let setup = setup(&database, &broker, &[topic], &ledger(retention));
        let (code, report) = check(&setup);
        assert_eq!(state(&report, "TG004"), expected, "{topic} {retention}: {report:#}");
        assert_eq!(code, if expected == "found" { 2 } else { 0 });
        if expected == "found" {
            let run = host::run_once(&setup, &["run"]);
            let log = String::from_utf8_lossy(&run.stderr);
            assert_eq!(run.status.code(), Some(2), "a host does not start with it: {log}");
            assert!(log.contains("error[TG004]: "), "{log}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_not_there_is_not_made() {
    let (database, broker) = (migrated().await, kafka());
    let name = format!("{}-misspelt", broker.topic(1).await);
    for _ in 0..2 {
        let (code, report) = check(&setup(&database, &broker, &[&name], ""));
        assert_eq!(code, 2, "{report:#}");
        let expected = format!("error does not exist on {}\n", broker.bootstrap());
        assert_eq!(said(&report, &format!("topic {name}")), expected);
        assert_eq!(state(&report, "TG004"), "unknown");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_let_duplicates_in_or_commit_elsewhere() {
    let (database, broker) = (migrated().await, kafka());
    let topic = broker.topic(1).await;
    let setup = setup(&database, &broker, &[&topic], "");

    let columns = "order_id text, amount numeric(18,2), status text, event_version bigint, created_at timestamptz";
    for (table, danger) in [
        (format!("CREATE TABLE settlements (payment_id text NOT NULL, {columns})"), "TG006"),
        (format!("CREATE TABLE settlements (payment_id text UNIQUE, {columns})"), "TG006"),
        (format!("CREATE UNLOGGED TABLE settlements (payment_id text PRIMARY KEY, {columns})"), "TG003"),
    ] {
        database.execute(&format!("DROP TABLE settlements; {table}")).await;
        let (code, report) = check(&setup);
        assert_eq!((code, state(&report, danger)), (2, "found"), "{table}: {report:#}");
    }

    database.execute("DROP TABLE settlements").await;
    let (code, report) = check(&setup);
    assert_eq!(code, 2);
    assert!(said(&report, "target settlements").contains("error "), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_changed_and_a_ledger_without_the_consumers_name() {
    let (database, broker) = (migrated().await, kafka());
    let topic = broker.topic(1).await;
    let setup = setup(&database, &broker, &[&topic], "");
    database
        .execute(
            "INSERT INTO consumers (consumer_name, key_version, plugin_digest, group_id)
             VALUES ('settlement-service', 99, '\\x00', 'g')",
        )
        .await;
    let (code, report) = check(&setup);
    assert_eq!((code, state(&report, "TG009")), (2, "found"), "{report:#}");
    database.execute("DELETE FROM consumers").await;

    database
        .execute(
            "ALTER TABLE processed_messages DROP CONSTRAINT processed_messages_pkey;
             CREATE UNIQUE INDEX just_ids ON processed_messages (message_id)",
        )
        .await;
    let (code, report) = check(&setup);
    assert_eq!((code, state(&report, "TG002")), (2, "found"), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn services_that_are_away_are_no_mistake_of_the_configuration() {
    let (database, broker) = (migrated().await, kafka());
    let topic = broker.topic(1).await;
    let mut away = setup(&database, &broker, &[&topic], "").with_kafka("bootstrap.servers", "127.0.0.1:1");
    away.database_url = "postgres://nobody:canary-5e93@127.0.0.1:1/nothing".to_owned();
    let (code, report) = check(&away);
    assert_eq!((code, &report["unreachable"]), (3, &2.into()), "{report:#}");
    assert!(!report.to_string().contains("canary-5e93"), "{report:#}");
    for code in ["TG002", "TG003", "TG004", "TG006", "TG009"] {
        assert_eq!(state(&report, code), "unknown");
    }
}
