//! What broker and database say: topics, retention, schema, tables, key versions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    Mark, Plugins, Report,
    broker::{self, TopicFacts},
    danger::Danger,
    retention,
    start::{CREATE_IT, servers},
};
use crate::{
    class::Class,
    config::{Config, Consumer},
    key_gate,
    merge::{ColumnType, FaultKind, Guard, TableName, Target, TargetFault, check_together, resolve},
    plugin::{EvaluateContext, identities},
    store::{self, SchemaState, Statement, Store, StoreError},
};

/// Asks every broker and database that a consumer uses.
pub async fn check(config: &Config, plugins: &Plugins, report: &mut Report) {
    report.online();
    brokers(config, report).await;
    databases(config, plugins, report).await;
}

fn topics_by_cluster(config: &Config) -> BTreeMap<&str, Vec<String>> {
    let mut names: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for consumer in &config.consumers {
        let topics = consumer.topics.iter().map(|topic| topic.name.clone());
        names.entry(&consumer.kafka).or_default().extend(topics);
    }
    names.into_iter().map(|(cluster, names)| (cluster, names.into_iter().collect())).collect()
}

async fn brokers(config: &Config, report: &mut Report) {
    report.clear(Danger::RetentionTooShort);
    for (cluster, names) in topics_by_cluster(config) {
        let about = format!("kafka {cluster}");
        let Some(kafka) = config.kafka.get(cluster) else { continue };
        let servers = servers(kafka);
        match broker::topics(kafka, names).await {
            Ok(facts) => {
                report.ok(&about, "broker", format!("{servers} answers"));
                for consumer in config.consumers.iter().filter(|consumer| consumer.kafka == cluster) {
                    topics(consumer, servers, &facts, report);
                }
            }
            Err(why) => {
                let help =
                    "see that the broker runs and that `bootstrap.servers`, `security.protocol` and the rest fit it";
                report.add(Mark::Unreachable, &about, "broker", format!("{servers}: {why}"), Some(help.to_owned()));
                report.unknown(Danger::RetentionTooShort);
            }
        }
    }
}

fn topics(consumer: &Consumer, servers: &str, facts: &BTreeMap<String, TopicFacts>, report: &mut Report) {
    let about = consumer.name.as_str();
    for topic in &consumer.topics {
        let subject = format!("topic {}", topic.name);
        let Some(facts) = facts.get(&topic.name) else { continue };
        if facts.partitions == 0 {
            report.add(
                Mark::Error,
                about,
                &subject,
                format!("does not exist on {servers}"),
                Some(CREATE_IT.to_owned()),
            );
            report.unknown(Danger::RetentionTooShort);
            continue;
        }
        let plural = if facts.partitions == 1 { "" } else { "s" };
        report.ok(about, &subject, format!("{} partition{plural}", facts.partitions));
        match facts.kept {
            None => {
                let text = "the broker does not say how long the topic keeps what is in it";
                let help = "give this user the right to describe the topic's configuration";
                report.add(Mark::Warning, about, &subject, text, Some(help.to_owned()));
                report.unknown(Danger::RetentionTooShort);
            }
            Some(kept) => {
                if let Some(fault) = retention::too_short(&topic.name, kept, consumer.ledger) {
                    report.found(Danger::RetentionTooShort, about, &subject, fault);
                }
            }
        }
    }
}

/// What only a database with a schema can tell.
fn in_the_database() -> impl Iterator<Item = Danger> {
    Danger::ALL.into_iter().filter(|danger| danger.needs_services() && *danger != Danger::RetentionTooShort)
}

async fn databases(config: &Config, plugins: &Plugins, report: &mut Report) {
    in_the_database().for_each(|danger| report.clear(danger));
    let used: BTreeSet<&str> = config.consumers.iter().map(|consumer| consumer.database.as_str()).collect();
    for name in used {
        let about = format!("database {name}");
        let Some(database) = config.databases.get(name) else { continue };
        let consumers: Vec<_> = config.consumers.iter().filter(|consumer| consumer.database == name).collect();
        let asked = match store::open(database) {
            Ok(store) => one_database(&store, &about, &consumers, plugins, report).await,
            Err(error) => Err(error),
        };
        if let Err(error) = asked {
            let (mark, text, help) = match error.refused() {
                Some((what, help)) => (Mark::Error, format!("{what}: {error}"), help),
                None => (Mark::Unreachable, error.to_string(), "see that the database runs and that `url` fits it"),
            };
            report.add(mark, &about, "database", text, Some(help.to_owned()));
            in_the_database().for_each(|danger| report.unknown(danger));
        }
    }
}

async fn one_database(
    store: &Arc<dyn Store>,
    about: &str,
    consumers: &[&Consumer],
    plugins: &Plugins,
    report: &mut Report,
) -> Result<(), StoreError> {
    let state = store.schema_state().await?;
    report.ok(about, "database", format!("{} answers", store.place()));
    if let Some(refusal) = state.refusal() {
        report.add(Mark::Error, about, "schema", refusal, None);
        if matches!(state, SchemaState::Missing | SchemaState::Older { .. })
            && let Some(clash) = store.pending().await?.refusal(store.dialect())
        {
            report.add(Mark::Error, about, "schema", clash, None);
        }
        report.unknown(Danger::LedgerWithoutConsumer);
        report.unknown(Danger::KeysChanged);
    } else {
        report.ok(about, "schema", "is this program's");
        ledger(store, about, report).await?;
        for consumer in consumers {
            key_version(store, consumer, plugins, report).await?;
        }
    }
    for consumer in consumers {
        targets(store, consumer, report).await?;
    }
    Ok(())
}

/// Somebody may have changed the table by hand.
async fn ledger(store: &Arc<dyn Store>, about: &str, report: &mut Report) -> Result<(), StoreError> {
    let table = TableName { schema: None, name: "processed_messages".to_owned() };
    let info = store.table_info(&table).await?;
    let keyed = info.unique.iter().any(|index| {
        let columns: BTreeSet<&str> = index.columns.iter().map(String::as_str).collect();
        index.valid && index.immediate && index.complete && columns == BTreeSet::from(["consumer_name", "message_id"])
    });
    if !keyed {
        report.found(Danger::LedgerWithoutConsumer, about, "ledger", "the unique key over both columns is gone");
    }
    Ok(())
}

async fn key_version(
    store: &Arc<dyn Store>,
    consumer: &Consumer,
    plugins: &Plugins,
    report: &mut Report,
) -> Result<(), StoreError> {
    let Some(plugin) = plugins.get(&consumer.name) else {
        report.unknown(Danger::KeysChanged);
        return Ok(());
    };
    let about = consumer.name.as_str();
    let Some(state) = store.key_state(&consumer.name).await? else { return Ok(()) };
    let context = EvaluateContext::of(consumer);
    let inputs = key_gate::inputs(&state.samples);
    let asked = identities(plugin.as_ref(), &inputs, &context)
        .and_then(|keys| Ok((key_gate::hold(plugin.as_ref(), &inputs, &keys, &context)?, keys)));
    match asked {
        Ok((Err(moved), _)) => report.found(Danger::PositionAsKey, about, "plugin", moved.to_string()),
        Ok((Ok(()), keys)) => {
            let comparison = key_gate::compare(&state.samples, keys);
            match key_gate::judge(plugin.as_ref(), &state, &comparison) {
                Ok(()) => report.ok(about, "keys", format!("fit the {} kept samples", comparison.compared)),
                Err(fault) => report.found(Danger::KeysChanged, about, "plugin", fault.to_string()),
            }
        }
        Err(error) => {
            report.add(Mark::Error, about, "plugin", format!("it broke on the key samples: {error}"), None);
            report.unknown(Danger::KeysChanged);
        }
    }
    Ok(())
}

async fn targets(store: &Arc<dyn Store>, consumer: &Consumer, report: &mut Report) -> Result<(), StoreError> {
    let about = consumer.name.as_str();
    let mut resolved: Vec<Target> = vec![];
    for spec in &consumer.targets {
        let info = match store.table_info(&spec.table).await {
            Ok(info) => info,
            Err(error) if error.statement == Statement::Catalog && error.class() == Class::Fatal => {
                report.add(Mark::Error, about, &format!("target {}", spec.name), error.to_string(), None);
                report.unknown(Danger::NoUniqueKey);
                continue;
            }
            Err(error) => return Err(error),
        };
        match resolve(spec, &info) {
            Ok(target) => {
                let subject = format!("target {}", spec.name);
                report.ok(about, &subject, format!("{} has what is declared: {}", target.table, columns_of(&target)));
                if let Some(warning) = text_version(&target) {
                    let help =
                        "make it an integer or a timestamp; keep it only where every version has the same length";
                    report.add(Mark::Warning, about, &subject, warning, Some(help.to_owned()));
                }
                resolved.push(target);
            }
            Err(faults) => faults.iter().for_each(|fault| tell(fault, about, report)),
        }
    }
    check_together(&resolved).iter().for_each(|fault| tell(fault, about, report));
    let grants = store.missing_grants(&resolved).await?;
    if !grants.is_empty() {
        let text = "the database role may not do what the consumer needs";
        report.add(Mark::Error, about, "rights", text, Some(format!("have its owner issue: {}", grants.join("; "))));
    }
    Ok(())
}

/// The columns with their types: of which kind the plugin's values are, only its author knows.
fn columns_of(target: &Target) -> String {
    let shown = target.columns.iter().map(|column| format!("{} {}", column.name, column.column_type));
    shown.collect::<Vec<_>>().join(", ")
}

/// A version that compares as text.
fn text_version(target: &Target) -> Option<String> {
    let Some(Guard::NewerBy(index)) = target.spec.guard else { return None };
    let column = target.columns.get(index)?;
    let text = matches!(column.column_type, ColumnType::Text(_) | ColumnType::Char(_) | ColumnType::LooseText);
    text.then(|| {
        format!(
            "`newer_by` compares {} ({}) as text: \"10\" is older than \"9\", and a newer change is refused as stale",
            column.name, column.column_type
        )
    })
}

fn tell(fault: &TargetFault, about: &str, report: &mut Report) {
    let subject = format!("target {}", fault.target);
    let text = fault.kind.to_string();
    match fault.kind {
        FaultKind::NoUniqueIndex { .. } | FaultKind::NullableKey { .. } => {
            report.found(Danger::NoUniqueKey, about, &subject, text);
        }
        FaultKind::Table { .. } => report.found(Danger::OtherTransaction, about, &subject, text),
        _ => report.add(Mark::Error, about, &subject, text, None),
    }
}
