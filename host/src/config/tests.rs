//! What people get to read when a configuration is wrong. One test per kind of mistake.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is how a test fails")]

use std::{collections::BTreeSet, path::Path};

use super::{Config, ConfigError, Dialect, Loaded, OlderThanRetention, Start, schema};
use crate::merge::{Guard, Merge, OnRefused, Operation};

mod kafka_properties;
mod mistakes;
mod property;
mod reference;
mod secrets;

/// A whole configuration without a mistake. Tests change single lines of it.
const GOOD: &str = r#"
[database.main]
url = "postgres://tidegate@localhost/shop"
[kafka.main]
"bootstrap.servers" = "localhost:9092"
[[consumer]]
name = "settlement"
topics = ["order.events"]
lanes = 2
ledger = { retention = "14d", replay_window = "2d" }
[consumer.plugin]
path = "settlement.wasm"
[[consumer.target]]
name = "settlements"
table = "settlements"
columns = ["payment_id", "order_id", "amount", "status", "event_version"]
key = ["payment_id"]
merge = { order_id = "keep" }
"#;

fn parse(text: &str) -> Result<Loaded, ConfigError> {
    super::parse(text, Path::new("tidegate.toml"), &|name| match name {
        "LANES" => Some("3".to_owned()),
        "CANARY_PASSWORD" => Some(secrets::CANARY.to_owned()),
        _ => None,
    })
}

fn good() -> Config {
    parse(GOOD).unwrap().config
}

/// [`GOOD`] with one line changed.
fn with(line: &str, instead: &str) -> String {
    assert!(GOOD.contains(line), "{line}");
    GOOD.replace(line, instead)
}

#[test]
fn a_good_configuration_gives_what_it_says() {
    let config = good();
    let consumer = &config.consumers[0];
    assert_eq!(config.databases["main"].url.expose(), "postgres://tidegate@localhost/shop");
    assert_eq!(config.kafka["main"].properties["bootstrap.servers"], "localhost:9092");
    assert_eq!(config.http.listen, Some("127.0.0.1:9464".parse().unwrap()));
    assert_eq!((consumer.name.as_str(), consumer.group.as_str()), ("settlement", "settlement"));
    assert_eq!((consumer.topics[0].name.as_str(), &*consumer.topics[0].source), ("order.events", "default"));
    assert_eq!((consumer.lanes, consumer.start), (2, Start::Earliest));
    assert_eq!(consumer.ledger.older_than_retention, OlderThanRetention::DeadLetter);
    assert_eq!(consumer.plugin.origin, "settlement.wasm".into());
    let target = &consumer.targets[0];
    assert_eq!((target.key.as_slice(), target.columns[1].merge), (&[0][..], Merge::Keep));
    assert_eq!(target.operations, BTreeSet::from([Operation::Upsert]));
}

#[test]
fn variables_are_put_into_text_and_numbers() {
    let text = with("lanes = 2", "lanes = \"${LANES:1}\"").replace("localhost:9092", "${KAFKA:broker}:1 $${x}");
    let config = parse(&text).unwrap().config;
    assert_eq!(config.consumers[0].lanes, 3);
    assert_eq!(config.kafka["main"].properties["bootstrap.servers"], "broker:1 ${x}");
}

#[test]
fn librdkafka_names_need_no_quotes() {
    let text = with(
        "\"bootstrap.servers\" = \"localhost:9092\"",
        "bootstrap.servers = \"a:1\"\nsession.timeout.ms = 9000\nsocket.keepalive.enable = true",
    );
    let config = parse(&text).unwrap().config;
    let kafka = &config.kafka["main"].properties;
    assert_eq!((kafka["bootstrap.servers"].as_str(), kafka["session.timeout.ms"].as_str()), ("a:1", "9000"));
    assert_eq!(kafka["socket.keepalive.enable"], "true");
    // The default deadline stays below the session time-out.
    assert_eq!(config.consumers[0].revoke_deadline.as_millis(), 4500);
}

#[test]
fn a_time_to_start_at() {
    for time in ["\"2026-01-31T00:00:00Z\"", "2026-01-31T00:00:00Z", "\"2026-01-31T09:00:00+09:00\""] {
        let config = parse(&with("lanes = 2", &format!("start = {time}"))).unwrap().config;
        assert_eq!(config.consumers[0].start, Start::Time(1_769_817_600_000), "{time}");
    }
}

#[test]
fn a_state_machine() {
    let text = format!(
        "{GOOD}operations = [\"upsert\", \"delete\"]\nsoft_delete = \"gone\"\n[consumer.target.guard.transition]\n\
         column = \"status\"\ninitial = [\"created\"]\nallow = {{ created = [\"paid\"] }}\non_refused = \"ignore\"\n"
    );
    let loaded = parse(&text).unwrap();
    let target = &loaded.config.consumers[0].targets[0];
    let Some(Guard::Transition { column: 3, initial, allow, on_refused: OnRefused::Ignore }) = &target.guard else {
        panic!("{:?}", target.guard)
    };
    assert_eq!(initial, &BTreeSet::from(["created".to_owned()]));
    assert_eq!(allow, &BTreeSet::from([("created".to_owned(), "paid".to_owned())]));
    assert_eq!(target.soft_delete.as_deref(), Some("gone"));
}

#[test]
fn paths_start_at_the_file_that_they_stand_in() {
    let text = with("postgres://tidegate@localhost/shop", "sqlite://shop 100%.db?x=1").replace("lanes = 2", "");
    let config = super::parse(&text, Path::new("conf#1/tidegate.toml"), &|_| None).unwrap().config;
    assert_eq!(config.consumers[0].plugin.origin, "conf#1/settlement.wasm".into());
    assert_eq!(config.databases["main"].dialect, Dialect::Sqlite);
    assert_eq!(config.databases["main"].url.expose(), "sqlite://conf%231/shop 100%.db?x=1");
}

/// Whoever watches must know where a mistake is put right.
#[test]
fn every_file_is_known_that_was_read_or_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let write = |name: &str, text: &str| std::fs::write(at(name), text).unwrap();
    let known = || {
        let (files, read) = super::load_with_files(&at("tidegate.toml"));
        let names = files.paths().map(|file| file.file_name().unwrap().to_string_lossy().into_owned());
        (names.collect::<BTreeSet<_>>(), read)
    };
    let named = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
    let head = "include = [\"second.toml\"]\n[http]\ntoken_file = \"token\"\n";
    let (authority, key) = (at("ca.pem"), at("client.key"));
    let kafka = format!(
        "\"localhost:9092\"\n\"security.protocol\" = \"SSL\"\n\"ssl.ca.location\" = \"{}\"\n\"ssl.key.location\" = \"{}\"",
        authority.display(),
        key.display()
    );
    write(
        "tidegate.toml",
        &format!("{head}{}", with("url = \"postgres://tidegate@localhost/shop\"", "url_file = \"url\""))
            .replace("\"localhost:9092\"", &kafka),
    );
    let (files, read) = known();
    assert!(read.is_err());
    assert_eq!(files, named(&["tidegate.toml", "second.toml", "token", "url"]), "what is not there, too");

    write("second.toml", "[kafka.other]\n\"bootstrap.servers\" = \"h:1\"\n");
    write("token", "0123456789abcdef\n");
    write("url", "postgres://tidegate@localhost/shop\n");
    write("ca.pem", "one");
    let (files, read) = known();
    let config = read.unwrap().config;
    assert_eq!(files, named(&["tidegate.toml", "second.toml", "token", "url", "ca.pem", "client.key"]));
    assert_eq!(config.files.paths().count(), files.len());
    let linked = &config.linked[&authority];
    assert!(linked.key == "[kafka.main] ssl.ca.location" && linked.sha256.is_some());
    assert_eq!(config.linked[&key].sha256, None);
    write("ca.pem", "two");
    assert_ne!(known().1.unwrap().config.linked, config.linked, "another certificate under the same name");

    write("second.toml", "[kafka.other");
    let (files, read) = known();
    assert!(read.is_err() && files.contains("second.toml") && files.contains("tidegate.toml"));
}

/// Else the first reading again, which has the absolute name, finds everything changed.
#[test]
fn whatever_the_file_is_called_by_its_paths_are_the_same() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let text =
        with("url = \"postgres://tidegate@localhost/shop\"", "url = \"sqlite://shop.db\"").replace("lanes = 2", "");
    std::fs::write(folder.path().join("tidegate.toml"), text).unwrap();
    let relative = Path::new(folder.path().file_name().unwrap()).join("tidegate.toml");
    let first = super::load(&relative).unwrap();
    let file = first.file.clone().unwrap();
    assert!(file.is_absolute());
    let again = super::load(&file).unwrap();
    assert_eq!((first.consumers, first.databases), (again.consumers, again.databases));
    assert_eq!(first.files, again.files);
}

/// Whoever reads a file again must not wait for ever, holding up all others.
#[test]
fn what_never_begins_or_ends_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let (config, fifo) = (folder.path().join("tidegate.toml"), folder.path().join("fifo"));
    crate::regular_file::tests::fifo(&fifo);
    let said = |path: &Path| super::load(path).unwrap_err().to_string();
    assert!(said(&fifo).contains("it is a FIFO"), "{}", said(&fifo));
    std::fs::write(&config, with("url = \"postgres://tidegate@localhost/shop\"", "url_file = \"fifo\"")).unwrap();
    assert!(said(&config).contains("fifo: it is a FIFO"), "{}", said(&config));
    let zero = with("url = \"postgres://tidegate@localhost/shop\"", "url_file = \"/dev/zero\"");
    std::fs::write(&config, zero).unwrap();
    assert!(said(&config).contains("/dev/zero: it is a device"), "{}", said(&config));
}

#[test]
fn files_include_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::create_dir(folder.path().join("more")).unwrap();
    write("tidegate.toml", &format!("include = [\"more/second.toml\"]\n{GOOD}"));
    write(
        "more/second.toml",
        &GOOD
            .replace("settlement", "summary")
            .replace(".main]", ".other]")
            .replace("lanes = 2", "database = \"other\""),
    );
    let config = super::load(&folder.path().join("tidegate.toml")).unwrap();
    let names: Vec<_> = config.consumers.iter().map(|consumer| consumer.name.as_str()).collect();
    assert_eq!(names, ["settlement", "summary"]);
    assert_eq!(config.consumers[1].plugin.origin, folder.path().join("more/summary.wasm").into());
    assert_eq!(config.databases.keys().collect::<Vec<_>>(), ["main", "other"]);

    // What is wrong in an included file is told with that file's name.
    write("more/second.toml", "include = [\"../tidegate.toml\", \"none.toml\"]\n[database.main]\nurl = 1");
    let text = super::load(&folder.path().join("tidegate.toml")).unwrap_err().to_string();
    assert!(text.contains("there is no file") && text.contains("more/second.toml:1:"), "{text}");
    assert!(text.contains("[database.main] is defined twice; first at"), "{text}");
    assert!(
        text.matches("is included already").count() == 1 && text.matches("is defined twice").count() == 1,
        "{text}"
    );
}
