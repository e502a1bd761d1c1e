//! `tidegate seek`: shows what moving a consumer would do, and does it where told to.

mod table;

use serde_json::{Value, json};

use super::{
    Arguments, Exit,
    arguments::SeekOptions,
    console::{answer, block_on, complain, configuration, database_failed, who},
    reading,
};
use crate::{
    config::Config,
    identity::ConsumerName,
    merge::{TargetClass, classify},
    seek::{self, Done, Prepared, Seek, SeekError, To},
    store::SeekNote,
};

pub(super) fn run(arguments: &Arguments, options: &SeekOptions) -> Exit {
    let config = match configuration(arguments) {
        Ok((config, _)) => config,
        Err(exit) => return exit,
    };
    let (wanted, how) = match wanted(options) {
        Ok(wanted) => wanted,
        Err(why) => {
            complain(&format!("error: {why}"));
            return Exit::Invalid;
        }
    };
    block_on(async {
        let done = perform(&config, wanted, &how, options).await;
        done.unwrap_or_else(|error| {
            let (exit, why) = judged(&config, &error);
            if options.json {
                answer(&json!({"ok": false, "error": why}).to_string());
            }
            complain(&format!("error: {why}"));
            exit
        })
    })
}

async fn perform(config: &Config, wanted: Seek, how: &str, options: &SeekOptions) -> Result<Exit, SeekError> {
    let warned = weak_targets(config, &wanted.consumer);
    let prepared = seek::prepare(config, wanted).await?;
    if !options.json {
        answer(&table::render(&prepared, &warned));
    }
    let note = SeekNote { how: how.to_owned(), by: who(), reason: options.reason.clone() };
    let done = if options.execute { Some(prepared.execute(&note).await?) } else { None };
    if options.json {
        answer(&as_json(&prepared, done, &warned).to_string());
    } else if !prepared.steps.is_empty() {
        answer(&table::ending(done));
    }
    Ok(Exit::Fine)
}

/// What was typed, and the words of it that say where to.
fn wanted(options: &SeekOptions) -> Result<(Seek, String), String> {
    let consumer = ConsumerName::new(options.consumer.as_str()).map_err(|error| format!("--consumer: {error}"))?;
    let form = &options.to;
    let (to, how) = match (form.offset, &form.time) {
        (Some(offset), _) => (To::Offset(offset), format!("--offset {offset}")),
        (_, Some(text)) => (To::Time(time(text)?), format!("--time {text}")),
        _ if form.start => (To::Start, "--start".to_owned()),
        _ if form.end => (To::End, "--end".to_owned()),
        _ if form.topic_recreated => (To::TopicRecreated, "--topic-recreated".to_owned()),
        _ => (To::OffsetsLost, "--offsets-lost".to_owned()),
    };
    let seek = Seek {
        consumer,
        topics: options.topic.iter().map(|topic| topic.as_str().into()).collect(),
        partitions: options.partition.clone(),
        to,
        pass_over: options.pass_over,
    };
    Ok((seek, how))
}

/// Milliseconds since the epoch: RFC 3339, or so long ago ("-2h").
fn time(text: &str) -> Result<i64, String> {
    reading::milliseconds(text).map_err(|why| format!("--time: \"{text}\" {why}"))
}

/// Targets that an old input, applied once more, would change: name and class.
fn weak_targets(config: &Config, consumer: &ConsumerName) -> Vec<(String, TargetClass)> {
    let of = config.consumers.iter().filter(|settings| settings.name == *consumer);
    of.flat_map(|settings| &settings.targets)
        .map(|spec| (spec.name.clone(), classify(spec)))
        .filter(|(_, class)| *class < TargetClass::ReplaySafe)
        .collect()
}

fn judged(config: &Config, error: &SeekError) -> (Exit, String) {
    match error {
        SeekError::Input(_) | SeekError::Schema { .. } => (Exit::Invalid, error.to_string()),
        SeekError::Store(store) => {
            let name = config.databases.keys().next().filter(|_| config.databases.len() == 1);
            database_failed(name.map_or("of the consumer", String::as_str), store)
        }
        SeekError::Source(_) | SeekError::Running { .. } | SeekError::Broken(_) => {
            (Exit::Environment, error.to_string())
        }
        SeekError::Overtaken | SeekError::HalfDone(_) => (Exit::Failed, error.to_string()),
    }
}

fn as_json(prepared: &Prepared, done: Option<Done>, warned: &[(String, TargetClass)]) -> Value {
    let steps: Vec<_> = prepared
        .steps
        .iter()
        .map(|step| {
            json!({
                "topic": &*step.partition.topic,
                "partition": step.partition.partition,
                "topic_id": step.partition.topic_id.to_string(),
                "earlier_topic_id": step.earlier.map(|(id, _)| id.to_string()),
                "earlier_position": step.earlier.map(|(_, at)| at),
                "chain": step.chain.map(|tip| tip.next_offset),
                "kafka": step.kafka,
                "log_start": step.first,
                "log_end": step.end,
                "from": step.from,
                "to": step.to,
                "read_again": step.effect.again,
                "perhaps_forgotten": step.effect.forgotten,
                "passed_over": step.effect.passed_over,
                "gone": step.effect.gone,
            })
        })
        .collect();
    let members: Vec<_> =
        prepared.members.iter().map(|m| json!({"id": m.id, "client_id": m.client, "host": m.host})).collect();
    let weak: Vec<_> = warned.iter().map(|(name, class)| json!({"target": name, "class": class.name()})).collect();
    json!({
        "ok": true,
        "executed": done.is_some(),
        "chains_moved": done.map_or(0, |done| done.chains),
        "offsets_set": done.map_or(0, |done| done.offsets),
        "partitions": steps,
        "partitions_looked_at": prepared.looked_at,
        "members": members,
        "targets_not_replay_safe": weak,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn times_are_absolute_or_ago() {
        assert_eq!(time("2026-01-01T00:00:00Z").unwrap(), 1_767_225_600_000);
        let (ago, now) = (time("-2h").unwrap(), time("-0s").unwrap());
        assert!((now - ago - 7_200_000).abs() < 60_000);
        for bad in ["", "2h", "yesterday", "-x", "2026-01-01"] {
            assert!(time(bad).unwrap_err().starts_with("--time: "), "{bad}");
        }
    }

    #[test]
    fn somebody_did_it() {
        assert!(who().contains('@'));
    }
}
