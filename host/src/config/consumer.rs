//! `[[consumer]]`.

use std::{sync::Arc, time::Duration};

use super::{
    BatchLimits, Consumer, DEFAULT_QUEUE_BYTES, DEFAULT_REVOKE_DEADLINE, FOREVER, Ledger, OlderThanRetention, Payload,
    Start, Tombstones, Topic,
    document::{Place, Reading, Table, Value},
    plugin, quantity, schema,
    section::Section,
    target::{self, PlacedTarget},
};
use crate::identity::ConsumerName;

const KIB: usize = 1 << 10;
const GIB: usize = 1 << 30;

/// A consumer, and what the cross checks need to know of where it stands.
pub(super) struct PlacedConsumer {
    /// The consumer; where something was reported, with a stand-in.
    pub(super) consumer: Consumer,
    /// Its path, such as `consumer[settlement]`.
    pub(super) path: String,
    /// Whether `consumer.name` is what the file says.
    pub(super) named: bool,
    /// Where the name stands.
    pub(super) name: Place,
    /// Where `lanes` stands.
    pub(super) lanes: Place,
    /// Where each topic stands.
    pub(super) topics: Vec<Place>,
    /// Where `database` stands.
    pub(super) database: Place,
    /// Where `kafka` stands.
    pub(super) kafka: Place,
    /// Where the revoke deadline stands; `None` = the default.
    pub(super) revoke_deadline: Option<Place>,
    /// Its targets.
    pub(super) targets: Vec<PlacedTarget>,
}

/// Reads one consumer, the `number`th of the configuration. What is wrong was reported.
pub(super) fn read(reading: &Reading<'_>, number: usize, table: &Table, place: &Place) -> PlacedConsumer {
    let called = table.get("name").and_then(|entry| match &entry.node.value {
        Value::Text(text) if !text.text.is_empty() && !text.secret => Some(text.text.clone()),
        _ => None,
    });
    let path = format!("consumer[{}]", called.unwrap_or_else(|| format!("#{number}")));
    let section = Section::open(reading, &schema::CONSUMER, table, place, path.clone());

    let name = name(&section);
    let group = section.text("group");
    if let Some(group) = group.as_ref().filter(|group| group.value.is_empty()) {
        section.error(
            "empty",
            &group.place,
            "group",
            "`group` is empty",
            "leave it out: the consumer's name is the group",
        );
    }
    let topics = topics(&section);
    let tables = section.tables("target");
    if tables.is_empty() && !section.has("target") {
        let help = "add [[consumer.target]] with name, table, columns and key: what the plugin may write";
        section.error("missing-key", place, "target", "a consumer needs a target", help);
    }
    let placed_targets: Vec<_> =
        tables.into_iter().enumerate().map(|(i, (table, place))| target::read(&section, i + 1, table, place)).collect();
    let one = |key| section.text(key).map_or_else(|| "main".to_owned(), |text| text.value);
    let consumer = Consumer {
        group: group
            .map(|group| group.value)
            .filter(|group| !group.is_empty())
            .unwrap_or_else(|| name.as_str().to_owned()),
        database: one("database"),
        kafka: one("kafka"),
        start: start(&section),
        lanes: section.number("lanes", 1, 1..=64),
        batch: batch(&section),
        ledger: ledger(&section),
        payload: section.choice("payload", Payload::Text, &[("text", Payload::Text), ("binary", Payload::Binary)]),
        tombstones: section.choice(
            "tombstones",
            Tombstones::Skip,
            &[("skip", Tombstones::Skip), ("plugin", Tombstones::Plugin)],
        ),
        queue_bytes: section.size("queue", DEFAULT_QUEUE_BYTES, 64 * KIB..=GIB),
        revoke_deadline: section.duration(
            "revoke_deadline",
            DEFAULT_REVOKE_DEADLINE,
            Duration::from_secs(1)..=Duration::from_secs(600),
        ),
        key_samples: section.boolean("key_samples", true),
        plugin: plugin::read(&section),
        shadow: plugin::read_shadow(&section),
        topics: topics.iter().map(|(topic, _)| topic.clone()).collect(),
        targets: placed_targets.iter().map(|target| target.spec.clone()).collect(),
        name,
    };
    PlacedConsumer {
        named: section.text("name").is_some_and(|name| name.value == consumer.name.as_str()),
        consumer,
        name: section.place_of("name"),
        lanes: section.place_of("lanes"),
        topics: topics.into_iter().map(|(_, place)| place).collect(),
        database: section.place_of("database"),
        kafka: section.place_of("kafka"),
        revoke_deadline: section.has("revoke_deadline").then(|| section.place_of("revoke_deadline")),
        targets: placed_targets,
        path,
    }
}

fn name(section: &Section<'_>) -> ConsumerName {
    let help = "a stable name: it is half of the ledger's key, so changing it later applies everything again";
    if let Some(name) = section.required_text("name", help) {
        match ConsumerName::new(name.value) {
            Ok(name) => return name,
            Err(error) => section.error("bad-value", &name.place, "name", error.to_string(), help),
        }
    }
    #[allow(clippy::expect_used, reason = "a constant that is short and has no NUL")]
    ConsumerName::new("unnamed").expect("a valid name")
}

fn topics(section: &Section<'_>) -> Vec<(Topic, Place)> {
    let help = "topics = [\"order.events\"], or { name = \"order.events\", source = \"orders\" } to name its source";
    section.missing("topics", help);
    let Some(node) = section.node("topics") else { return vec![] };
    let Value::Array(nodes) = &node.value else {
        section.bad_type::<()>("topics", node, "a list of topics");
        return vec![];
    };
    if nodes.is_empty() {
        section.error("empty", &node.place, "topics", "`topics` is empty", help);
    }
    let mut topics: Vec<(Topic, Place)> = vec![];
    for node in nodes {
        let (name, source) = match &node.value {
            Value::Text(text) => (section.open_text("topics", text, &node.place), None),
            Value::Table(table) => {
                let topic = Section::open(section.reading, &schema::TOPIC, table, &node.place, section.at("topics"));
                (topic.required_text("name", help), topic.text("source"))
            }
            Value::Broken => continue,
            _ => {
                section.bad_type::<()>("topics", node, "a topic's name in quotes");
                continue;
            }
        };
        let Some(name) = name else { continue };
        if let Some((why, help)) = refuse_topic(&name.value) {
            section.error("bad-value", &name.place, "topics", format!("{} {why}", name.shown()), help);
        } else if topics.iter().any(|(topic, _)| topic.name == name.value) {
            section.error(
                "defined-twice",
                &name.place,
                "topics",
                format!("{} is listed twice", name.shown()),
                "keep it once",
            );
        } else {
            let source = source.map_or_else(|| "default".to_owned(), |source| source.value);
            topics.push((Topic { name: name.value, source: Arc::from(source) }, name.place));
        }
    }
    topics
}

/// Why Kafka has no such topic, and what to do.
fn refuse_topic(name: &str) -> Option<(&'static str, &'static str)> {
    if name.starts_with('^') {
        return Some(("is a pattern", "list the topics by name: a pattern would take in whatever topic appears later"));
    }
    let legal = name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if name.is_empty() || name.len() > 249 || !legal || name == "." || name == ".." {
        return Some(("is no topic's name", "1 to 249 letters, digits, dots, underscores and dashes"));
    }
    None
}

fn start(section: &Section<'_>) -> Start {
    let Some(node) = section.node("start") else { return Start::Earliest };
    let help = "\"earliest\", \"latest\", or a time with its zone such as \"2026-01-31T00:00:00Z\"";
    let text = match &node.value {
        Value::Text(text) => &text.text,
        Value::Datetime(text) => text,
        _ => {
            section.bad_type::<()>("start", node, help);
            return Start::Earliest;
        }
    };
    match text.as_str() {
        "earliest" => Start::Earliest,
        "latest" => Start::Latest,
        _ => match text.parse::<jiff::Timestamp>() {
            Ok(time) => Start::Time(time.as_millisecond()),
            Err(_) => {
                section.error(
                    "bad-value",
                    &node.place,
                    "start",
                    format!("`start` cannot be {}", section.shown("start", node)),
                    help,
                );
                Start::Earliest
            }
        },
    }
}

fn batch(section: &Section<'_>) -> BatchLimits {
    let default = BatchLimits::default();
    let Some(batch) = section.section("batch", &schema::BATCH) else { return default };
    BatchLimits {
        max_records: batch.number("max_records", default.max_records, 1..=100_000),
        max_bytes: batch.size("max_bytes", default.max_bytes, KIB..=GIB),
        linger: batch.duration("linger", default.linger, Duration::ZERO..=Duration::from_secs(10)),
    }
}

fn ledger(section: &Section<'_>) -> Ledger {
    let default = Ledger::default();
    let Some(section) = section.section("ledger", &schema::LEDGER) else { return default };
    let policies = [("dead-letter", OlderThanRetention::DeadLetter), ("skip", OlderThanRetention::Skip)];
    let ledger = Ledger {
        retention: section.duration("retention", default.retention, Duration::from_secs(3600)..=FOREVER),
        replay_window: section.duration("replay_window", default.replay_window, Duration::ZERO..=FOREVER),
        older_than_retention: section.choice("older_than_retention", default.older_than_retention, &policies),
    };
    if ledger.retention <= ledger.replay_window && ledger.retention < FOREVER {
        let (retention, window) =
            (quantity::show_duration(ledger.retention), quantity::show_duration(ledger.replay_window));
        section.error(
            "retention-too-short",
            &section.place_of("retention"),
            "retention",
            format!("the ledger forgets after {retention}, but up to {window} may be replayed"),
            "retention must be longer than replay_window plus what Kafka itself keeps; a replay of what is forgotten would be applied again",
        );
    }
    ledger
}
