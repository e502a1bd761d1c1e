//! What a plugin may answer about a batch of any records.

use std::{collections::HashMap, sync::Arc};

use tidegate::{
    config::{Payload, PluginLimits, Tombstones},
    identity::{AggregateId, MessageId},
    merge::{ColumnSpec, Merge, Operation, TableName, TargetSpec},
    outcome::{Evaluated, Verdict},
    plugin::{
        Body, ComputeResult, Entry, EvaluateContext, KeyResult, Message, RawIdentity, RawInstant, Shape, evaluate,
        native::Native,
    },
    record::{Batch, Header, Record, Run, TopicPartition},
};

use super::{bytes::Bytes, values::value};

/// Records of a batch at most.
const MOST: usize = 12;

/// Any records to a plugin that answers anything: each record has a verdict that is well-formed and that it would have alone,
/// or the plugin is stopped for a reason that is no record's.
///
/// # Panics
/// Where that is not so.
pub fn verdicts(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let context = context(&mut bytes);
    let shapes = (0..bytes.below(4)).map(|_| shape(&mut bytes)).collect();
    let records: Vec<Record> = (0..1 + bytes.below(MOST)).map(|_| record(&mut bytes)).collect();
    let plugin = Native::new("anything").shapes(shapes).keys(key).compute(|message, _| computed(message)).traps(traps);
    let together = evaluate(&plugin, &batch(records.clone()), &context);
    if let Ok(evaluated) = &together {
        assert_eq!(evaluated.len(), records.len(), "one verdict per record");
        evaluated.iter().for_each(|one| well_formed(one, &context));
    }
    for (at, record) in records.into_iter().enumerate() {
        let alone = evaluate(&plugin, &batch(vec![record]), &context);
        match (&together, alone) {
            // By their words: no NaN is its own equal.
            (Ok(together), Ok(alone)) => {
                let (together, alone) = (format!("{:?}", together[at]), format!("{:?}", alone[0]));
                assert_eq!(together, alone, "record {at} has another verdict in company");
            }
            (Ok(_), Err(error)) => panic!("record {at} stops the plugin alone, and not in company: {error}"),
            // What stopped the batch may be a neighbour's.
            (Err(error), _) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn well_formed(one: &Evaluated, context: &EvaluateContext) {
    if let Some(identity) = &one.identity {
        assert!(MessageId::new(identity.message_id.as_str()).is_ok());
        assert!(AggregateId::new(identity.aggregate_id.as_str()).is_ok());
    }
    match &one.verdict {
        Verdict::Apply(changes) => {
            assert!(one.identity.is_some(), "nothing is applied without an id");
            assert!(changes.len() <= context.limits.changes_per_event);
            for change in changes {
                let target = &context.targets[change.target];
                assert!(target.operations.contains(&change.operation), "not granted");
                let wanted =
                    if change.operation == Operation::Delete { target.key.len() } else { target.columns.len() };
                assert_eq!(change.values.len(), wanted);
            }
        }
        Verdict::Skip(_) => {}
        Verdict::Reject(rejection) => assert!(!rejection.code.is_empty()),
    }
}

fn context(bytes: &mut Bytes<'_>) -> EvaluateContext {
    let column = |name: &str| ColumnSpec { name: name.to_owned(), merge: Merge::Replace };
    let operations = [Operation::Upsert, Operation::Update, Operation::Delete];
    EvaluateContext {
        payload: if bytes.below(2) == 0 { Payload::Text } else { Payload::Binary },
        tombstones: if bytes.below(2) == 0 { Tombstones::Skip } else { Tombstones::Plugin },
        sources: HashMap::from([("topic".into(), "alias".into())]),
        targets: Arc::from([TargetSpec {
            name: "t".to_owned(),
            table: TableName { schema: None, name: "t".to_owned() },
            columns: vec![column("id"), column("a"), column("b")],
            key: vec![0],
            guard: None,
            operations: operations.into_iter().take(1 + bytes.below(3)).collect(),
            soft_delete: None,
        }]),
        limits: PluginLimits { changes_per_event: 4, ..PluginLimits::default() },
        max_broken: usize::MAX,
    }
}

fn shape(bytes: &mut Bytes<'_>) -> Shape {
    let operation = [Operation::Upsert, Operation::Update, Operation::Delete][bytes.below(3)];
    let orders: [&[&str]; 6] =
        [&["id", "a", "b"], &["b", "id", "a"], &["id"], &["id", "a"], &["id", "id", "a"], &["id", "a", "\u{0}"]];
    // Mostly what is granted, or nothing but refusals would be seen.
    let target = if bytes.below(8) == 0 { bytes.text() } else { "t".to_owned() };
    let columns = if operation == Operation::Delete { orders[2] } else { orders[bytes.below(orders.len())] };
    Shape { operation, target, columns: columns.iter().map(|&name| name.to_owned()).collect() }
}

/// The payload tells the plugin what to say.
fn record(bytes: &mut Bytes<'_>) -> Record {
    let payload = (bytes.below(8) > 0).then(|| bytes.part().to_vec().into());
    let headers = (0..bytes.below(3)).map(|_| Header { name: bytes.text(), value: Some(bytes.part().to_vec().into()) });
    let headers = headers.collect();
    Record { offset: 0, timestamp_ms: Some(bytes.number()), key: Some(bytes.part().to_vec().into()), payload, headers }
}

fn batch(mut records: Vec<Record>) -> Batch {
    (0..).zip(&mut records).for_each(|(offset, record)| record.offset = offset);
    let partition =
        TopicPartition { cluster_id: "c".into(), topic_id: uuid::Uuid::nil(), topic: "topic".into(), partition: 0 };
    let next_offset = i64::try_from(records.len()).unwrap_or(i64::MAX);
    let run =
        Run { partition: Arc::new(partition), generation: 1, first_offset: 0, next_offset, records: 0..records.len() };
    Batch { runs: vec![run], records }
}

fn body(message: &Message) -> &[u8] {
    match &message.body {
        Body::Absent => &[],
        Body::Text(bytes) | Body::Binary(bytes) => bytes,
    }
}

fn key(message: &Message) -> KeyResult {
    let headers = message.headers.iter().map(|header| header.name.to_ascii_lowercase());
    assert!(!headers.into_iter().any(|name| name == "offset" || name == "partition"), "a position reached the plugin");
    let mut bytes = Bytes(body(message));
    match bytes.below(8) {
        0 => KeyResult::Skip(bytes.text()),
        1 => KeyResult::Reject(bytes.text(), bytes.text()),
        _ => KeyResult::Identity(RawIdentity {
            message_id: id(&mut bytes),
            aggregate_id: id(&mut bytes),
            occurred_at: match bytes.below(3) {
                0 => None,
                1 => Some(RawInstant::UnixMs(bytes.number())),
                _ => Some(RawInstant::Rfc3339(bytes.text())),
            },
            fingerprint: (bytes.below(2) == 0).then(|| bytes.part().to_vec()),
        }),
    }
}

/// Mostly one that passes.
fn id(bytes: &mut Bytes<'_>) -> String {
    match bytes.below(6) {
        0 => bytes.text(),
        1 => bytes.text().repeat(2),
        _ => format!("id-{}", bytes.byte()),
    }
}

fn computed(message: &Message) -> ComputeResult {
    let mut bytes = Bytes(message.key.as_deref().unwrap_or_default());
    match bytes.below(6) {
        0 => ComputeResult::Skip(bytes.text()),
        1 => ComputeResult::Reject(bytes.text(), bytes.text()),
        _ => ComputeResult::Changes(
            (0..bytes.below(6))
                .map(|_| {
                    let shape = u32::from(bytes.byte()) % 4;
                    let values = [3, 3, 3, 1, 2, 0][bytes.below(6)];
                    (shape, (0..values).map(|_| value(&mut bytes)).collect())
                })
                .collect(),
        ),
    }
}

/// Now and then one breaks the plugin, always the same.
fn traps(entry: Entry, message: &Message) -> bool {
    let at = if entry == Entry::Compute { 0xC5 } else { 0xE7 };
    body(message).last() == Some(&at)
}
