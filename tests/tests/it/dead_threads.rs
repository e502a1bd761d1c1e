//! A thread or task of a consumer's that dies of a bug stops the consumer at once, with a reason and without harm: the next
//! life goes on where the database stands.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tidegate::{
    config::BatchLimits,
    plugin::ComputePool,
    record::Batch,
    source::{Fetched, PartitionName, Positions, Source, SourceError},
    store::Receipt,
};
use tokio::sync::watch;

use crate::path_property::{Input, Scene};

/// Where a bug is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Poll,
    Watch,
    Fetch,
    Commit,
}

/// A source with a bug that shows once, as soon as it is armed.
struct Mined {
    inner: Arc<dyn Source>,
    place: Place,
    armed: Arc<AtomicBool>,
    left: Arc<AtomicBool>,
}

impl Mined {
    fn step(&self, place: Place) {
        assert!(self.place != place || !self.armed.swap(false, Ordering::SeqCst), "a bug, made on purpose");
    }
}

impl Source for Mined {
    fn positions(&self) -> &Arc<Positions> {
        self.inner.positions()
    }

    fn fetch(&self, lane: usize, limits: &BatchLimits, idle: Duration) -> Fetched {
        self.step(Place::Fetch);
        self.inner.fetch(lane, limits, idle)
    }

    fn wake(&self) {
        self.inner.wake();
    }

    fn confirm(&self, batch: &Batch) -> Result<(), SourceError> {
        self.inner.confirm(batch)
    }

    fn commit(&self, receipts: Vec<Receipt>) -> u64 {
        self.step(Place::Commit);
        self.inner.commit(receipts)
    }

    fn confirmed(&self) -> watch::Receiver<u64> {
        self.inner.confirmed()
    }

    fn reposition(&self, generations: &[u64]) {
        self.inner.reposition(generations);
    }

    fn poll(&self, timeout: Duration) -> Result<(), SourceError> {
        self.step(Place::Poll);
        self.inner.poll(timeout)
    }

    fn watch(&self) -> HashMap<PartitionName, i64> {
        self.step(Place::Watch);
        self.inner.watch()
    }

    fn finish(&self) {
        self.inner.finish();
        self.left.store(true, Ordering::SeqCst);
    }
}

async fn dies(place: Place, says: &str) {
    let scene = Scene::new(2, Arc::new(ComputePool::new(1, 1).unwrap())).await;
    let (armed, left): (Arc<AtomicBool>, Arc<AtomicBool>) = Default::default();
    for number in 0..3 {
        scene.produce(number % 2, Input::Event(u8::try_from(number).unwrap()));
    }
    let mined = |inner| Arc::new(Mined { inner, place, armed: armed.clone(), left: left.clone() }) as Arc<dyn Source>;
    scene.assign(0);
    let consumer = scene.start_on(0, 2, mined);
    scene.until_caught_up(&consumer).await;

    armed.store(true, Ordering::SeqCst);
    for number in 3..8 {
        scene.produce(number % 2, Input::Event(u8::try_from(number).unwrap()));
    }
    let ended = tokio::time::timeout(Duration::from_secs(60), consumer.ended()).await;
    assert!(ended.is_ok(), "{place:?}: it goes on as if nothing were");
    let reason = consumer.health().stop_reason().expect("it says why");
    assert!(reason.starts_with(says) && reason.contains("died of a bug"), "{place:?}: {reason}");
    assert!(left.load(Ordering::SeqCst), "{place:?}: its partitions are free for others at once");
    drop(consumer);
    scene.finish(4).await;
    assert_eq!(scene.ids().await.len(), 8, "{place:?}: nothing is lost");
    assert_eq!(scene.sum().await, (1..=8).sum::<i64>(), "{place:?}: and nothing applied twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_thread_that_serves_the_group() {
    dies(Place::Poll, "the thread that serves the group").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_thread_that_looks_at_topics() {
    dies(Place::Watch, "the watch over topics and logs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_s_thread() {
    dies(Place::Fetch, "the first half of lane 0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_s_task() {
    dies(Place::Commit, "the second half of lane 0").await;
}
