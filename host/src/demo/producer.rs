//! The producer: publishes the story, record by record, as fast as the pace allows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, ClientContext,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext},
};

use super::{
    broker::Broker,
    error::DemoError,
    pace::Pace,
    story::{Publication, Story},
};

const PATIENCE: Duration = Duration::from_secs(30);

/// What others may see of the producer while it runs.
#[derive(Debug, Default)]
pub(super) struct Produced {
    /// Records that the broker has confirmed.
    pub(super) records: AtomicU64,
    refused: AtomicU64,
    /// Set from outside: nobody makes room any more; end without waiting for it.
    pub(super) abandoned: AtomicBool,
    /// Set from outside: publish what is held back, and end.
    pub(super) stop: AtomicBool,
}

/// How much to publish, and how fast.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Events to take from the story; `None` = until told to stop.
    pub(super) events: Option<u64>,
    /// Events a second at most.
    pub(super) per_second: Option<u64>,
}

/// Owns the story. Its methods block: it runs on a thread of its own.
pub(super) struct Producer {
    client: BaseProducer<Confirmations>,
    broker: Arc<Broker>,
    pace: Arc<Pace>,
    produced: Arc<Produced>,
    /// Its oracle knows what was published.
    pub(super) story: Story,
}

struct Confirmations(Arc<Produced>);

impl ClientContext for Confirmations {}

impl ProducerContext for Confirmations {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let counter = if result.is_ok() { &self.0.records } else { &self.0.refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Producer {
    pub(super) fn new(
        broker: Arc<Broker>,
        pace: Arc<Pace>,
        produced: Arc<Produced>,
        story: Story,
    ) -> Result<Self, DemoError> {
        let client = ClientConfig::new()
            .set("bootstrap.servers", broker.servers())
            // The order within a partition is part of the story: a corrected event comes after the broken one.
            .set("enable.idempotence", "true")
            .set("linger.ms", "5")
            .create_with_context(Confirmations(Arc::clone(&produced)))
            .map_err(|e| error(&broker, "connect", &e))?;
        Ok(Self { client, broker, pace, produced, story })
    }

    /// Publishes as planned, then what the story still holds back, and waits until the broker has confirmed it all.
    pub(super) fn run(&mut self, plan: Plan) -> Result<(), DemoError> {
        let begun = Instant::now();
        let mut events = 0;
        while plan.events.is_none_or(|n| events < n) && !self.stopped() {
            for publication in self.story.next_event() {
                self.publish(&publication)?;
            }
            events += 1;
            self.client.poll(Duration::ZERO);
            while let Some(early) = plan.per_second.and_then(|rate| early_by(begun.elapsed(), events, rate)) {
                if self.stopped() {
                    break;
                }
                self.client.poll(early.min(Duration::from_millis(50)));
            }
        }
        let rest = self.story.close();
        self.publish_all(&rest)
    }

    /// Publishes what was broken once more, corrected.
    pub(super) fn correct(&mut self) -> Result<(), DemoError> {
        let corrections = self.story.corrections();
        self.publish_all(&corrections)
    }

    /// Publishes these and waits until the broker has confirmed everything.
    fn publish_all(&self, publications: &[Publication]) -> Result<(), DemoError> {
        publications.iter().try_for_each(|publication| self.publish(publication))?;
        self.client.flush(PATIENCE).map_err(|e| error(&self.broker, "wait for the last records", &e))?;
        match self.produced.refused.load(Ordering::Relaxed) {
            0 => Ok(()),
            n => Err(DemoError::Broker {
                servers: self.broker.servers().into(),
                what: "produce",
                message: format!("{n} records were not accepted"),
            }),
        }
    }

    fn stopped(&self) -> bool {
        self.produced.stop.load(Ordering::Relaxed) || self.produced.abandoned.load(Ordering::Relaxed)
    }

    fn publish(&self, publication: &Publication) -> Result<(), DemoError> {
        let size = publication.key.len() + publication.payload.as_ref().map_or(0, Vec::len);
        while !self.pace.take(publication.feed, publication.partition, size, Duration::from_millis(20)) {
            self.client.poll(Duration::ZERO);
            if self.produced.abandoned.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        let topic = self.broker.topic(publication.feed);
        let mut record = BaseRecord::<str, [u8]>::to(topic).key(&publication.key).partition(publication.partition);
        record.payload = publication.payload.as_deref();
        loop {
            match self.client.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), same)) => {
                    self.client.poll(Duration::from_millis(10));
                    record = same;
                }
                Err((e, _)) => return Err(error(&self.broker, "produce", &e)),
            }
        }
    }
}

/// How long to wait so that `events` take at least their time at this rate.
fn early_by(elapsed: Duration, events: u64, per_second: u64) -> Option<Duration> {
    let due = Duration::from_micros(events.saturating_mul(1_000_000) / per_second.max(1));
    due.checked_sub(elapsed).filter(|d| !d.is_zero())
}

fn error(broker: &Broker, what: &'static str, error: &KafkaError) -> DemoError {
    DemoError::Broker { servers: broker.servers().into(), what, message: error.to_string() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::demo::{broker::PARTITIONS, measure::Ends, story::Feed};

    #[test]
    fn the_embedded_broker_has_what_the_story_told() {
        let broker = Arc::new(Broker::embedded().unwrap());
        let (pace, produced) = (Arc::new(Pace::default()), Arc::new(Produced::default()));
        let story = Story::new(1, PARTITIONS, 0);
        let mut producer = Producer::new(Arc::clone(&broker), pace, Arc::clone(&produced), story).unwrap();
        producer.run(Plan { events: Some(2_000), per_second: None }).unwrap();
        producer.correct().unwrap();
        let ends = Ends::ask(&broker).unwrap();
        for feed in Feed::ALL {
            assert_eq!(ends.records(&[feed]), producer.story.oracle().published_to(feed));
            assert!((0..PARTITIONS).all(|p| ends.0[&(feed, p)] > 0), "every partition is in use");
        }
        let all = u64::try_from(ends.records(&Feed::ALL)).unwrap();
        assert_eq!(produced.records.load(Ordering::Relaxed), all);
    }

    #[test]
    fn a_rate_is_kept_by_waiting() {
        let second = Duration::from_secs(1);
        assert_eq!(early_by(second, 100, 100), None);
        assert_eq!(early_by(second, 200, 100), Some(second));
        assert_eq!(early_by(second, 50, 100), None);
    }
}
