//! Two hosts, each in the belief that the same partitions are its own, over connections that keep breaking.

use std::{collections::BTreeSet, sync::Arc};

use tidegate::{class::Class, store::ApplyError};

use tidegate_tests::faulty::{Break, Faulty};
use tokio::sync::Barrier;

use super::fixture::{Consumer, Event, Fixture, event, partition};

const PARTITIONS: i32 = 3;
const RECORDS: usize = 240;

/// Ids repeat within a partition and across them.
fn id(number: i32, at: usize) -> usize {
    (at * 7 + usize::try_from(number).unwrap() * 31) % 333
}

fn record(number: i32, at: usize) -> Event {
    event(&format!("e{}", id(number, at))).tally("x", 1)
}

/// A few numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

async fn host(consumer: Consumer, seed: u64, both_ready: Arc<Barrier>) -> (usize, usize) {
    let mut dice = Dice(seed);
    let mut first = true;
    let (mut fenced, mut broken) = (0, 0);
    let numbers: Vec<i32> = (0..PARTITIONS).collect();
    loop {
        // The tips are read again after whatever happened, as a host does that was fenced.
        let lane = consumer.lane(&numbers).await;
        if std::mem::take(&mut first) {
            // Both have read the same tips: only one can extend them.
            both_ready.wait().await;
        }
        let mut events = Vec::new();
        for &number in &numbers {
            let from = usize::try_from(lane.tips[&partition(number)].next_offset).unwrap();
            let to = RECORDS.min(from + 1 + dice.roll(20));
            if from < to {
                events.push((number, (from..to).map(|at| record(number, at)).collect::<Vec<_>>()));
            }
        }
        if events.is_empty() {
            return (fenced, broken);
        }
        let mut prepared = lane.prepare(&events);
        loop {
            let when = match dice.roll(10) {
                0 => Break::CommitUnanswered,
                1 => Break::CommitUnsent,
                2 => Break::Before(dice.roll(6)),
                3 => Break::After(dice.roll(6)),
                _ => Break::Before(usize::MAX),
            };
            let conn = consumer.store.connect().await.unwrap();
            let outcome = consumer.applier.apply(&mut Faulty::new(conn, when), &mut prepared, &lane.tips).await;
            match outcome {
                Ok(_) => break,
                Err(ApplyError::Fenced { .. }) => {
                    fenced += 1;
                    break;
                }
                Err(error) => {
                    assert_eq!(error.class(), Class::Transient, "{error}");
                    broken += 1;
                }
            }
        }
    }
}

pub(super) async fn two_hosts_that_both_own_everything_apply_it_once(f: &Fixture) {
    let consumer = f.consumer("c").await;
    // The geneses first; who makes them is another case.
    drop(consumer.lane(&(0..PARTITIONS).collect::<Vec<_>>()).await);
    let both_ready = Arc::new(Barrier::new(2));
    let hosts = [1, 2].map(|seed| tokio::spawn(host(consumer.clone(), seed, Arc::clone(&both_ready))));
    let mut seen = Vec::new();
    for host in hosts {
        seen.push(host.await.unwrap());
    }
    let distinct: BTreeSet<usize> = (0..PARTITIONS).flat_map(|n| (0..RECORDS).map(move |at| id(n, at))).collect();
    let distinct = i64::try_from(distinct.len()).unwrap();
    let delivered = i64::from(PARTITIONS) * i64::try_from(RECORDS).unwrap();
    assert_eq!(f.number("SELECT sum(consumed) FROM checkpoints").await, delivered);
    assert_eq!(f.number("SELECT sum(applied) FROM checkpoints").await, distinct);
    assert_eq!((f.ledger().await, f.total("x").await), (distinct, distinct));
    // Last: whoever is not fenced where two have met has done harm before.
    assert!(seen.iter().any(|(fenced, _)| *fenced > 0), "they never met: {seen:?}");
}
