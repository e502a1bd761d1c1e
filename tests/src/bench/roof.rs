//! The roof: the same statements on data that is in memory already. Nothing that reads from Kafka can be faster.

use tidegate::identity::Fingerprint;
use tokio::task::JoinSet;

use super::lane::{Lane, Row};
use crate::workload::Event;

/// Runs the events through `lanes` connections, `batch` at a time; an order stays on its lane.
pub(super) async fn run(url: &str, events: &[Event], lanes: usize, batch: usize) -> Vec<(u128, usize)> {
    let mut queues: Vec<Vec<Row>> = vec![Vec::new(); lanes];
    for (event, offset) in events.iter().zip(0_i64..) {
        let hash = event.order_id.bytes().fold(0_usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        queues[hash % lanes].push(Row {
            event_id: event.event_id.clone(),
            order_id: event.order_id.clone(),
            payment_id: event.payment_id.clone(),
            amount: event.amount(),
            status: event.status().to_owned(),
            version: event.version,
            occurred_at: event.occurred_at(),
            partition: 0,
            offset,
            fingerprint: Fingerprint::of(Some(event.json().as_bytes())).0,
        });
    }
    let mut running = JoinSet::new();
    for rows in queues {
        let url = url.to_owned();
        running.spawn(async move {
            let mut lane = Lane::connect(&url).await.unwrap();
            for rows in rows.chunks(batch) {
                lane.apply("memory", rows).await.unwrap();
            }
            lane.commits
        });
    }
    running.join_all().await.concat()
}
