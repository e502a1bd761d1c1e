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

use super::scene::Scene;

pub(super) struct Intruder {
    stop: Arc<AtomicBool>,
    partitions: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Intruder {
    /// Asks for partitions.
    pub(super) fn join(scene: &Scene) -> Self {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", scene.broker.bootstrap())
            .set("group.id", &scene.group)
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "latest")
            .set("session.timeout.ms", "6000")
            .set("heartbeat.interval.ms", "300")
            .create()
            .unwrap();
        consumer.subscribe(&[&scene.topic]).unwrap();
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
    pub(super) fn partitions(&self) -> usize {
        self.partitions.load(Ordering::Relaxed)
    }

    /// Gives them back.
    pub(super) fn leave(mut self) {
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
