//! Which incarnation of a topic this is. A topic that is deleted and made again keeps its name and starts its offsets
//! anew, and the client does not notice; the id tells.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rdkafka::consumer::{BaseConsumer, ConsumerContext};
use uuid::Uuid;

use super::{
    super::SourceError,
    missing::Missing,
    raw,
    raw_admin::{self, TopicId},
};
use crate::class::Class;

/// How long an answer may take, where nobody waits for it but the batch.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How the client's embedded test broker begins its cluster id. It swallows every admin request, so it is not asked.
const EMBEDDED: &str = "mockCluster";

/// Whether the cluster of this id is the client's embedded test broker, which answers no admin request.
#[must_use]
pub fn is_embedded(cluster_id: &str) -> bool {
    cluster_id.starts_with(EMBEDDED)
}

/// How topic ids are found out, decided once at start.
#[derive(Debug)]
pub(super) struct TopicIds {
    /// The cluster's id.
    pub(super) cluster_id: Arc<str>,
    asked: bool,
    missing: Mutex<Missing>,
}

/// What is known of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has this id.
    Is(Uuid),
    /// The broker does not know it, but it may be a broker that has just started: ask again.
    Unsure,
    /// There is no such topic.
    Gone,
}

impl TopicIds {
    /// Asks the cluster who it is. Where it names no topic ids (the embedded test broker, brokers before 2.8), they are
    /// made from the cluster's id and the topic's name. That is told from the cluster's id, not from an answer that
    /// stays away: the rule must not change from one start to the next because a broker was slow.
    ///
    /// # Errors
    /// Transient, where no broker answers.
    pub(super) fn probe<C: ConsumerContext>(consumer: &BaseConsumer<C>) -> Result<Self, SourceError> {
        Self::probe_in(consumer, PATIENCE)
    }

    /// [`Self::probe`], waiting for so long.
    ///
    /// # Errors
    /// Transient, where no broker answers.
    pub(super) fn probe_in<C: ConsumerContext>(
        consumer: &BaseConsumer<C>,
        patience: Duration,
    ) -> Result<Self, SourceError> {
        let cluster_id = raw::cluster_id(consumer, patience).ok_or_else(|| SourceError {
            context: "ask the Kafka cluster for its id".to_owned(),
            message: "no broker answered; check bootstrap.servers, security.protocol and the network".to_owned(),
            class: Class::Transient,
        })?;
        let asked = !is_embedded(&cluster_id);
        Ok(Self { cluster_id, asked, missing: Mutex::default() })
    }

    /// What these topics are now.
    ///
    /// # Errors
    /// Transient, where the broker does not answer or will not say.
    pub(super) fn ask<C: ConsumerContext>(
        &self,
        consumer: &BaseConsumer<C>,
        topics: &[Arc<str>],
        within: Duration,
    ) -> Result<HashMap<Arc<str>, Standing>, SourceError> {
        if !self.asked {
            let made = |topic| (Arc::clone(topic), Standing::Is(made(&self.cluster_id, topic)));
            return Ok(topics.iter().map(made).collect());
        }
        let fail = |message| SourceError {
            context: format!("ask for the topic ids of {}", topics.join(", ")),
            message,
            class: Class::Transient,
        };
        let mut ids = HashMap::new();
        let answers = raw_admin::topic_ids(consumer, topics, within).map_err(&fail)?;
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        for (topic, id) in answers {
            let standing = match id {
                // Brokers that know no ids answer with zeros.
                TopicId::Known(id) if id.is_nil() => Standing::Is(made(&self.cluster_id, &topic)),
                TopicId::Known(id) => Standing::Is(id),
                TopicId::Gone if missing.missed(&topic, Instant::now()) => Standing::Gone,
                TopicId::Gone => Standing::Unsure,
                TopicId::Refused(words) => return Err(fail(format!("{topic}: {words}"))),
            };
            if matches!(standing, Standing::Is(_)) {
                missing.found(&topic);
            }
            ids.insert(topic, standing);
        }
        match topics.iter().find(|topic| !ids.contains_key(*topic)) {
            Some(topic) => Err(fail(format!("{topic} is missing from the answer"))),
            None => Ok(ids),
        }
    }
}

fn made(cluster_id: &str, topic: &str) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{cluster_id}\n{topic}").as_bytes())
}
