//! Producing: messages by id, with keys, headers, codecs and transactions.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, ClientContext,
    error::{KafkaError, RDKafkaErrorCode},
    message::{DeliveryResult, Header, OwnedHeaders},
    producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext},
};

/// A message to be produced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Where to; the client's partitioner decides where it is absent.
    pub partition: Option<i32>,
    /// The record's key.
    pub key: Option<Vec<u8>>,
    /// The record's value; `None` is a tombstone.
    pub payload: Option<Vec<u8>>,
    /// The record's headers, in order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Milliseconds since the epoch; now where it is absent.
    pub timestamp: Option<i64>,
}

impl Message {
    /// A message with this payload.
    #[must_use]
    pub fn new(payload: impl Into<Vec<u8>>) -> Self {
        Self { payload: Some(payload.into()), ..Self::default() }
    }

    /// A message without a payload under this key.
    #[must_use]
    pub fn tombstone(key: impl Into<Vec<u8>>) -> Self {
        Self { key: Some(key.into()), ..Self::default() }
    }

    /// The same with a key.
    #[must_use]
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The same for this partition.
    #[must_use]
    pub fn to(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// The same with one more header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

/// Counts what the broker took and what it refused.
#[derive(Clone, Default)]
struct Deliveries(Arc<Delivered>);

#[derive(Default)]
struct Delivered {
    taken: AtomicU64,
    refused: AtomicU64,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let counter = if result.is_ok() { &self.0.taken } else { &self.0.refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// A producer that waits until the broker has everything (`acks=all`).
pub struct Producer {
    client: BaseProducer<Deliveries>,
    deliveries: Deliveries,
}

impl Producer {
    pub(crate) fn new(bootstrap: &str, settings: &[(&str, &str)]) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", bootstrap).set("enable.idempotence", "true").set("linger.ms", "5");
        config.set("queue.buffering.max.messages", "100000");
        for &(key, value) in settings {
            config.set(key, value);
        }
        let deliveries = Deliveries::default();
        let client = config.create_with_context(deliveries.clone()).unwrap();
        Self { client, deliveries }
    }

    /// Produces all and waits until the broker has them. Gives how many.
    ///
    /// # Panics
    /// Where the broker refuses one.
    pub fn send(&self, topic: &str, messages: impl IntoIterator<Item = Message>) -> u64 {
        let mut sent = 0;
        for message in messages {
            self.enqueue(topic, &message);
            sent += 1;
        }
        self.flush();
        sent
    }

    /// Produces one without waiting for the broker; [`Self::flush`] does.
    ///
    /// # Panics
    /// Where the client refuses it.
    pub fn enqueue(&self, topic: &str, message: &Message) {
        let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic);
        record.partition = message.partition;
        record.key = message.key.as_deref();
        record.payload = message.payload.as_deref();
        record.timestamp = message.timestamp;
        if !message.headers.is_empty() {
            let headers = OwnedHeaders::new_with_capacity(message.headers.len());
            record.headers = Some(
                message
                    .headers
                    .iter()
                    .fold(headers, |headers, (name, value)| headers.insert(Header { key: name, value: Some(value) })),
            );
        }
        while let Err((error, again)) = self.client.send(record) {
            match error {
                KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) => {
                    self.client.poll(Duration::from_millis(20));
                    record = again;
                }
                other => panic!("producing to {topic}: {other}"),
            }
        }
        self.client.poll(Duration::ZERO);
    }

    /// Waits until the broker has everything.
    ///
    /// # Panics
    /// Where it refused something.
    pub fn flush(&self) {
        while self.client.in_flight_count() > 0 {
            self.client.flush(Duration::from_secs(10)).or_else(still_going).unwrap();
        }
        assert_eq!(self.deliveries.0.refused.load(Ordering::Relaxed), 0, "the broker refused messages");
    }

    /// As [`Self::flush`], but gives up after a while; whether the broker has everything.
    ///
    /// # Panics
    /// Where it refused something.
    pub(crate) fn flush_within(&self, patience: Duration) -> bool {
        let begun = Instant::now();
        while self.client.in_flight_count() > 0 {
            if begun.elapsed() > patience {
                return false;
            }
            self.client.flush(Duration::from_secs(1)).or_else(still_going).unwrap();
        }
        self.flush();
        true
    }

    /// Begins the first transaction of a producer with a `transactional.id`, or the next one.
    ///
    /// # Panics
    /// Where the broker refuses.
    pub fn begin(&self, first: bool) {
        if first {
            self.client.init_transactions(Duration::from_secs(60)).unwrap();
        }
        self.client.begin_transaction().unwrap();
    }

    /// Commits the transaction.
    ///
    /// # Panics
    /// Where the broker refuses.
    pub fn commit(&self) {
        self.client.commit_transaction(Duration::from_secs(60)).unwrap();
    }

    /// Aborts the transaction: readers of committed data never see its messages.
    ///
    /// # Panics
    /// Where the broker refuses.
    pub fn abort(&self) {
        self.client.abort_transaction(Duration::from_secs(60)).unwrap();
    }
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Producer")
    }
}

/// A flush that ran into its own limit is no failure, it is just not at its end.
fn still_going(error: KafkaError) -> Result<(), KafkaError> {
    match error {
        KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut) => Ok(()),
        other => Err(other),
    }
}
