//! The producer: publishes a story without a pause, on a thread of its own, outside of the product. It slows down where
//! the consumers are far behind, and stands still where an operator asks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::story::{Manner, Story};
use crate::{Message, Producer, produce};

/// The producer pauses while so many messages are not consumed.
const FAR_BEHIND: u64 = 15_000;
/// How often a portion is published.
const TICK: Duration = Duration::from_millis(50);
/// A portion takes no longer on a broker that is there, nor on one that is away for as long as a walk has it away.
const STUCK: Duration = Duration::from_secs(45);

/// What others see of the producer and tell it.
#[derive(Debug, Default)]
pub struct Reins {
    stop: AtomicBool,
    halt: AtomicBool,
    /// Set while nothing is being published.
    halted: AtomicBool,
    partitions: AtomicUsize,
    published: AtomicU64,
    consumed: AtomicU64,
    /// How many were published, and consumed, into earlier lives of the topic.
    earlier: AtomicU64,
    /// How often the topic was made again.
    lives: AtomicU64,
}

impl Reins {
    /// How many messages the broker has.
    #[must_use]
    pub fn published(&self) -> u64 {
        self.published.load(Ordering::Relaxed)
    }

    /// How many of the topic as it is now were consumed, about.
    pub fn consumed(&self, messages: u64) {
        self.consumed.store(self.earlier.load(Ordering::Relaxed) + messages, Ordering::Relaxed);
    }

    /// The topic begins anew; everything before was consumed.
    pub fn anew(&self) {
        self.earlier.store(self.published(), Ordering::Relaxed);
        self.lives.fetch_add(1, Ordering::Relaxed);
    }

    /// The topic has so many partitions from now on.
    pub fn grown(&self, partitions: usize) {
        self.partitions.store(partitions, Ordering::Relaxed);
    }

    /// How many partitions are published to.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.partitions.load(Ordering::Relaxed)
    }

    /// Asks for a pause, or for its end.
    pub fn halt(&self, halt: bool) {
        self.halt.store(halt, Ordering::Relaxed);
    }

    /// Whether the producer stands still and the broker has everything.
    #[must_use]
    pub fn halted(&self) -> bool {
        self.halted.load(Ordering::Relaxed)
    }
}

/// A running producer. Dropped, it stops.
#[derive(Debug)]
pub struct Traffic {
    reins: Arc<Reins>,
    thread: Option<JoinHandle<Story>>,
}

impl Traffic {
    /// Publishes to this topic until it is stopped.
    ///
    /// # Panics
    /// Where the system gives no thread.
    #[must_use]
    pub fn start(bootstrap: &str, topic: &str, partitions: usize, manner: Manner) -> Self {
        let reins = Arc::new(Reins::default());
        reins.grown(partitions);
        let (seen, bootstrap, topic) = (Arc::clone(&reins), bootstrap.to_owned(), topic.to_owned());
        let publish = move || publish(&seen, &bootstrap, &topic, manner);
        let thread = thread::Builder::new().name("traffic".to_owned()).spawn(publish).unwrap();
        Self { reins, thread: Some(thread) }
    }

    /// Its reins.
    #[must_use]
    pub fn reins(&self) -> &Arc<Reins> {
        &self.reins
    }

    /// Publishes what is still to come, stops, and gives the story.
    ///
    /// # Panics
    /// Where the producer had failed: the broker refused a message.
    #[must_use]
    pub fn stop(mut self) -> Story {
        self.reins.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take();
        thread.map(JoinHandle::join).unwrap().unwrap()
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.reins.stop.store(true, Ordering::Relaxed);
    }
}

fn publish(reins: &Reins, bootstrap: &str, topic: &str, manner: Manner) -> Story {
    let mut story = Story::new(manner);
    let (mut partitions, mut lives) = (reins.partitions(), 0);
    // A broker that is away for a while is no reason to lose a message.
    let make = || produce::Producer::new(bootstrap, &[("message.timeout.ms", "600000")]);
    let mut producer: Producer = make();
    let mut due = Instant::now();
    while !reins.stop.load(Ordering::Relaxed) {
        let halt = reins.halt.load(Ordering::Relaxed);
        reins.halted.store(halt, Ordering::Relaxed);
        let behind = reins.published().saturating_sub(reins.consumed.load(Ordering::Relaxed));
        if halt || behind > FAR_BEHIND {
            thread::sleep(TICK);
            due = Instant::now();
            continue;
        }
        let now = (reins.partitions(), reins.lives.load(Ordering::Relaxed));
        if now != (partitions, lives) {
            // A new client knows new partitions and a new topic; an old one only after a while, and its sequence numbers
            // are those of the topic that is gone.
            (partitions, lives) = now;
            producer = make();
        }
        let messages: Vec<_> = (0..portion(manner.rate)).map(|_| story.next(partitions)).collect();
        deliver(&mut producer, make, topic, &messages);
        reins.published.store(story.told().messages, Ordering::Relaxed);
        due += TICK;
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    let messages = story.ending(partitions);
    deliver(&mut producer, make, topic, &messages);
    reins.published.store(story.told().messages, Ordering::Relaxed);
    story
}

/// Publishes these. An idempotent client may stand still for good after its broker has come back; another one then publishes
/// all of them again, and those that had arrived are copies.
fn deliver(producer: &mut Producer, make: impl Fn() -> Producer, topic: &str, messages: &[Message]) {
    loop {
        for message in messages {
            producer.enqueue(topic, message);
        }
        if producer.flush_within(STUCK) {
            return;
        }
        *producer = make();
    }
}

/// How many messages make one portion at this rate a second.
fn portion(rate: usize) -> usize {
    (rate * usize::try_from(TICK.as_millis()).unwrap_or(1) / 1_000).max(1)
}
