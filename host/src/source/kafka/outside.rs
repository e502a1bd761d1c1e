//! A consumer group and its topics seen from outside: by a client that joins nothing. For commands that ask and move
//! consumers; they block.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rdkafka::{
    ClientContext, Offset,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext},
    error::KafkaError,
};
use uuid::Uuid;

pub use super::raw_group::Member;
use super::{
    super::{LogEnds, PartitionName, SourceError},
    aside,
    budget::Budget,
    closing::Closing,
    context::{list_of, offsets_of},
    ends::Ends,
    raw_group,
    topic_ids::{Standing, TopicIds, is_embedded},
};
use crate::class::Class;

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Keeps the first of what the client complains of, for the message; the log gets nothing.
#[derive(Default)]
struct Heard(Mutex<Option<String>>);

impl ClientContext for Heard {
    fn log(&self, _: RDKafkaLogLevel, fac: &str, message: &str) {
        tracing::debug!(target: "librdkafka", fac, "{message}");
    }

    fn error(&self, _: KafkaError, reason: &str) {
        // The first says what is wrong; those that follow say that all brokers are down.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| reason.to_owned());
    }
}

impl ConsumerContext for Heard {}

/// See the module.
pub struct Outside {
    consumer: Closing<BaseConsumer<Heard>>,
    ids: TopicIds,
    group: String,
}

impl Outside {
    /// A client of this cluster that can speak of this group. Waits for a broker.
    ///
    /// # Errors
    /// Fatal for properties that the client does not take, transient where no broker answers.
    pub fn connect(properties: &BTreeMap<String, String>, group: &str) -> Result<Self, SourceError> {
        let mut config = aside::config(properties);
        config.set("group.id", group).set("enable.auto.commit", "false").set("allow.auto.create.topics", "false");
        let consumer: BaseConsumer<Heard> =
            BaseConsumer::from_config_and_context(&config, Heard::default()).map_err(|error| SourceError {
                context: "make the Kafka client".to_owned(),
                message: error.to_string(),
                class: Class::Fatal,
            })?;
        let consumer = Closing::new(consumer);
        let until = Instant::now() + PATIENCE;
        loop {
            // Tokens are refreshed, and errors heard, in a client's poll.
            let _ = consumer.poll(Duration::from_millis(50));
            match TopicIds::probe_in(&consumer, Duration::from_millis(500)) {
                Ok(ids) => return Ok(Self { consumer, ids, group: group.to_owned() }),
                Err(mut error) if Instant::now() >= until => {
                    let heard = consumer.context().0.lock().unwrap_or_else(PoisonError::into_inner).take();
                    error.message = heard.unwrap_or(error.message);
                    return Err(error);
                }
                Err(_) => {}
            }
        }
    }

    /// The cluster's id.
    #[must_use]
    pub fn cluster_id(&self) -> &Arc<str> {
        &self.ids.cluster_id
    }

    /// The ids of these topics; those that are not there are absent.
    ///
    /// # Errors
    /// Transient, where the broker does not answer or will not say.
    pub fn topic_ids(&self, topics: &[Arc<str>]) -> Result<HashMap<Arc<str>, Uuid>, SourceError> {
        let standings = self.ids.ask(&self.consumer, topics, PATIENCE)?;
        let there = standings.into_iter().filter_map(|(topic, standing)| match standing {
            Standing::Is(id) => Some((topic, id)),
            Standing::Unsure | Standing::Gone => None,
        });
        Ok(there.collect())
    }

    /// Where logs begin and end.
    #[must_use]
    pub fn ends(&self) -> impl LogEnds + '_ {
        // Each question has its own limit; together they take as long as there are partitions.
        Ends(&self.consumer, Budget::new(Duration::from_secs(86_400)))
    }

    /// The group's offsets; partitions without one are absent.
    ///
    /// # Errors
    /// Transient, where the broker does not answer or will not say.
    pub fn committed(&self, names: &[PartitionName]) -> Result<HashMap<PartitionName, i64>, SourceError> {
        let found = self.consumer.committed_offsets(list_of(names), PATIENCE);
        let found = found.map_err(|error| self.failed("ask for the offsets of", &error))?;
        let offset = |name: &PartitionName| match found.find_partition(&name.topic, name.partition)?.offset() {
            Offset::Offset(offset) => Some((name.clone(), offset)),
            _ => None,
        };
        Ok(names.iter().filter_map(offset).collect())
    }

    /// Who is in the group now. The client's embedded test broker cannot be asked; then there is nobody.
    ///
    /// # Errors
    /// Transient, where the broker does not answer or will not say.
    pub fn members(&self) -> Result<Vec<Member>, SourceError> {
        if is_embedded(self.cluster_id()) {
            return Ok(Vec::new());
        }
        raw_group::members(&self.consumer, &self.group, PATIENCE)
            .map_err(|error| self.failed("ask for the members of", &error))
    }

    /// Sets the group's offsets, and waits for the answer. Kafka refuses this while the group has members.
    ///
    /// # Errors
    /// Transient, with the broker's words.
    // Invariant 1 speaks of what was processed; these offsets are where an operator wants to go on, and the chain, which was
    // moved before, has the last word at the next start.
    pub fn commit(&self, offsets: &HashMap<PartitionName, i64>) -> Result<(), SourceError> {
        let list = offsets_of(offsets.iter().map(|(name, offset)| (name, *offset)));
        let done = list.and_then(|list| self.consumer.commit(&list, CommitMode::Sync));
        done.map_err(|error| self.failed("set the offsets of", &error))
    }

    fn failed(&self, what: &str, error: &dyn std::fmt::Display) -> SourceError {
        let context = format!("{what} group {}", self.group);
        SourceError { context, message: error.to_string(), class: Class::Transient }
    }
}
