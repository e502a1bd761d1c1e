//! What every source must do, run on the broker in memory and on the Kafka client with its embedded test broker. (What
//! that broker cannot do, such as transactions and topic ids, is tested on a real one.)
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig,
    consumer::{BaseConsumer, Consumer},
    mocking::MockCluster,
    producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer},
};

use super::{
    Fetched, LogEnds, Notice, Offered, PartitionName, Source, StartPoint, StartPoints, StopReason,
    kafka::{ClientOptions, KafkaSource},
    memory::{MemoryBroker, MemorySource},
};
use crate::{config::BatchLimits, store::Receipt};

const PATIENCE: Duration = Duration::from_secs(120);
const REVOKE: Duration = Duration::from_secs(20);
const TOPIC: &str = "events";

trait Broker {
    fn create(&self, partitions: usize);
    fn produce(&self, partition: i32, texts: &[String]);
    fn join(&self, member: usize, lanes: usize, starts: Arc<dyn StartPoints>) -> Arc<dyn Source>;
    fn committed(&self, partition: i32) -> Option<i64>;
    /// Which partitions each member is to have, where the broker does not decide that itself.
    fn share(&self, members: &[&[i32]]);
}

fn name(partition: i32) -> PartitionName {
    PartitionName { topic: TOPIC.into(), partition }
}

impl Broker for Arc<MemoryBroker> {
    fn create(&self, partitions: usize) {
        self.create_topic(TOPIC, partitions);
    }

    fn produce(&self, partition: i32, texts: &[String]) {
        for text in texts {
            MemoryBroker::produce(self, &name(partition), Some(b"k"), Some(text.as_bytes())).unwrap();
        }
    }

    fn join(&self, member: usize, lanes: usize, starts: Arc<dyn StartPoints>) -> Arc<dyn Source> {
        Arc::new(MemorySource::new(self, "g", member, lanes, REVOKE, starts))
    }

    fn committed(&self, partition: i32) -> Option<i64> {
        MemoryBroker::committed(self, "g", &name(partition))
    }

    fn share(&self, members: &[&[i32]]) {
        for (member, partitions) in members.iter().enumerate() {
            self.assign("g", member, partitions.iter().map(|partition| name(*partition)));
        }
    }
}

struct Mock {
    cluster: MockCluster<'static, DefaultProducerContext>,
    producer: ThreadedProducer<DefaultProducerContext>,
    revoke: Duration,
    socket_timeout: Duration,
}

impl Mock {
    fn new() -> Self {
        let cluster = MockCluster::new(1).unwrap();
        let producer = ClientConfig::new().set("bootstrap.servers", cluster.bootstrap_servers()).create().unwrap();
        Self { cluster, producer, revoke: REVOKE, socket_timeout: Duration::from_secs(60) }
    }
}

impl Broker for Mock {
    fn create(&self, partitions: usize) {
        self.cluster.create_topic(TOPIC, i32::try_from(partitions).unwrap(), 1).unwrap();
    }

    fn produce(&self, partition: i32, texts: &[String]) {
        for text in texts {
            let record = BaseRecord::to(TOPIC).partition(partition).key("k").payload(text);
            self.producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        self.producer.flush(PATIENCE).unwrap();
    }

    fn join(&self, _member: usize, lanes: usize, starts: Arc<dyn StartPoints>) -> Arc<dyn Source> {
        let properties = BTreeMap::from([
            ("bootstrap.servers".to_owned(), self.cluster.bootstrap_servers()),
            ("heartbeat.interval.ms".to_owned(), "200".to_owned()),
            // The embedded broker waits for a joining member's session time-out, less a second.
            ("session.timeout.ms".to_owned(), "6000".to_owned()),
            ("socket.timeout.ms".to_owned(), self.socket_timeout.as_millis().to_string()),
        ]);
        let options = ClientOptions { group: "g".into(), queue_bytes: 1 << 20, revoke_deadline: self.revoke };
        Arc::new(KafkaSource::new(&properties, &options, vec![TOPIC.into()], lanes, starts).unwrap())
    }

    fn committed(&self, partition: i32) -> Option<i64> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.cluster.bootstrap_servers()).set("group.id", "g");
        let asking: BaseConsumer = config.create().unwrap();
        let mut list = rdkafka::TopicPartitionList::new();
        list.add_partition(TOPIC, partition);
        let answer = asking.committed_offsets(list, PATIENCE).unwrap();
        answer.elements()[0].offset().to_raw().filter(|offset| *offset >= 0)
    }

    fn share(&self, _members: &[&[i32]]) {}
}

/// Starts where the group's offset is, else at 0, unless told otherwise.
#[derive(Default)]
struct Script {
    at: Mutex<HashMap<PartitionName, i64>>,
    later: Mutex<u32>,
    offered: Mutex<Vec<Offered>>,
    notices: Mutex<Vec<Notice>>,
}

impl StartPoints for Script {
    fn resolve(&self, offered: &[Offered], _log: &dyn LogEnds, _within: Duration) -> Vec<StartPoint> {
        self.offered.lock().unwrap().extend_from_slice(offered);
        let at = self.at.lock().unwrap();
        let mut later = self.later.lock().unwrap();
        let mut points = Vec::new();
        for one in offered {
            let name = PartitionName::from(one.partition.as_ref());
            points.push(if *later > 0 {
                *later -= 1;
                StartPoint::Later("not yet".into())
            } else {
                StartPoint::At(at.get(&name).copied().or(one.committed).unwrap_or(0), None)
            });
        }
        points
    }

    fn notice(&self, notice: Notice) {
        self.notices.lock().unwrap().push(notice);
    }
}

struct Member {
    source: Arc<dyn Source>,
    script: Arc<Script>,
    stop: Arc<AtomicBool>,
    poll: Option<JoinHandle<()>>,
}

impl Member {
    fn join(broker: &dyn Broker, member: usize, lanes: usize, script: Script) -> Self {
        let script = Arc::new(script);
        let source = broker.join(member, lanes, Arc::clone(&script) as Arc<dyn StartPoints>);
        let stop = Arc::new(AtomicBool::new(false));
        let (polled, stopped) = (Arc::clone(&source), Arc::clone(&stop));
        let poll = thread::spawn(move || {
            while !stopped.load(Ordering::SeqCst) {
                polled.poll(Duration::from_millis(20)).unwrap();
            }
            polled.finish();
        });
        Self { source, script, stop, poll: Some(poll) }
    }

    fn fetch(&self, lane: usize) -> Fetched {
        let limits = BatchLimits { max_records: 100, max_bytes: 1 << 20, linger: Duration::ZERO };
        self.source.fetch(lane, &limits, Duration::from_millis(50))
    }

    /// Commits what was fetched, as the store's receipts would.
    fn commit(&self, fetched: &Fetched) {
        let receipts = fetched.batch.runs.iter();
        let receipt =
            |run: &crate::record::Run| Receipt::forged(Arc::clone(&run.partition), run.generation, run.next_offset);
        self.source.commit(receipts.map(receipt).collect());
    }

    fn leave(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.poll.take().unwrap().join().unwrap();
    }
}

/// Repeats until it is so.
fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
    }
}

/// What was seen, by partition: (offset, payload), and the runs.
#[derive(Default)]
struct Seen {
    records: BTreeMap<i32, Vec<(i64, String)>>,
    runs: BTreeMap<i32, Vec<(i64, i64)>>,
}

impl Seen {
    fn take(&mut self, fetched: &Fetched) {
        for run in &fetched.batch.runs {
            let partition = run.partition.partition;
            self.runs.entry(partition).or_default().push((run.first_offset, run.next_offset));
            for record in &fetched.batch.records[run.records.clone()] {
                assert!(record.offset >= run.first_offset && record.offset < run.next_offset);
                assert_eq!(record.key.as_deref(), Some(&b"k"[..]));
                let text = String::from_utf8(record.payload.as_ref().unwrap().to_vec()).unwrap();
                self.records.entry(partition).or_default().push((record.offset, text));
            }
        }
    }

    fn count(&self) -> usize {
        self.records.values().map(Vec::len).sum()
    }

    /// Runs follow one another from `from` to `to` without gap or overlap.
    fn tiles(&self, partition: i32, from: i64, to: i64) {
        let mut at = from;
        for (first, next) in &self.runs[&partition] {
            assert_eq!(*first, at, "partition {partition}: {:?}", self.runs[&partition]);
            at = *next;
        }
        assert_eq!(at, to);
    }
}

fn texts(partition: i32, range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| format!("{partition}-{number}")).collect()
}

fn every_record_once_in_order_and_the_end_seen(broker: &dyn Broker) {
    broker.create(3);
    broker.share(&[&[0, 1, 2]]);
    for partition in 0..3 {
        broker.produce(partition, &texts(partition, 0..500));
    }
    let member = Member::join(broker, 0, 2, Script::default());
    let mut seen = Seen::default();
    until("all records", || {
        for lane in 0..2 {
            let fetched = member.fetch(lane);
            assert!(fetched.batch.records.len() <= 100);
            seen.take(&fetched);
            member.commit(&fetched);
        }
        if seen.count() == 1_500 {
            member.source.watch();
        }
        member.source.positions().caught_up()
    });
    for partition in 0..3 {
        let expected = texts(partition, 0..500).into_iter().enumerate();
        let expected: Vec<_> = expected.map(|(offset, text)| (i64::try_from(offset).unwrap(), text)).collect();
        assert_eq!(seen.records[&partition], expected);
        seen.tiles(partition, 0, 500);
    }
    member.leave();
    assert_eq!((0..3).map(|partition| broker.committed(partition)).collect::<Vec<_>>(), [Some(500); 3]);
}

fn a_start_point_that_comes_later_is_asked_for_again(broker: &dyn Broker) {
    broker.create(2);
    broker.share(&[&[0, 1]]);
    broker.produce(0, &texts(0, 0..10));
    broker.produce(1, &texts(1, 0..10));
    let script = Script { later: Mutex::new(3), ..Script::default() };
    script.at.lock().unwrap().insert(name(1), 4);
    let member = Member::join(broker, 0, 1, script);
    let mut seen = Seen::default();
    until("both partitions", || {
        seen.take(&member.fetch(0));
        seen.count() == 16
    });
    seen.tiles(0, 0, 10);
    seen.tiles(1, 4, 10);
    let waited = member.script.notices.lock().unwrap().iter().any(|notice| matches!(notice, Notice::Waiting(..)));
    assert!(waited);
    member.leave();
}

fn a_fenced_partition_begins_anew_and_the_others_go_on(broker: &dyn Broker) {
    broker.create(2);
    broker.share(&[&[0, 1]]);
    broker.produce(0, &texts(0, 0..300));
    broker.produce(1, &texts(1, 0..300));
    let member = Member::join(broker, 0, 1, Script::default());
    let mut seen = Seen::default();
    until("something of partition 0", || {
        seen.take(&member.fetch(0));
        seen.records.contains_key(&0)
    });
    let generation = |partition: i32| {
        let offered = member.script.offered.lock().unwrap();
        offered.iter().filter(|one| one.partition.partition == partition).count()
    };
    assert_eq!(generation(0), 1);
    member.script.at.lock().unwrap().insert(name(0), 7);
    // Again and again: what the client does of this on its own threads must not come too late for what we do then.
    for _ in 0..20 {
        let current = (1..100).find(|generation| member.source.positions().is_current(&name(0), *generation)).unwrap();
        member.source.reposition(&[current]);
        assert!(!member.source.positions().is_current(&name(0), current));
        seen.records.remove(&0);
        seen.runs.remove(&0);
        until("partition 0 again, from where the chain stands", || {
            seen.take(&member.fetch(0));
            seen.count() == 300 + 293
        });
        seen.tiles(0, 7, 300);
    }
    seen.tiles(1, 0, 300);
    let offered = member.script.offered.lock().unwrap();
    assert!(offered.iter().any(|one| one.fenced && one.partition.partition == 0));
    drop(offered);
    member.leave();
}

fn a_lost_offset_stops_that_partition_alone(broker: &dyn Broker) {
    broker.create(2);
    broker.share(&[&[0, 1]]);
    broker.produce(0, &texts(0, 0..10));
    broker.produce(1, &texts(1, 0..10));
    let script = Script::default();
    script.at.lock().unwrap().insert(name(0), 99);
    let member = Member::join(broker, 0, 1, script);
    let mut seen = Seen::default();
    until("the other partition, and word of this one", || {
        seen.take(&member.fetch(0));
        let notices = member.script.notices.lock().unwrap();
        let lost = |notice: &Notice| matches!(notice, Notice::Stopped(stopped, StopReason::OffsetLost { offset: 99, .. }) if *stopped == name(0));
        seen.count() == 10 && notices.iter().any(lost)
    });
    broker.produce(1, &texts(1, 10..20));
    until("more of the other partition", || {
        seen.take(&member.fetch(0));
        seen.count() == 20
    });
    assert!(!seen.records.contains_key(&0));
    member.leave();
}

/// Members come and go while records flow: with every batch finished before its partition is given away, nothing is
/// delivered twice and nothing is left out.
fn a_clean_rebalance_repeats_and_loses_nothing(broker: &dyn Broker) {
    broker.create(4);
    broker.share(&[&[0, 1, 2, 3]]);
    let all = Arc::new(Mutex::new(Seen::default()));
    let worker = |member: Member| {
        let (all, done) = (Arc::clone(&all), Arc::new(AtomicBool::new(false)));
        let stop = Arc::clone(&done);
        let work = thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                for lane in 0..2 {
                    let fetched = member.fetch(lane);
                    all.lock().unwrap().take(&fetched);
                    member.commit(&fetched);
                }
            }
            member.leave();
        });
        move || {
            done.store(true, Ordering::SeqCst);
            work.join().unwrap();
        }
    };
    let produced = |from: usize, to: usize| {
        for partition in 0..4 {
            broker.produce(partition, &texts(partition, from..to));
        }
        until("what was produced", || {
            thread::sleep(Duration::from_millis(5));
            all.lock().unwrap().count() >= 4 * to
        });
    };
    let first_script = Member::join(broker, 0, 2, Script::default());
    let script = Arc::clone(&first_script.script);
    let first = worker(first_script);
    produced(0, 200);
    broker.share(&[&[0, 1], &[2, 3]]);
    let second_member = Member::join(broker, 1, 2, Script::default());
    let second_script = Arc::clone(&second_member.script);
    let second = worker(second_member);
    until("the second member has its part", || {
        thread::sleep(Duration::from_millis(5));
        let assigned = |notice: &Notice| matches!(notice, Notice::Assigned(names) if !names.is_empty());
        second_script.notices.lock().unwrap().iter().any(assigned)
    });
    produced(200, 400);
    broker.share(&[&[], &[0, 1, 2, 3]]);
    first();
    produced(400, 600);
    second();
    let seen = all.lock().unwrap();
    for partition in 0..4 {
        let offsets: Vec<_> = seen.records[&partition].iter().map(|(offset, _)| *offset).collect();
        let unique: BTreeSet<_> = offsets.iter().copied().collect();
        assert_eq!((offsets.len(), unique.len()), (600, 600), "partition {partition}: {:?}", seen.runs[&partition]);
        assert_eq!(broker.committed(partition), Some(600));
    }
    let revoked: Vec<_> = script
        .notices
        .lock()
        .unwrap()
        .iter()
        .filter_map(|notice| match notice {
            Notice::Revoked { drained, .. } => Some(*drained),
            _ => None,
        })
        .collect();
    assert!(!revoked.is_empty() && revoked.iter().all(|drained| *drained));
}

/// With a broker that hangs, a member goes without having heard of its last commit: the chain knows where to go on.
#[test]
fn a_member_that_leaves_waits_for_a_hanging_broker_no_longer_than_its_deadline() {
    // Whoever waited for the client's own time-out would wait for longer than any test.
    let mock = Mock { revoke: Duration::from_secs(2), socket_timeout: PATIENCE * 2, ..Mock::new() };
    mock.create(1);
    mock.produce(0, &texts(0, 0..10));
    let member = Member::join(&mock, 0, 1, Script::default());
    let (mut fetched, script) = (member.fetch(0), Arc::clone(&member.script));
    until("records", || {
        if fetched.batch.records.is_empty() {
            fetched = member.fetch(0);
        }
        !fetched.batch.records.is_empty()
    });
    let hang = |time: u64| mock.cluster.broker_round_trip_time(1, Duration::from_secs(time)).unwrap();
    hang(600);
    member.commit(&fetched);
    drop(fetched);
    let leaving = thread::spawn(move || member.leave());
    until("the commit is given up", || {
        thread::sleep(Duration::from_millis(20));
        script.notices.lock().unwrap().iter().any(|notice| matches!(notice, Notice::CommitFailed(_)))
    });
    hang(0);
    leaving.join().unwrap();
}

macro_rules! conformance {
    ($($test:ident),* $(,)?) => {
        mod memory_broker {
            $(#[test] fn $test() { super::$test(&super::MemoryBroker::new()); })*
        }
        mod kafka_client {
            $(#[test] fn $test() { super::$test(&super::Mock::new()); })*
        }
    };
}

conformance!(
    every_record_once_in_order_and_the_end_seen,
    a_start_point_that_comes_later_is_asked_for_again,
    a_fenced_partition_begins_anew_and_the_others_go_on,
    a_lost_offset_stops_that_partition_alone,
    a_clean_rebalance_repeats_and_loses_nothing,
);
