//! Payment events of every kind that there is, and what must come of them: payments, copies of recent ones, poison that
//! the table refuses, its corrections, broken JSON, and events for somebody else.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::{runtime::Handle, task::JoinHandle};

use super::scene::Scene;
use crate::{
    Message, Producer,
    workload::{Event, Random, SETTLEMENTS},
};

/// Each of so many records is refused by the table: under the breaker's one in a hundred.
const POISON_EVERY: u64 = 300;
/// So long after it, every second one is published again, corrected: mostly within the same batch.
const CORRECTED_AFTER: u64 = 40;
const BROKEN_EVERY: u64 = 400;
const FOREIGN_EVERY: u64 = 250;
/// Payments that share the events.
const PAYMENTS: usize = 2_000;
/// A copy is of one of this many latest payments.
const RECENT: usize = 1_000;

/// The settlement plugin's table, and what refuses poison.
pub(super) fn tables() -> String {
    format!("{SETTLEMENTS}; ALTER TABLE settlements ADD CONSTRAINT real_orders CHECK (order_id NOT LIKE 'poison%')")
}

/// What must be in the tables once everything published is consumed.
#[derive(Clone, Debug, Default)]
pub(super) struct Expected {
    /// Records published.
    pub(super) records: i64,
    /// Copies among them.
    pub(super) copies: i64,
    /// Ids that are applied.
    pub(super) ids: BTreeSet<String>,
    /// Hundredths per payment.
    pub(super) cents: BTreeMap<String, i64>,
    /// Records that are no input of this consumer's.
    pub(super) foreign: i64,
    /// Records that end among the dead letters.
    pub(super) dead: i64,
}

/// Makes the records in order.
struct Records {
    number: u64,
    random: Random,
    versions: Vec<i64>,
    recent: Vec<Event>,
    poison: Option<Event>,
    expected: Expected,
}

impl Records {
    fn new(seed: u64) -> Self {
        Self {
            number: 0,
            random: Random(seed),
            versions: vec![0; PAYMENTS],
            recent: Vec::new(),
            poison: None,
            expected: Expected::default(),
        }
    }

    fn payment(&mut self) -> Event {
        // The smaller of two: the first payments are the busier ones.
        let at = self.random.below(PAYMENTS).min(self.random.below(PAYMENTS));
        self.versions[at] += 1;
        Event {
            event_id: format!("evt-{at}-{}", self.versions[at]),
            order_id: format!("order-{at}"),
            payment_id: format!("payment-{at}"),
            version: self.versions[at],
            cents: i64::try_from(self.random.below(100_000)).unwrap_or(0) + 1,
            at: i64::try_from(self.number).unwrap_or(0),
        }
    }

    fn applied(&mut self, event: &Event) {
        self.expected.ids.insert(event.event_id.clone());
        *self.expected.cents.entry(event.payment_id.clone()).or_default() += event.cents;
    }

    fn next(&mut self, partitions: usize) -> Message {
        let number = self.number;
        self.number += 1;
        self.expected.records += 1;
        if number % POISON_EVERY == POISON_EVERY / 2 {
            let mut event = self.payment();
            event.event_id = format!("evt-poison-{number}");
            event.payment_id = format!("payment-poison-{number}");
            event.order_id = format!("poison-{number}");
            self.expected.dead += 1;
            // Every second one is corrected later, by its producer and so in the same partition.
            self.poison = (number / POISON_EVERY).is_multiple_of(2).then(|| event.clone());
            return event.message();
        }
        if number % POISON_EVERY == POISON_EVERY / 2 + CORRECTED_AFTER
            && let Some(poison) = self.poison.take()
        {
            let corrected = Event { order_id: format!("order-{number}"), ..poison.clone() };
            self.applied(&corrected);
            return Message::new(corrected.json()).key(poison.order_id);
        }
        if number % BROKEN_EVERY == 77 {
            self.expected.dead += 1;
            let json = self.payment().json();
            return Message::new(&json.as_bytes()[..json.len() / 2]);
        }
        if number % FOREIGN_EVERY == 33 {
            self.expected.foreign += 1;
            return Message::new(format!(r#"{{"event_id":"foreign-{number}","type":"order.placed"}}"#));
        }
        if !self.recent.is_empty() && self.random.below(10) == 0 {
            self.expected.copies += 1;
            let copy = &self.recent[self.random.below(self.recent.len())];
            // Anywhere: copies meet in two lanes, or in two hosts.
            let partition = i32::try_from(self.random.below(partitions)).unwrap_or(0);
            return copy.message().to(partition);
        }
        let event = self.payment();
        self.applied(&event);
        if self.recent.len() < RECENT {
            self.recent.push(event.clone());
        } else {
            let at = self.random.below(RECENT);
            self.recent[at] = event.clone();
        }
        event.message()
    }
}

/// Publishes in the background and stays a little ahead of the consumers, until it is stopped.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    publishing: JoinHandle<Expected>,
}

/// A portion.
const PORTION: usize = 200;
/// How far it is ahead at most.
const AHEAD: i64 = 4_000;

impl Load {
    pub(super) fn start(scene: &Arc<Scene>, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, scene, runtime) = (stop.clone(), scene.clone(), Handle::current());
        let publishing = tokio::task::spawn_blocking(move || {
            let producer: Producer = scene.broker.producer(&[]);
            let mut records = Records::new(seed);
            while !stopped.load(Ordering::Relaxed) {
                let ahead = records.expected.records - runtime.block_on(scene.covered());
                if ahead > AHEAD {
                    thread::sleep(Duration::from_millis(20));
                    continue;
                }
                for _ in 0..PORTION {
                    producer.enqueue(&scene.topic, &records.next(scene.partitions));
                }
                producer.flush();
            }
            records.expected
        });
        Self { stop, publishing }
    }

    /// Stops, and says what must come of it.
    pub(super) async fn stop(mut self) -> Expected {
        self.stop.store(true, Ordering::Relaxed);
        (&mut self.publishing).await.unwrap()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_some_of_everything_and_its_sums_add_up() {
        let mut records = Records::new(3);
        let messages: Vec<_> = (0..6_000).map(|_| records.next(6)).collect();
        let expected = records.expected;
        assert_eq!(expected.records, 6_000);
        // 20 poison, of which 10 are corrected, and 15 broken.
        assert_eq!((expected.dead, expected.foreign), (35, 24));
        let corrected = expected.ids.iter().filter(|id| id.starts_with("evt-poison")).count();
        assert_eq!(corrected, 10);
        let applied = i64::try_from(expected.ids.len()).unwrap();
        assert_eq!(applied + expected.copies + expected.dead + expected.foreign, expected.records);
        let poison = messages.iter().filter(|m| m.key.as_ref().is_some_and(|key| key.starts_with(b"poison"))).count();
        assert_eq!(poison, 30, "a correction has its original's key, and so its partition");
    }
}
