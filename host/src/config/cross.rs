//! Checks that look at more than one place of the configuration.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    Config, Dialect, KafkaCluster,
    consumer::PlacedConsumer,
    document::Reading,
    kafka_membership::{INSTANCE, Membership},
    quantity::show_duration,
    suggest::nearest,
    target::PlacedTarget,
};
use crate::merge::Guard;

/// Checks everything, and fills in the defaults that depend on other keys.
pub(super) fn check(reading: &Reading<'_>, config: &Config, consumers: &mut [PlacedConsumer]) {
    names(reading, consumers);
    for consumer in consumers.iter_mut() {
        references(reading, config, consumer);
        lanes(reading, config, consumer);
        revoke_deadline(reading, config, consumer);
        target_names(reading, consumer);
    }
    groups(reading, consumers);
    instances(reading, config, consumers);
    versions(reading, consumers);
}

fn names(reading: &Reading<'_>, consumers: &[PlacedConsumer]) {
    let mut seen: BTreeMap<&str, &PlacedConsumer> = BTreeMap::new();
    for consumer in consumers.iter().filter(|consumer| consumer.named) {
        let name = consumer.consumer.name.as_str();
        if let Some(first) = seen.insert(name, consumer) {
            let message = format!("the consumer \"{name}\" is defined twice; first at {}", reading.show(&first.name));
            let help =
                "the name is half of the ledger's key: two consumers of one name would skip each other's messages";
            reading.error(
                "duplicate-consumer",
                &consumer.name,
                &format!("{}.name", consumer.path),
                &message,
                Some(help),
            );
        }
    }
}

fn references(reading: &Reading<'_>, config: &Config, consumer: &PlacedConsumer) {
    let one = |what: &str, name: &str, known: Vec<&str>, place| {
        if known.contains(&name) {
            return;
        }
        let help = match (nearest(name, known.iter().copied()), known.is_empty()) {
            (Some(known), _) => format!("did you mean \"{known}\"?"),
            (None, true) => format!("add [{what}.{name}]"),
            (None, false) => format!("add [{what}.{name}], or name one of: {}", known.join(", ")),
        };
        let message = format!("there is no [{what}.{name}]");
        reading.error("unknown-reference", place, &format!("{}.{what}", consumer.path), &message, Some(&help));
    };
    let inner = &consumer.consumer;
    one("database", &inner.database, config.databases.keys().map(String::as_str).collect(), &consumer.database);
    one("kafka", &inner.kafka, config.kafka.keys().map(String::as_str).collect(), &consumer.kafka);
}

fn lanes(reading: &Reading<'_>, config: &Config, consumer: &PlacedConsumer) {
    let sqlite = config.databases.get(&consumer.consumer.database).is_some_and(|db| db.dialect == Dialect::Sqlite);
    if sqlite && consumer.consumer.lanes > 1 {
        let message = format!("{} lanes on SQLite, which has one writer", consumer.consumer.lanes);
        let help = "set lanes = 1, or use PostgreSQL";
        reading.error("lanes-on-sqlite", &consumer.lanes, &format!("{}.lanes", consumer.path), &message, Some(help));
    }
}

/// A revoke that drains for longer than the broker waits loses its offset commit.
fn revoke_deadline(reading: &Reading<'_>, config: &Config, consumer: &mut PlacedConsumer) {
    let Some(kafka) = config.kafka.get(&consumer.consumer.kafka) else { return };
    let membership = Membership(&kafka.properties);
    let (session, session_key) = membership.session_timeout();
    let poll = membership.max_poll_interval();
    let limit = Duration::from_millis(session.min(poll));
    let Some(place) = &consumer.revoke_deadline else {
        consumer.consumer.revoke_deadline = consumer.consumer.revoke_deadline.min(limit / 2);
        return;
    };
    let deadline = consumer.consumer.revoke_deadline;
    if deadline >= limit {
        let key = if session <= poll { session_key } else { "max.poll.interval.ms" };
        let message = format!(
            "a revoke may take {}, but after {} (`{key}`) the broker gives the partitions away",
            show_duration(deadline),
            show_duration(limit)
        );
        let below = format!("set it below {}", show_duration(limit));
        let help = if membership.newer_protocol() && session <= poll {
            // That setting is not in any file of ours.
            below
        } else {
            format!("{below}, or raise `{key}` in [kafka.{}]", consumer.consumer.kafka)
        };
        let path = format!("{}.revoke_deadline", consumer.path);
        reading.error("revoke-too-long", place, &path, &message, Some(&help));
    }
}

fn target_names(reading: &Reading<'_>, consumer: &PlacedConsumer) {
    let mut seen = BTreeMap::new();
    for target in consumer.targets.iter().filter(|target| !target.spec.name.is_empty()) {
        if let Some(first) = seen.insert(&target.spec.name, &target.name) {
            let message =
                format!("the target \"{}\" is defined twice; first at {}", target.spec.name, reading.show(first));
            reading.error(
                "duplicate-target",
                &target.name,
                &format!("{}.name", target.path),
                &message,
                Some("rename one of them"),
            );
        }
    }
}

/// Two consumers of one group share the partitions of a topic: each would see only a part of it.
fn groups(reading: &Reading<'_>, consumers: &[PlacedConsumer]) {
    for (at, later) in consumers.iter().enumerate() {
        for earlier in &consumers[..at] {
            let (a, b) = (&earlier.consumer, &later.consumer);
            // Two of one name were reported as that.
            if a.group != b.group || a.kafka != b.kafka || a.name == b.name {
                continue;
            }
            let shared =
                b.topics.iter().zip(&later.topics).find(|(topic, _)| a.topics.iter().any(|t| t.name == topic.name));
            if let Some((topic, place)) = shared {
                let message = format!(
                    "\"{}\" and \"{}\" read \"{}\" in the same group \"{}\": each would see only a part of it",
                    a.name, b.name, topic.name, b.group
                );
                let help = "give each its own `group` (the default is the consumer's name)";
                reading.error("shared-group", place, &format!("{}.topics", later.path), &message, Some(help));
            }
        }
    }
}

/// Two members of one group under one static id throw each other out, again and again.
fn instances(reading: &Reading<'_>, config: &Config, consumers: &[PlacedConsumer]) {
    let cluster = |consumer: &PlacedConsumer| config.kafka.get(&consumer.consumer.kafka);
    let servers = |cluster: &KafkaCluster| cluster.properties.get("bootstrap.servers").cloned();
    for (at, later) in consumers.iter().enumerate() {
        let Some(theirs) = cluster(later) else { continue };
        let membership = Membership(&theirs.properties);
        let Some(id) = membership.instance() else { continue };
        let same = |earlier: &&PlacedConsumer| {
            // Two of one name were reported as that.
            earlier.consumer.group == later.consumer.group
                && earlier.consumer.name != later.consumer.name
                && cluster(earlier).is_some_and(|earlier| {
                    Membership(&earlier.properties).instance() == Some(id) && servers(earlier) == servers(theirs)
                })
        };
        let Some(earlier) = consumers[..at].iter().find(same) else { continue };
        let message = format!(
            "\"{}\" and \"{}\" are members of the group \"{}\" under the same `{INSTANCE}`: each would throw the other out",
            earlier.consumer.name, later.consumer.name, later.consumer.group
        );
        let help =
            "give each its own `group` (the default is the consumer's name), or its own [kafka.…] with another id";
        reading.error("shared-instance", &later.name, &format!("{}.group", later.path), &message, Some(help));
    }
}

/// Two targets that share a table's version but write other columns: a change of one would make the other's older
/// change look stale, and its columns would be lost.
fn versions(reading: &Reading<'_>, consumers: &[PlacedConsumer]) {
    let mut seen: Vec<(&str, &PlacedTarget, &str)> = vec![];
    for consumer in consumers {
        let database = consumer.consumer.database.as_str();
        for target in &consumer.targets {
            let Some(version) = version(target) else { continue };
            let first = seen.iter().find(|(other, earlier, column)| {
                *other == database
                    && *column == version
                    && earlier.spec.table == target.spec.table
                    && written(earlier) != written(target)
            });
            if let Some((_, first, _)) = first {
                let message = format!(
                    "`newer_by = \"{version}\"` is shared with {}, which writes other columns of \"{}\"",
                    first.path, target.spec.table
                );
                let help = "a newer change of one would make the other's look stale: give each its own version column, or both the same columns";
                reading.error("shared-version", &target.guard, &format!("{}.guard", target.path), &message, Some(help));
            }
            seen.push((database, target, version));
        }
    }
}

/// The column that guards a target by version.
fn version(target: &PlacedTarget) -> Option<&str> {
    match target.spec.guard {
        Some(Guard::NewerBy(column)) => target.spec.columns.get(column).map(|column| column.name.as_str()),
        _ => None,
    }
}

fn written(target: &PlacedTarget) -> BTreeSet<&str> {
    target.spec.columns.iter().map(|column| column.name.as_str()).collect()
}
