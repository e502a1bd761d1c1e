//! The commands for authors, as they are typed: from an empty folder to a plugin that passes its cases, and again at every
//! save; danger signs; real messages into cases; a run that writes nothing.

use std::{fs, path::Path};

use tidegate_tests::{
    Message,
    host::{self, Setup},
    kafka,
    plugin_command::{Answer, Watching, tidegate},
    postgres,
    services::checkout,
    settlement::Settlement,
};

fn edit(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{from:?} is not in {text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

/// With nothing but the program and a Rust compiler: no path leads into this repository.
#[test]
fn a_new_rust_plugin_passes_its_cases_and_is_tried_again_at_every_save() {
    let root = tempfile::tempdir().unwrap();
    let made = tidegate(root.path(), &["plugin", "new", "--lang", "rust", "order-payments"]).expect(0);
    assert!(made.contains("tidegate plugin test order-payments"), "{made}");
    let folder = root.path().join("order-payments");
    let again = tidegate(root.path(), &["plugin", "new", "--lang", "rust", "order-payments"]).expect(2);
    assert!(again.contains("nothing was written"), "{again}");

    let tested = tidegate(root.path(), &["plugin", "test", "order-payments"]).expect(0);
    assert!(tested.contains("✓ captured") && tested.contains("3 cases as expected"), "{tested}");
    let component = folder.join("target/plugins/order_payments.wasm");
    assert!(component.is_file(), "{} is not there", component.display());

    // A case that expects something else: its difference, and no other's; then it is written down.
    let case = folder.join("cases/captured.toml");
    edit(&case, "\"10.10\"", "\"10.1\"");
    let tested = tidegate(root.path(), &["plugin", "test", "order-payments"]).expect(1);
    assert!(tested.contains("- row.amount = { decimal = \"10.1\" }"), "{tested}");
    assert!(tested.contains("+ row.amount = { decimal = \"10.10\" }") && tested.contains("1 of 3"), "{tested}");
    tidegate(root.path(), &["plugin", "test", "order-payments", "--update"]).expect(0);
    let text = fs::read_to_string(&case).unwrap();
    assert!(text.starts_with("# A captured payment") && text.contains("\"10.10\""), "{text}");

    // In the folder itself it need not be named.
    tidegate(&folder, &["plugin", "test"]).expect(0);
    let inspected = tidegate(&folder, &["plugin", "inspect"]).expect(0);
    assert!(inspected.contains("order_payments.wasm") && inspected.contains("writes    payments ("), "{inspected}");
    let checked = tidegate(root.path(), &["plugin", "check", "order-payments"]).expect(0);
    assert!(checked.contains("✓ golden cases: 3") && checked.contains("show no danger sign"), "{checked}");

    let mut dev = Watching::start(root.path(), &["plugin", "dev", "order-payments"]);
    let first = dev.until("waiting for a change");
    assert!(first.contains("3 as expected"), "{first}");
    // The rule.
    edit(
        &folder.join("src/lib.rs"),
        "amount: payment.amount,\n            event",
        "amount: Decimal::from_str(\"1\").unwrap(),\n            event",
    );
    edit(&folder.join("src/lib.rs"), "use serde::Deserialize;", "use std::str::FromStr;\n\nuse serde::Deserialize;");
    let changed = dev.until("waiting for a change");
    assert!(changed.contains("~ captured: the answer has changed"), "{changed}");
    assert!(changed.contains("+ row.amount = { decimal = \"1\" }") && changed.contains("1 of 3 not"), "{changed}");
    // The case.
    edit(&case, "\"10.10\" }", "\"1\" }");
    let mended = dev.until("waiting for a change");
    assert!(mended.contains("✓ captured: as expected now") && mended.contains("3 as expected"), "{mended}");
    // A mistake keeps nobody from the next try.
    edit(&folder.join("src/lib.rs"), "struct OrderPayments;", "struct OrderPayments");
    let broken = dev.until("waiting for a change");
    assert!(broken.contains("✗ cargo build failed"), "{broken}");
}

#[test]
fn a_plugin_is_inspected_and_its_cases_hold() {
    let root = checkout();
    let file = host::plugin("settlement");
    let text = tidegate(&root, &["plugin", "inspect", file.to_str().unwrap()]).expect(0);
    assert!(text.contains("contract  tidegate:plugin@0.1.0"), "{text}");
    assert!(text.contains("writes    settlements (payment_id, order_id, amount"), "{text}");
    let json = tidegate(&root, &["plugin", "inspect", file.to_str().unwrap(), "--json"]).expect(0);
    let json: serde_json::Value = serde_json::from_str(json.trim()).unwrap();
    assert_eq!(json["description"]["name"], "settlement");
    assert_eq!(json["sha256"].as_str().unwrap().len(), 64);

    let cases = "plugins/settlement/cases";
    let tested = tidegate(&root, &["plugin", "test", file.to_str().unwrap(), "--cases", cases]).expect(0);
    assert!(tested.contains("✓ refunded-unicode"), "{tested}");
    let none = tidegate(&root, &["plugin", "test", file.to_str().unwrap()]).expect(2);
    assert!(none.contains("name one with --cases"), "{none}");
}

#[test]
fn danger_signs_are_found_on_samples() {
    let folder = tempfile::tempdir().unwrap();
    let samples = folder.path().join("samples.jsonl");
    let event = |id: &str, payment: u32| {
        format!(
            r#"{{"event_id":"{id}","type":"payment.captured","payment_id":"p-{payment}","order_id":"o","version":1,"occurred_at":"2026-01-01T00:00:00Z","amount":1,"currency":"EUR"}}"#
        )
    };
    let check = |lines: &[String], code: i32| {
        fs::write(&samples, lines.join("\n")).unwrap();
        let file = host::plugin("settlement");
        let words = ["plugin", "check", file.to_str().unwrap(), "--samples", samples.to_str().unwrap(), "--json"];
        let text = tidegate(folder.path(), &words).expect(code);
        serde_json::from_str::<serde_json::Value>(text.trim()).unwrap()
    };
    let codes = |json: &serde_json::Value| -> Vec<String> {
        let lines = json["lines"].as_array().unwrap().iter();
        lines.filter_map(|line| line["code"].as_str().map(str::to_owned)).collect()
    };
    let good: Vec<_> = (0..20).map(|n| event(&format!("evt-{n}"), n)).collect();
    assert_eq!(codes(&check(&good, 0)), [""; 0]);
    let some = [event("evt-1", 1), event("evt-2", 2).replace("captured", "refunded"), "{".to_owned()];
    let said = check(&some, 0).to_string();
    assert!(said.contains("3 samples read: ") && said.contains("1 rejected, "), "{said}");
    let colliding: Vec<_> = (0..20).map(|n| event("evt-1", n)).collect();
    assert_eq!(codes(&check(&colliding, 0)), ["TP010"], "a warning");
    let by_time: Vec<_> = (0..5).map(|n| event(&format!("2026-01-01T00:00:0{n}Z"), n)).collect();
    assert_eq!(codes(&check(&by_time, 0)), ["TP008"]);
    assert_eq!(codes(&check(&["nothing".to_owned()], 0)), ["TP006"]);
}

/// What is in a topic is shown and captured, and neither the group nor the database knows of it.
#[tokio::test(flavor = "multi_thread")]
async fn real_messages_are_shown_and_captured_without_a_trace() {
    let (database, broker) = (postgres().await, kafka());
    let topic = broker.topic(3).await;
    let event = |n: u32, amount: &str| {
        format!(
            r#"{{"event_id":"evt-{n}","type":"payment.captured","payment_id":"p-{n}","order_id":"o-{n}","version":1,"occurred_at":"2026-01-01T00:00:00Z","amount":{amount},"currency":"EUR","customer":{{"email":"somebody@example.com"}}}}"#
        )
    };
    let send = |n: u32, amount: &str| {
        Message::new(event(n, amount)).key("somebody@example.com").to(i32::try_from(n % 3).unwrap())
    };
    let messages = [send(1, "10.10"), send(2, "-1"), send(3, "3"), send(1, "10.10"), Message::new("{").to(0)];
    broker.producer(&[]).send(&topic, messages);
    let setup = Setup::new(database.url(), &broker, Settlement::of(&topic).in_group(&topic).toml());

    let shown = Answer::of(&host::run_once(&setup, &["run", "--dry-run"])).expect(0);
    assert!(shown.contains(&format!("{topic}:1:0  evt-1  upsert settlements: ")), "{shown}");
    assert!(shown.contains("amount = { decimal = \"10.10\" }"), "{shown}");
    assert!(shown.contains(&format!("{topic}:1:1  evt-1  the same id as before")), "{shown}");
    assert!(shown.contains("evt-2  dead letter: bad-amount: amount is negative"), "{shown}");
    assert!(
        shown.contains("5 read: 2 would be applied with 2 changes of rows, 1 came again, 0 skipped, 2 dead"),
        "{shown}"
    );
    let few = Answer::of(&host::run_once(&setup, &["run", "--dry-run", "--max", "1"])).expect(0);
    assert!(few.contains(" 1 read"), "{few}");
    let json = Answer::of(&host::run_once(&setup, &["run", "--dry-run", "--json"])).expect(0);
    let lines = json.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let lines: Vec<_> = lines.filter(|line| line["message_id"] == "evt-1").collect();
    assert_eq!(lines.iter().filter(|line| line["again"] == true).count(), 1, "{json}");
    assert_eq!(lines[0]["changes"][0]["row"]["amount"]["decimal"], "10.10", "{json}");
    assert_eq!(lines[0]["changes"][0]["row"]["created_at"]["timestamp"], "2026-01-01T00:00:00Z", "{json}");
    let later = Answer::of(&host::run_once(&setup, &["run", "--dry-run", "--from", "-0s"])).expect(0);
    assert!(later.contains(" 0 read"), "{later}");

    let folder = tempfile::tempdir().unwrap();
    let cases = folder.path().join("cases");
    let words = ["--consumer", "settlement-service", "--redact", "customer.email,@key", "--cases"];
    let words = [&["plugin", "capture"], &words[..], &[cases.to_str().unwrap()]].concat();
    let captured = Answer::of(&host::run_once(&setup, &words)).expect(0);
    assert!(captured.contains("4 captured") && captured.contains("1 left out"), "{captured}");
    let mut names = Vec::new();
    for entry in fs::read_dir(&cases).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("somebody") && text.contains("redacted-1"), "{text}");
        names.push(path.file_stem().unwrap().to_string_lossy().into_owned());
    }
    names.sort();
    let expected = [(0, 0), (1, 0), (1, 1), (2, 0)].map(|(p, offset)| format!("captured-{topic}-{p}-{offset}"));
    assert_eq!(names, expected);
    // What was captured is a case, and nothing of it is overwritten.
    let file = host::plugin("settlement");
    let words = ["plugin", "test", file.to_str().unwrap(), "--cases", "cases"];
    let tested = tidegate(folder.path(), &words).expect(0);
    assert!(tested.contains("4 cases as expected"), "{tested}");
    let capture = |redact: &str, folder: &Path, code: i32| {
        let words = ["plugin", "capture", "--consumer", "settlement-service", "--redact", redact, "--cases"];
        let words = [&words[..], &[folder.to_str().unwrap()]].concat();
        Answer::of(&host::run_once(&setup, &words)).expect(code)
    };
    let again = capture("@key", &cases, 0);
    assert!(again.contains("4 were there already and stay as they are"), "{again}");
    // A field that is mistyped: what it was to leave out is written nowhere.
    let elsewhere = folder.path().join("elsewhere");
    let mistyped = capture("customer.email,order_idd,@key", &elsewhere, 2);
    assert!(mistyped.contains("--redact order_idd: none of the 4 messages"), "{mistyped}");
    assert!(!elsewhere.exists());

    assert_eq!(broker.committed(&topic, &topic), [None, None, None], "the group has no offsets");
    assert_eq!(
        database.number("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").await,
        0,
        "no table was made"
    );
}
