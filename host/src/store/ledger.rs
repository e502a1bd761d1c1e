//! Who comes first: the ledger's answer, and nothing else (Invariant 3).

use std::collections::HashMap;

use super::{Connection, LedgerRow, StoreError, plan::Plan, prepared::Prepared, settle::Answers};
use crate::identity::{ConsumerName, MessageId};

/// Inserts, then looks up, in a statement of its own, what was there already and what only asks.
pub(super) async fn ask_ledger(
    conn: &mut dyn Connection,
    consumer: &ConsumerName,
    prepared: &Prepared,
    plan: &Plan,
) -> Result<Answers, StoreError> {
    let id_of = |i: usize| prepared.items[i].message_id();
    let (rows, senders): (Vec<LedgerRow>, Vec<usize>) =
        plan.inserters.iter().filter_map(|&i| Some((row(prepared, i)?, i))).unzip();
    let mut inserted = vec![false; prepared.items.len()];
    if !rows.is_empty() {
        // Invariant 3: what this statement inserted comes first; nothing else decides it.
        for place in conn.insert_ledger(consumer, &rows).await? {
            inserted[senders[place]] = true;
        }
    }
    let there = plan.inserters.iter().filter(|&&i| !inserted[i]);
    let mut unknown: Vec<MessageId> = there.chain(&plan.asked).filter_map(|&i| id_of(i).cloned()).collect();
    unknown.sort_unstable();
    let known = if unknown.is_empty() { HashMap::new() } else { conn.lookup(consumer, &unknown).await? };
    Ok(Answers { inserted, known, limit: prepared.items.len(), ..Answers::default() })
}

fn row(prepared: &Prepared, i: usize) -> Option<LedgerRow> {
    let identity = prepared.items[i].identity.as_ref()?;
    Some(LedgerRow {
        message_id: identity.message_id.clone(),
        aggregate_id: identity.aggregate_id.clone(),
        partition: prepared.batch.run_of(i).partition.clone(),
        offset: prepared.batch.records[i].offset,
        fingerprint: identity.fingerprint,
    })
}
