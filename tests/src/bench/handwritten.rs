//! What a careful engineer writes without tidegate: rdkafka, serde_json and the same statements; offsets are committed
//! after the database. No sandbox, no retry, no careful mode, no dead letters, no checkpoints, no rebalancing.

use std::{
    thread,
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tidegate::identity::Fingerprint;

use super::lane::{CONSUMER, Lane, Row};

#[derive(Deserialize)]
struct Payload<'a> {
    event_id: &'a str,
    r#type: &'a str,
    payment_id: &'a str,
    order_id: &'a str,
    version: i64,
    occurred_at: &'a str,
    #[serde(borrow)]
    amount: &'a RawValue,
}

/// Where to read, and up to where.
#[derive(Clone, Debug)]
pub(super) struct Backlog {
    pub(super) bootstrap: String,
    pub(super) topic: String,
    /// The end offset of every partition.
    pub(super) ends: Vec<i64>,
}

/// Drains the backlog with one thread, one client and one connection per lane.
pub(super) fn run(url: &str, backlog: &Backlog, lanes: usize, batch: usize) -> Vec<(u128, usize)> {
    thread::scope(|scope| {
        let running: Vec<_> =
            (0..lanes).map(|lane| scope.spawn(move || drain(url, backlog, lane, lanes, batch))).collect();
        running.into_iter().flat_map(|lane| lane.join().unwrap()).collect()
    })
}

fn drain(url: &str, backlog: &Backlog, lane: usize, lanes: usize, batch: usize) -> Vec<(u128, usize)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut store = runtime.block_on(Lane::connect(url)).unwrap();
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &backlog.bootstrap)
        .set("group.id", format!("{CONSUMER}-{}", uuid::Uuid::new_v4()))
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .create()
        .unwrap();
    let mut mine = TopicPartitionList::new();
    let mut open = 0_i64;
    for (partition, &end) in (0_i32..).zip(&backlog.ends) {
        if usize::try_from(partition).unwrap_or(0) % lanes == lane {
            mine.add_partition_offset(&backlog.topic, partition, Offset::Beginning).unwrap();
            open += end;
        }
    }
    consumer.assign(&mine).unwrap();

    let linger = Duration::from_millis(5);
    while open > 0 {
        let mut rows: Vec<Row> = Vec::with_capacity(batch);
        let mut offsets = TopicPartitionList::new();
        let mut since = None;
        while rows.len() < batch && since.is_none_or(|since: Instant| since.elapsed() < linger) {
            let Some(message) = consumer.poll(linger) else { continue };
            let message = message.unwrap();
            rows.push(parse(message.payload().unwrap(), message.partition(), message.offset()));
            since.get_or_insert_with(Instant::now);
        }
        runtime.block_on(store.apply(&backlog.topic, &rows)).unwrap();
        for row in &rows {
            let next = Offset::Offset(row.offset + 1);
            if offsets.set_partition_offset(&backlog.topic, row.partition, next).is_err() {
                offsets.add_partition_offset(&backlog.topic, row.partition, next).unwrap();
            }
        }
        consumer.commit(&offsets, CommitMode::Async).unwrap();
        open -= i64::try_from(rows.len()).unwrap_or(0);
    }
    store.commits
}

fn parse(payload: &[u8], partition: i32, offset: i64) -> Row {
    let event: Payload<'_> = serde_json::from_slice(payload).unwrap();
    Row {
        event_id: event.event_id.to_owned(),
        order_id: event.order_id.to_owned(),
        payment_id: event.payment_id.to_owned(),
        amount: event.amount.get().to_owned(),
        status: event.r#type.trim_start_matches("payment.").to_owned(),
        version: event.version,
        occurred_at: event.occurred_at.to_owned(),
        partition,
        offset,
        fingerprint: Fingerprint::of(Some(payload)).0,
    }
}
