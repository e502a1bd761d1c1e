//! The scene of the tests about crashes: payment events in one topic, a consumer whose target *adds amounts up*. Such a
//! target is not idempotent, which makes it the oracle: whatever is applied twice, or lost, is a wrong sum.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::{runtime::Handle, task::JoinHandle};

use crate::{
    Broker, Database, Producer,
    host::{self, HostProcess, Setup},
    oracle::{self, Totals},
    settlement::{self, ADDING_UP, CONSUMER, Settlement},
    wait,
    workload::{Event, Random, SETTLEMENTS, Workload},
};

const LANES: usize = 2;
/// Small batches: more commits to be killed in.
const MAX_RECORDS: i64 = 300;

/// A topic, a database, and the consumer's name in Kafka.
#[derive(Debug)]
pub struct Payments {
    /// Where the topic is.
    pub broker: Broker,
    /// Where the tables are.
    pub database: Database,
    /// The topic.
    pub topic: String,
    partitions: i32,
    /// The consumer's group.
    pub group: String,
}

impl Payments {
    /// A topic and the tables, empty.
    ///
    /// # Panics
    /// Where broker or database refuses.
    pub async fn new(broker: Broker, database: Database, partitions: i32) -> Self {
        let topic = broker.topic(partitions).await;
        database.execute(SETTLEMENTS).await;
        let group = format!("{CONSUMER}-{topic}");
        let payments = Self { broker, database, topic, partitions, group };
        let migrated = host::run_once(&payments.setup(), &["migrate"]);
        assert!(migrated.status.success(), "migrate: {}", String::from_utf8_lossy(&migrated.stderr));
        payments
    }

    /// Runs a host until everything is consumed, and lets it drain.
    ///
    /// # Panics
    /// Where it stops moving, or does not end well.
    pub async fn run_to_the_end(&self) {
        let mut host = HostProcess::start("host", &self.setup());
        host.alive_during(self.until_consumed()).await;
        host.terminate();
        assert_eq!(host.wait().code(), Some(0), "{}", host.log());
    }

    /// The configuration of a host.
    #[must_use]
    pub fn setup(&self) -> Setup {
        self.setup_with(&format!("max_records = {MAX_RECORDS}, max_bytes = \"1MiB\", linger = \"5ms\""))
    }

    /// [`Self::setup`] with this inside of its `batch` table.
    #[must_use]
    pub fn setup_with(&self, batch: &str) -> Setup {
        let consumer = Settlement::of(&self.topic).in_group(&self.group).reading(LANES, batch).merging(ADDING_UP);
        Setup::new(self.database.url(), &self.broker, consumer.toml())
    }

    /// Publishes the events and waits until the broker has them.
    pub fn publish(&self, events: &[Event]) {
        self.publisher().publish(events);
    }

    /// Somebody who publishes into the topic.
    ///
    /// # Panics
    /// Where the client cannot be made.
    #[must_use]
    pub fn publisher(&self) -> Publisher {
        let partitions = usize::try_from(self.partitions).unwrap();
        let (producer, topic) = (self.broker.producer(&[]), self.topic.clone());
        Publisher { producer, topic, partitions, seen: BTreeSet::new(), random: Random(7) }
    }

    /// Waits until the chains cover all that is in the topic now.
    pub async fn until_consumed(&self) {
        oracle::until_consumed(&self.database, &self.broker, CONSUMER, &self.topic).await;
    }

    /// Waits until Kafka knows the positions that the chains have now.
    pub async fn until_committed(&self) {
        let wanted = self.positions().await;
        let what = format!("Kafka knows that {wanted:?} was consumed");
        let knows = |at: &Vec<i64>| at.iter().zip(&wanted).all(|(at, wanted)| at >= wanted);
        wait::until(&what, async || self.committed(), knows).await;
    }

    /// The consumer's outcomes so far.
    pub async fn totals(&self) -> Totals {
        oracle::totals(&self.database, CONSUMER).await
    }

    /// Where its chains stand, per partition.
    ///
    /// # Panics
    /// Where the topic has a negative number of partitions.
    pub async fn positions(&self) -> Vec<i64> {
        oracle::positions(&self.database, CONSUMER, &self.topic, usize::try_from(self.partitions).unwrap()).await
    }

    /// What Kafka knows, per partition; 0 = nothing.
    ///
    /// # Panics
    /// Where the broker does not answer.
    #[must_use]
    pub fn committed(&self) -> Vec<i64> {
        self.broker.committed(&self.group, &self.topic).into_iter().map(Option::unwrap_or_default).collect()
    }

    /// Everything that must be true once these events, and only these, are in the topic and consumed, each record once.
    ///
    /// # Panics
    /// Where it is not.
    pub async fn assert_each_applied_once(&self, events: &[Event]) {
        assert_eq!(self.totals().await.consumed, i64::try_from(events.len()).unwrap(), "records delivered again");
        self.assert_each_applied_once_whatever_came_again(events).await;
    }

    /// The same after hosts of this [`setup`](Self::setup) have died or slept: what they had not told Kafka came again, which
    /// is at most two batches of a lane. With `deaths` given, nothing else has happened.
    ///
    /// # Panics
    /// Where it is not true.
    pub async fn assert_each_applied_once_and_little_came_again(&self, events: &[Event], deaths: Option<i64>) {
        let back = oracle::longest_way_back(&self.database, CONSUMER).await;
        assert!(back <= 2 * MAX_RECORDS, "a partition went back over {back} records");
        let again = self.totals().await.consumed - i64::try_from(events.len()).unwrap();
        eprintln!("{again} records came again, at most {back} of a partition at once");
        if let Some(deaths) = deaths {
            let most = deaths * i64::try_from(LANES).unwrap() * 2 * MAX_RECORDS;
            assert!(again <= most, "{deaths} deaths had {again} records delivered again");
        }
        self.assert_each_applied_once_whatever_came_again(events).await;
    }

    /// The same after a crash or a rewind: what was committed in the database, but not in Kafka, came again.
    ///
    /// # Panics
    /// Where it is not true.
    pub async fn assert_each_applied_once_whatever_came_again(&self, events: &[Event]) {
        oracle::assert_chain_tiles(&self.database, CONSUMER).await;
        let ids: BTreeSet<String> = events.iter().map(|event| event.event_id.clone()).collect();
        oracle::assert_ledger(&self.database, CONSUMER, &ids).await;

        settlement::assert_amounts(&self.database, &Workload::added_up(events)).await;

        let (totals, applied) = (self.totals().await, i64::try_from(ids.len()).unwrap());
        assert!(totals.consumed >= i64::try_from(events.len()).unwrap(), "{totals:?} of {} records", events.len());
        let expected =
            Totals { consumed: totals.consumed, applied, duplicate: totals.consumed - applied, ..Totals::default() };
        assert_eq!(totals, expected, "each record is in a link, with its outcome");
    }
}

/// Publishes each event to its order's partition, and each copy of it to any: duplicates then meet from two lanes, or from
/// two hosts.
#[derive(Debug)]
pub struct Publisher {
    producer: Producer,
    topic: String,
    partitions: usize,
    seen: BTreeSet<String>,
    random: Random,
}

impl Publisher {
    /// Publishes in order and waits until the broker has everything.
    ///
    /// # Panics
    /// Where the broker refuses.
    pub fn publish(&mut self, events: &[Event]) {
        for event in events {
            let mut message = event.message();
            if !self.seen.insert(event.event_id.clone()) {
                message = message.to(i32::try_from(self.random.below(self.partitions)).unwrap());
            }
            self.producer.enqueue(&self.topic, &message);
        }
        self.producer.flush();
    }
}

/// A load pauses while so many of its events are not consumed.
const FAR_BEHIND: usize = 10_000;

/// Events published in small portions in the background until it is stopped: a load that neither ends before the test does,
/// nor piles up without bound.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    publishing: JoinHandle<usize>,
    events: Arc<[Event]>,
}

impl Load {
    /// Goes on until the events run out, and pauses where the consumers are far behind.
    #[must_use]
    pub fn start(payments: &Arc<Payments>, events: Vec<Event>) -> Self {
        let (events, stop): (Arc<[Event]>, _) = (events.into(), Arc::new(AtomicBool::new(false)));
        let mut publisher = payments.publisher();
        let publishing = tokio::task::spawn_blocking({
            let (events, stop, payments) = (events.clone(), stop.clone(), payments.clone());
            let runtime = Handle::current();
            move || {
                let (mut sent, mut consumed) = (0, 0);
                for portion in events.chunks(200) {
                    while sent > consumed + FAR_BEHIND && !stop.load(Ordering::Relaxed) {
                        thread::sleep(Duration::from_millis(20));
                        consumed = usize::try_from(runtime.block_on(payments.totals()).consumed).unwrap();
                    }
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    publisher.publish(portion);
                    sent += portion.len();
                }
                sent
            }
        });
        Self { stop, publishing, events }
    }

    /// Whether everything was published already.
    #[must_use]
    pub fn has_run_out(&self) -> bool {
        self.publishing.is_finished()
    }

    /// Stops, and gives what was published.
    ///
    /// # Panics
    /// Where publishing had failed.
    pub async fn stop(mut self) -> Vec<Event> {
        self.stop.store(true, Ordering::Relaxed);
        let sent = (&mut self.publishing).await.unwrap();
        self.events[..sent].to_vec()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Events without any re-publication.
#[must_use]
pub fn distinct(events: Vec<Event>) -> Vec<Event> {
    let mut seen = BTreeSet::new();
    events.into_iter().filter(|event| seen.insert(event.event_id.clone())).collect()
}
