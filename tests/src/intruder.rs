//! A member that joins a host's group, takes partitions, reads them into nothing, commits nothing and leaves: a
//! rebalance whenever a test wants one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rdkafka::{
    ClientConfig,
    consumer::{BaseConsumer, Consumer},
};

use crate::Broker;

/// Such a member. It leaves when it is dropped.
#[derive(Debug)]
pub struct Intruder {
    stop: Arc<AtomicBool>,
    partitions: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Intruder {
    /// Asks for partitions of this topic, as a member with these settings on top of the usual ones.
    ///
    /// # Panics
    /// Where a setting is wrong.
    #[must_use]
    pub fn join(broker: &Broker, group: &str, topic: &str, settings: &[(&str, &str)]) -> Self {
        let mut config = ClientConfig::new();
        for (key, value) in [
            ("bootstrap.servers", broker.bootstrap()),
            ("group.id", group),
            ("partition.assignment.strategy", "cooperative-sticky"),
            ("enable.auto.commit", "false"),
            ("auto.offset.reset", "latest"),
            ("session.timeout.ms", "6000"),
            ("heartbeat.interval.ms", "300"),
        ]
        .iter()
        .chain(settings)
        {
            config.set(*key, *value);
        }
        let consumer: BaseConsumer = config.create().unwrap();
        consumer.subscribe(&[topic]).unwrap();
        let (stop, partitions): (Arc<AtomicBool>, Arc<AtomicUsize>) = Default::default();
        let (stopped, held) = (stop.clone(), partitions.clone());
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let _ = consumer.poll(Duration::from_millis(20));
                held.store(consumer.assignment().map_or(0, |list| list.count()), Ordering::Relaxed);
            }
        });
        Self { stop, partitions, thread: Some(thread) }
    }

    /// Partitions that it has now.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.partitions.load(Ordering::Relaxed)
    }

    /// Gives them back.
    pub fn leave(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread drops the consumer, which leaves the group.
            let _ = thread.join();
        }
    }
}

impl Drop for Intruder {
    fn drop(&mut self) {
        self.end();
    }
}
