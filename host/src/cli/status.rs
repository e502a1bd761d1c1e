//! `tidegate status`: what the databases know. Every figure is read now; none is a running process's opinion.

mod table;

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};

use super::{
    Arguments, Exit,
    arguments::StatusOptions,
    console::{answer, block_on, complain, configuration, database_failed},
};
use crate::{
    config::Config,
    identity::ConsumerName,
    record::TopicPartition,
    seek::{self, Standing},
    store::{self, ChainFault, ConsumerStatus, Store, StoreError, Totals},
};

/// One consumer with its proof.
struct Known {
    database: String,
    status: ConsumerStatus,
    faults: Vec<ChainFault>,
    /// What the broker says; `None` = it was not asked.
    online: Option<Result<Vec<Standing>, String>>,
}

impl Known {
    /// What the broker says of this chain's partition.
    fn standing(&self, partition: &TopicPartition) -> Option<&Standing> {
        let standings = self.online.as_ref()?.as_ref().ok()?;
        standings.iter().find(|s| s.topic_id == partition.topic_id && s.name.partition == partition.partition)
    }

    /// Everything that keeps it from going on, with the way out.
    fn stops(&self) -> Vec<String> {
        match &self.online {
            None => Vec::new(),
            Some(Err(why)) => vec![format!("the broker cannot say how far behind it is: {why}")],
            Some(Ok(standings)) => standings
                .iter()
                .filter_map(|s| s.stopped.as_ref().map(|why| format!("{} cannot go on: {why}", s.name)))
                .collect(),
        }
    }
}

pub(super) fn run(arguments: &Arguments, options: &StatusOptions) -> Exit {
    let config = match configuration(arguments) {
        Ok((config, _)) => config,
        Err(exit) => return exit,
    };
    let only = match options.consumer.as_deref().map(ConsumerName::new).transpose() {
        Ok(only) => only,
        Err(error) => {
            complain(&format!("error: --consumer: {error}"));
            return Exit::Invalid;
        }
    };
    block_on(async {
        let known = match ask(&config, only.as_ref(), options.online).await {
            Ok(known) => known,
            Err((exit, why)) => {
                complain(&why);
                return exit;
            }
        };
        let unknown = absent(&config, only.as_ref(), &known);
        if let (Some(name), true) = (&only, known.is_empty() && unknown.is_empty()) {
            complain(&format!("error: no consumer \"{name}\" is configured or registered"));
            return Exit::Invalid;
        }
        let proven = known.iter().all(|known| known.faults.is_empty());
        if options.json {
            let consumers: Vec<_> = known.iter().map(as_json).collect();
            answer(&json!({"ok": proven, "consumers": consumers, "not_started": unknown}).to_string());
        } else {
            answer(&table::render(&known, &unknown));
        }
        match known.iter().find_map(|known| known.online.as_ref()?.as_ref().err()) {
            _ if !proven => Exit::Failed,
            Some(_) => Exit::Environment,
            None => Exit::Fine,
        }
    })
}

/// Asks every database of the configuration.
async fn ask(config: &Config, only: Option<&ConsumerName>, online: bool) -> Result<Vec<Known>, (Exit, String)> {
    let mut known = vec![];
    for (name, database) in &config.databases {
        let failed = |error: StoreError| database_failed(name, &error);
        let store = store::open(database).map_err(failed)?;
        if let Some(refusal) = store.schema_state().await.map_err(failed)?.refusal() {
            return Err((Exit::Invalid, format!("database {name}: {}: {refusal}", store.place())));
        }
        let mut here = one(&store, name, only).await.map_err(failed)?;
        for known in here.iter_mut().filter(|_| online) {
            let wanted = &known.status.consumer.name;
            let Some(settings) = config.consumers.iter().find(|settings| settings.name == *wanted) else { continue };
            let Some(chains) = store.chains(wanted).await.map_err(failed)? else { continue };
            known.online = Some(seek::survey(config, settings, chains).await.map_err(|error| error.to_string()));
        }
        known.extend(here);
    }
    Ok(known)
}

async fn one(store: &Arc<dyn Store>, name: &str, only: Option<&ConsumerName>) -> Result<Vec<Known>, StoreError> {
    let mut known = vec![];
    for status in store.status(only).await? {
        let faults = store.chain_faults(&status.consumer.name).await?;
        known.push(Known { database: name.to_owned(), status, faults, online: None });
    }
    Ok(known)
}

/// Consumers that are configured but not registered: they never ran.
fn absent(config: &Config, only: Option<&ConsumerName>, known: &[Known]) -> Vec<String> {
    let known: BTreeSet<&ConsumerName> = known.iter().map(|known| &known.status.consumer.name).collect();
    let wanted = config.consumers.iter().map(|consumer| &consumer.name).filter(|name| only.is_none_or(|o| o == *name));
    wanted.filter(|name| !known.contains(name)).map(ToString::to_string).collect()
}

fn as_json(known: &Known) -> Value {
    let status = &known.status;
    let partitions: Vec<_> = status
        .partitions
        .iter()
        .map(|p| {
            json!({
                "topic": &*p.partition.topic,
                "partition": p.partition.partition,
                "topic_id": p.partition.topic_id.to_string(),
                "cluster_id": &*p.partition.cluster_id,
                "next_offset": p.tip.next_offset,
                "checkpoint": p.tip.id.to_string(),
                "checkpoints": p.links,
                "committed_at": table::time(p.committed_at_us),
                "outcomes": totals(p.totals),
                "offsets_without_record": p.without_record,
                "lag": known.standing(&p.partition).and_then(|standing| standing.lag),
            })
        })
        .collect();
    let faults: Vec<_> = known
        .faults
        .iter()
        .map(|f| {
            json!({
                "topic_id": f.topic_id.to_string(), "partition": f.partition, "seq": f.seq, "fault": f.fault,
                "expected": f.expected, "found": f.found,
            })
        })
        .collect();
    json!({
        "consumer": status.consumer.name.as_str(),
        "database": known.database,
        "group": status.consumer.group,
        "key_version": status.consumer.key_version,
        "plugin_sha256": hex::encode(&status.consumer.plugin_digest),
        "started_from": status.consumer.started_from,
        "outcomes": totals(status.totals()),
        "ledger_rows": status.ledger_rows,
        "dead_letters": status.dead_letters,
        "repeated_ids": status.repeats.ids,
        "repeated_attempts": status.repeats.attempts,
        "payload_conflicts": status.conflicts,
        "partitions": partitions,
        "stopped": known.stops(),
        "chain_ok": known.faults.is_empty(),
        "chain_faults": faults,
    })
}

fn totals(t: Totals) -> Value {
    json!({
        "consumed": t.consumed(), "applied": t.applied, "duplicate": t.duplicate, "skipped": t.skipped,
        "dead": t.dead, "too_old": t.too_old,
    })
}
