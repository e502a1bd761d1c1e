//! Reading a topic without joining its group: nothing is committed, no partition is taken from anybody. For commands that
//! show messages; they block.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use rdkafka::{
    Message as _, Offset, TopicPartitionList,
    config::FromClientConfigAndContext,
    consumer::{BaseConsumer, Consumer},
    error::KafkaError,
    message::{BorrowedMessage, Headers as _},
};

use super::{
    super::{LogEnds as _, PartitionName, SourceError},
    aside,
    budget::Budget,
    closing::Closing,
    ends::Ends,
};
use crate::{
    class::Class,
    record::{Header, Record},
};

/// How long all questions before the first record may take, and how long the broker may stay silent.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At the oldest record that is there.
    Oldest,
    /// At the first record at or after this time, in milliseconds since the epoch.
    Time(i64),
    /// So many records before each partition's end.
    Newest(i64),
}

/// A record and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its partition.
    pub partition: i32,
    /// The record.
    pub record: Record,
}

/// A reader of what was there when it began, and of nothing that comes later.
pub struct Glance {
    consumer: Closing<BaseConsumer<aside::Silent>>,
    topics: HashMap<String, Arc<str>>,
    /// Where reading a partition ends; those that have been read are taken out.
    ends: HashMap<PartitionName, i64>,
}

impl Glance {
    /// Opens every partition of these topics. `group` is named to the broker and not joined: who may read the topics as
    /// that group, may do this.
    ///
    /// # Errors
    /// Fatal for properties that the client does not take, transient where no broker answers in half a minute or a topic is
    /// not there.
    pub fn open(
        properties: &BTreeMap<String, String>,
        group: &str,
        topics: &[Arc<str>],
        begin: Begin,
    ) -> Result<Self, SourceError> {
        let mut config = aside::config(properties);
        // The client wants a group's name before it takes partitions, even where it is told which.
        config.set("group.id", group);
        for (key, value) in [
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("allow.auto.create.topics", "false"),
            ("auto.offset.reset", "error"),
            ("isolation.level", "read_committed"),
            ("enable.partition.eof", "true"),
        ] {
            config.set(key, value);
        }
        let consumer: BaseConsumer<aside::Silent> = BaseConsumer::from_config_and_context(&config, aside::Silent)
            .map_err(|error| failed("make the Kafka client", &error, Class::Fatal))?;
        let consumer = Closing::new(consumer);
        let log = Ends(&*consumer, Budget::new(PATIENCE));
        let mut list = TopicPartitionList::new();
        let mut ends = HashMap::new();
        for topic in topics {
            for partition in 0..log.partitions(topic)? {
                let name = PartitionName { topic: Arc::clone(topic), partition };
                let (first, end) = log.bounds(&name)?;
                let from = match begin {
                    Begin::Oldest => first,
                    Begin::Time(time_ms) => log.at_time(&name, time_ms)?,
                    Begin::Newest(count) => end.saturating_sub(count).max(first),
                };
                if from < end {
                    let added = list.add_partition_offset(topic, partition, Offset::Offset(from));
                    added.map_err(|error| failed("name where to begin", &error, Class::Fatal))?;
                    ends.insert(name, end);
                }
            }
        }
        // An explicit offset in this call, never a seek after it.
        consumer.assign(&list).map_err(|error| failed("open the partitions", &error, Class::Transient))?;
        let topics = topics.iter().map(|topic| (topic.to_string(), Arc::clone(topic))).collect();
        Ok(Self { consumer, topics, ends })
    }

    /// The next records, at most `most`, in order within a partition. Fewer, or none, where there are no more.
    ///
    /// # Errors
    /// Transient, where the broker is silent for half a minute or a log was cut off meanwhile.
    pub fn read(&mut self, most: usize) -> Result<Vec<Seen>, SourceError> {
        let (mut seen, mut until) = (Vec::new(), Instant::now() + PATIENCE);
        while seen.len() < most && !self.ends.is_empty() {
            match self.consumer.poll(Duration::from_millis(100)) {
                Some(Ok(message)) => {
                    until = Instant::now() + PATIENCE;
                    let name = self
                        .topics
                        .get(message.topic())
                        .map(|topic| PartitionName { topic: Arc::clone(topic), partition: message.partition() });
                    let Some(name) = name else { continue };
                    let next = message.offset() + 1;
                    let Some(&end) = self.ends.get(&name) else { continue };
                    if next <= end {
                        let record = record(&message);
                        seen.push(Seen { topic: Arc::clone(&name.topic), partition: name.partition, record });
                    }
                    if next >= end {
                        self.ends.remove(&name);
                    }
                }
                // The end of one of them: perhaps behind offsets that carry no record.
                Some(Err(KafkaError::PartitionEOF(_))) => self.passed()?,
                Some(Err(error)) => return Err(failed("read", &error, Class::Transient)),
                None if Instant::now() >= until => {
                    let message = format!("no broker has answered for {} s", PATIENCE.as_secs());
                    return Err(SourceError { context: "read".to_owned(), message, class: Class::Transient });
                }
                None => self.passed()?,
            }
        }
        Ok(seen)
    }

    /// Takes out the partitions whose end the client has passed, with or without a record.
    fn passed(&mut self) -> Result<(), SourceError> {
        let list =
            self.consumer.position().map_err(|error| failed("ask for the positions", &error, Class::Transient))?;
        self.ends.retain(|name, end| match list.find_partition(&name.topic, name.partition).map(|it| it.offset()) {
            Some(Offset::Offset(position)) => position < *end,
            _ => true,
        });
        Ok(())
    }
}

fn record(message: &BorrowedMessage<'_>) -> Record {
    let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
    Record {
        offset: message.offset(),
        timestamp_ms: message.timestamp().to_millis(),
        key: message.key().map(Bytes::copy_from_slice),
        payload: message.payload().map(Bytes::copy_from_slice),
        headers: headers
            .map(|header| Header { name: header.key.to_owned(), value: header.value.map(Bytes::copy_from_slice) })
            .collect(),
    }
}

fn failed(context: &str, error: &KafkaError, class: Class) -> SourceError {
    SourceError { context: context.to_owned(), message: error.to_string(), class }
}
