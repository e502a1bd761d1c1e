//! A process of its own that applies a log of records and is ended at a chosen call: see `src/bin/doomed.rs`.

use std::{collections::BTreeSet, sync::Arc};

use tidegate::{
    config::{Database, Dialect, Secret},
    identity::{AggregateId, ConsumerName, Fingerprint, Identity, MessageId},
    merge::{ColumnSpec, Merge, Operation, TableName, TargetSpec, resolve},
    outcome::{Change, Evaluated, Verdict},
    record::{Batch, Record, Run, TopicPartition},
    store::{self, Applier, Policy, PrepareContext, Prepared, Registration, Tips},
    value::Value,
};
use uuid::Uuid;

use crate::faulty::{Break, Faulty};

/// Records of one batch.
const BATCH: i64 = 10;

/// The record at an offset: its id, and whether the database refuses it. Ids come again, poison ones corrected.
#[must_use]
pub fn record(offset: i64) -> (String, bool) {
    let original = if offset % 5 == 4 { offset - 2 } else { offset };
    (format!("e{original}"), offset % 11 == 3)
}

/// The ids that are applied once the log is read up to `until`, and the records that end as dead letters.
#[must_use]
pub fn expected(until: i64) -> (usize, usize) {
    let mut applied = BTreeSet::new();
    let mut dead = 0;
    for offset in 0..until {
        let (id, poison) = record(offset);
        if !applied.contains(&id) {
            if poison {
                dead += 1;
            } else {
                applied.insert(id);
            }
        }
    }
    (applied.len(), dead)
}

fn target() -> TargetSpec {
    let column = |name: &str, merge| ColumnSpec { name: name.into(), merge };
    TargetSpec {
        name: "tally".into(),
        table: TableName { schema: None, name: "doomed_tally".into() },
        columns: vec![column("account", Merge::Replace), column("total", Merge::Add), column("last", Merge::Replace)],
        key: vec![0],
        guard: None,
        operations: BTreeSet::from([Operation::Upsert]),
        soft_delete: None,
    }
}

/// The target's table, `STRICT` or nothing at the end. `total` shows what is added twice; `last` is where poison fails.
pub const TABLE: &str =
    "CREATE TABLE doomed_tally (account TEXT NOT NULL PRIMARY KEY, total BIGINT, last BIGINT CHECK (last >= 0))";

/// Applies the log from where the chain stands up to `until`. The connection of the first batch breaks as said.
///
/// # Panics
/// Where anything else goes wrong.
pub async fn run(url: &str, until: i64, when: Option<Break>) {
    let dialect = if url.starts_with("sqlite") { Dialect::Sqlite } else { Dialect::Postgres };
    let store = store::open(&Database::new(Secret::new(url), dialect)).unwrap();
    let name = ConsumerName::new("doomed").unwrap();
    let registration = Registration {
        name: name.clone(),
        group: "doomed".into(),
        key_version: 1,
        declared: 1,
        plugin_digest: [0; 32],
        started_from: serde_json::json!({}),
    };
    store.register_consumer(&registration).await.unwrap();
    let spec = target();
    let targets = Arc::new([resolve(&spec, &store.table_info(&spec.table).await.unwrap()).unwrap()]);
    let applier = Applier::new(name.clone(), targets, Policy::default());
    let partition = Arc::new(TopicPartition {
        cluster_id: "cluster".into(),
        topic_id: Uuid::nil(),
        topic: "log".into(),
        partition: 0,
    });
    let mut conn = store.connect().await.unwrap();
    let mut tip = match conn.tips(&name, std::slice::from_ref(&partition)).await.unwrap()[0] {
        Some(tip) => tip,
        None => conn.move_chain(&name, &partition, None, 0).await.unwrap().unwrap(),
    };
    let mut conn = Faulty::new(conn, when.unwrap_or(Break::Before(usize::MAX)));
    while tip.next_offset < until {
        let next = until.min(tip.next_offset + BATCH);
        let mut todo = Some(prepare(&applier, &partition, tip.next_offset, next));
        while let Some(mut prepared) = todo {
            let tips = Tips::from([(partition.clone(), tip)]);
            let applied = applier.apply(&mut conn, &mut prepared, &tips).await.unwrap();
            tip = applied.tips[0].1;
            todo = applied.rest;
        }
    }
}

fn prepare(applier: &Applier, partition: &Arc<TopicPartition>, from: i64, to: i64) -> Prepared {
    let mut batch = Batch::default();
    let mut evaluated = Vec::new();
    for offset in from..to {
        let (id, poison) = record(offset);
        batch.records.push(Record { offset, timestamp_ms: None, key: None, payload: None, headers: Vec::new() });
        let last = if poison { -1 } else { offset };
        let values = vec![Value::Text("x".into()), Value::Integer(1), Value::Integer(last)];
        evaluated.push(Evaluated {
            identity: Some(Identity {
                message_id: MessageId::new(id).unwrap(),
                aggregate_id: AggregateId::new("a").unwrap(),
                occurred_at_us: None,
                fingerprint: Fingerprint::of(None),
            }),
            verdict: Verdict::Apply(vec![Change { target: 0, operation: Operation::Upsert, values }]),
        });
    }
    let records = 0..batch.records.len();
    batch.runs.push(Run { partition: partition.clone(), generation: 1, first_offset: from, next_offset: to, records });
    let context = PrepareContext { targets: applier.targets(), key_version: 1, plugin_digest: [0; 32] };
    Prepared::new(batch, evaluated, context)
}
