//! Batches and contexts for the tests of this module and of the sandbox.
#![allow(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use uuid::Uuid;

use super::EvaluateContext;
use crate::{
    config::{Payload, PluginLimits, Tombstones},
    merge::{ColumnSpec, Merge, Operation, TableName, TargetSpec},
    outcome::{Evaluated, Verdict},
    plugin::Message,
    record::{Batch, Record, Run, TopicPartition},
};

/// One partition's records with these payloads.
pub(crate) fn batch(payloads: Vec<Option<Vec<u8>>>) -> Batch {
    let partition =
        TopicPartition { cluster_id: "c".into(), topic_id: Uuid::nil(), topic: "order.events".into(), partition: 3 };
    let records: Vec<Record> = payloads
        .into_iter()
        .zip(0..)
        .map(|(payload, offset)| Record {
            offset,
            timestamp_ms: Some(offset),
            key: None,
            payload: payload.map(Bytes::from),
            headers: Vec::new(),
        })
        .collect();
    let next_offset = i64::try_from(records.len()).unwrap();
    let run =
        Run { partition: Arc::new(partition), generation: 1, first_offset: 0, next_offset, records: 0..records.len() };
    Batch { runs: vec![run], records }
}

/// A message of this text, as the plugin sees it.
pub(crate) fn message(text: &str) -> Message {
    let record = texts([text]).records.remove(0);
    Message::of(&record, &Arc::from("orders"), Payload::Text, Tombstones::Skip).unwrap()
}

/// As text.
pub(crate) fn texts<const N: usize>(texts: [&str; N]) -> Batch {
    batch(texts.iter().map(|text| Some(text.as_bytes().to_vec())).collect())
}

/// One target, "t", with these columns, the first of which is its key.
pub(crate) fn context(columns: &[&str]) -> EvaluateContext {
    let column = |name: &&str| ColumnSpec { name: (*name).to_owned(), merge: Merge::Replace };
    EvaluateContext {
        payload: Payload::Text,
        tombstones: Tombstones::Skip,
        sources: HashMap::from([("order.events".into(), "orders".into())]),
        targets: Arc::from([TargetSpec {
            name: "t".into(),
            table: TableName { schema: None, name: "t".into() },
            columns: columns.iter().map(column).collect(),
            key: vec![0],
            guard: None,
            operations: [Operation::Upsert].into(),
            soft_delete: None,
        }]),
        limits: PluginLimits::default(),
        max_broken: usize::MAX,
    }
}

/// Each verdict in a word.
pub(crate) fn codes(evaluated: &[Evaluated]) -> Vec<String> {
    let word = |one: &Evaluated| match &one.verdict {
        Verdict::Apply(changes) => format!("apply {}", changes.len()),
        Verdict::Skip(why) => format!("skip {why}"),
        Verdict::Reject(rejection) => rejection.code.clone(),
    };
    evaluated.iter().map(word).collect()
}
