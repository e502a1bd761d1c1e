//! `[kafka.NAME]`: librdkafka's own settings pass through, except those that safety needs.

use std::collections::BTreeMap;

use rdkafka::{ClientConfig, error::KafkaError};

use super::{
    KafkaCluster,
    document::{Node, Place, Reading, Table, Value},
    kafka_keys::{ALLOWED, refused},
    kafka_membership, kafka_security, schema,
    secret::key_is_secret,
    secret_file,
    section::Section,
    suggest::nearest,
};

/// The keys are librdkafka's: this schema knows none, and its unknown ones are not reported.
static NO_KEYS: schema::Section = schema::Section { name: "a Kafka cluster", keys: &[] };

/// Reads one cluster. What is wrong was reported.
pub(super) fn read(reading: &Reading<'_>, name: &str, table: &Table, place: &Place) -> KafkaCluster {
    let empty = Table::new();
    let section = Section::open(reading, &NO_KEYS, &empty, place, format!("kafka.{name}"));
    let mut properties = BTreeMap::new();
    let mut reported = false;
    for (key, key_place, node) in flatten(table, "") {
        // What librdkafka does not know may be a misspelt password.
        if key_is_secret(&key) || !ALLOWED.contains(&key.as_str()) {
            reading.mask(node);
        }
        if let Some(reason) = refused(&key) {
            section.error("refused-setting", key_place, &key, format!("`{key}` cannot be set"), reason);
            continue;
        }
        let Some(value) = value(&section, &key, node) else {
            reported = true;
            continue;
        };
        let key = key.strip_suffix("_file").filter(|key| key_is_secret(key)).map(str::to_owned).unwrap_or(key);
        // Nothing that is not known to be harmless gets as far as librdkafka, which may load code while it reads a value.
        if !ALLOWED.contains(&key.as_str()) {
            not_allowed(&section, &key, key_place);
            continue;
        }
        if accepted(&section, &key, &value, node) && properties.insert(key.clone(), value).is_some() {
            let message = format!("both `{key}` and `{key}_file` are given");
            section.error("both-given", key_place, &key, message, "keep one of them");
        }
    }
    if !reported && !["bootstrap.servers", "metadata.broker.list"].iter().any(|key| properties.contains_key(*key)) {
        let help = "write \"bootstrap.servers\" = \"HOST:9092,…\"";
        section.error("missing-key", place, "bootstrap.servers", "a Kafka cluster needs `bootstrap.servers`", help);
    }
    kafka_security::check(&section, place, &properties);
    kafka_membership::check(&section, place, &properties);
    KafkaCluster { properties }
}

/// `"a.b" = 1` and `a.b = 1` mean the same here.
fn flatten<'a>(table: &'a Table, prefix: &str) -> Vec<(String, &'a Place, &'a Node)> {
    let mut out = vec![];
    for (key, entry) in table {
        let key = format!("{prefix}{key}");
        match &entry.node.value {
            Value::Table(inner) => out.extend(flatten(inner, &format!("{key}."))),
            _ => out.push((key, &entry.key, &entry.node)),
        }
    }
    out
}

/// A setting's value as librdkafka takes it.
fn value(section: &Section<'_>, key: &str, node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) if key.strip_suffix("_file").is_some_and(key_is_secret) => {
            secret_file::read(section, key, &section.open_text(key, text, &node.place)?)
        }
        Value::Text(text) => Some(text.text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Boolean(value) => Some(value.to_string()),
        Value::Float(value) => Some(value.to_string()),
        _ => section.bad_type(key, node, "text, a number, true or false: librdkafka's settings are flat"),
    }
}

/// Reports a setting that is not let through: librdkafka does not know it, or nobody here does.
fn not_allowed(section: &Section<'_>, key: &str, place: &Place) {
    let known = ClientConfig::new().create_native_config().is_ok_and(|config| config.get(key).is_ok());
    if known {
        let message = format!("`{key}` cannot be set");
        let help = "only settings are let through that a consumer needs and that are known to be harmless";
        return section.error("refused-setting", place, key, message, help);
    }
    let help = match nearest(key, ALLOWED.iter().copied()) {
        Some(known) => format!("did you mean `{known}`?"),
        None => "the names are librdkafka's: see its CONFIGURATION.md".to_owned(),
    };
    section.error("unknown-key", place, key, format!("librdkafka has no setting `{key}`"), help);
}

/// Asks librdkafka itself whether it takes the value.
fn accepted(section: &Section<'_>, key: &str, value: &str, node: &Node) -> bool {
    // It would read "6s" as 6.
    let whole = !(key.ends_with(".ms") || key.ends_with(".bytes")) || value.trim().parse::<i64>().is_ok();
    let error = match ClientConfig::new().set(key, value).create_native_config() {
        Ok(_) if whole => return true,
        Ok(_) => None,
        Err(error) => Some(error),
    };
    let from_secret = matches!(&node.value, Value::Text(text) if text.secret);
    match error {
        // librdkafka's own words repeat the value.
        Some(KafkaError::ClientConfig(_, why, ..)) if !from_secret && !key_is_secret(key) => {
            section.error("bad-value", &node.place, key, format!("librdkafka refuses `{key}`"), why);
        }
        _ => {
            let help = if whole {
                "see librdkafka's CONFIGURATION.md for what it takes"
            } else {
                "a whole number, without a unit"
            };
            section.error("bad-value", &node.place, key, format!("librdkafka refuses the value of `{key}`"), help);
        }
    }
    false
}
