//! Asks a Kafka cluster what it has of the topics that a configuration names. Joins no group, commits nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rdkafka::{
    ClientConfig, ClientContext,
    admin::{AdminClient, AdminOptions, ConfigResource, OwnedResourceSpecifier, ResourceSpecifier},
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::KafkaError,
};

use super::retention::TopicRetention;
use crate::{config::KafkaCluster, source::kafka::is_embedded};

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a cluster has of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TopicFacts {
    /// Its partitions; 0 = there is no such topic.
    pub(super) partitions: usize,
    /// How long it keeps what is in it; `None` = the broker does not say (no right to ask, no such topic or call).
    pub(super) kept: Option<TopicRetention>,
    /// The cluster is the client's embedded test broker, which keeps nothing and swallows every admin request.
    pub(super) embedded: bool,
}

/// Keeps librdkafka's own complaints from the terminal, and the last one for the message.
#[derive(Clone, Default)]
struct Quiet(Arc<Mutex<Option<String>>>);

impl ClientContext for Quiet {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, _: KafkaError, reason: &str) {
        // The first says what is wrong; those that follow say that all brokers are down.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| reason.to_owned());
    }
}

impl ConsumerContext for Quiet {}

impl Quiet {
    fn why(&self, error: &KafkaError) -> String {
        let reason = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        reason.unwrap_or_else(|| error.to_string())
    }
}

/// What the cluster has of these topics.
///
/// # Errors
/// Why it cannot be asked.
pub(super) async fn topics(cluster: &KafkaCluster, names: Vec<String>) -> Result<BTreeMap<String, TopicFacts>, String> {
    let mut config = ClientConfig::new();
    config.extend(cluster.properties.iter().map(|(key, value)| (key.clone(), value.clone())));
    // Asking for a topic must not make it.
    config.set("allow.auto.create.topics", "false");
    let (asking, listed) = (config.clone(), names.clone());
    let (partitions, embedded) = tokio::task::spawn_blocking(move || partitions(&asking, &listed))
        .await
        .map_err(|error| format!("the question was given up: {error}"))??;
    let kept = if embedded { BTreeMap::new() } else { retentions(&config, &names).await? };
    let facts = |name: String| {
        let partitions = partitions.get(&name).copied().unwrap_or(0);
        let facts = TopicFacts { partitions, kept: kept.get(&name).copied(), embedded };
        (name, facts)
    };
    Ok(names.into_iter().map(facts).collect())
}

/// The topics' partitions, and whether the cluster is the client's embedded one.
fn partitions(config: &ClientConfig, names: &[String]) -> Result<(BTreeMap<String, usize>, bool), String> {
    let quiet = Quiet::default();
    let consumer: BaseConsumer<Quiet> = config.create_with_context(quiet.clone()).map_err(|error| error.to_string())?;
    let mut found = BTreeMap::new();
    for name in names {
        // A first poll serves the errors that tell why a connection fails.
        let metadata = consumer.fetch_metadata(Some(name), PATIENCE).map_err(|error| {
            let _ = consumer.poll(Duration::ZERO);
            quiet.why(&error)
        })?;
        for topic in metadata.topics().iter().filter(|topic| topic.error().is_none()) {
            found.insert(topic.name().to_owned(), topic.partitions().len());
        }
    }
    let embedded = consumer.client().fetch_cluster_id(PATIENCE).is_some_and(|id| is_embedded(&id));
    Ok((found, embedded))
}

/// Absent = the broker would not say.
///
/// # Errors
/// Why there was no answer.
async fn retentions(config: &ClientConfig, names: &[String]) -> Result<BTreeMap<String, TopicRetention>, String> {
    let quiet = Quiet::default();
    let admin: AdminClient<Quiet> = config.create_with_context(quiet.clone()).map_err(|error| error.to_string())?;
    let resources: Vec<_> = names.iter().map(|name| ResourceSpecifier::Topic(name)).collect();
    let options = AdminOptions::new().request_timeout(Some(PATIENCE));
    let answers = admin.describe_configs(&resources, &options).await.map_err(|error| quiet.why(&error))?;
    let kept = answers
        .into_iter()
        .flatten()
        .filter_map(|resource| match &resource.specifier {
            OwnedResourceSpecifier::Topic(name) => Some((name.clone(), retention(&resource)?)),
            _ => None,
        })
        .collect();
    Ok(kept)
}

/// From a topic's settings; `None` where one of them is missing or unreadable.
fn retention(resource: &ConfigResource) -> Option<TopicRetention> {
    let value = |name: &str| resource.get(name)?.value.clone();
    let ms = |text: String| text.parse::<i64>().ok();
    let retention = ms(value("retention.ms")?)?;
    let segment = ms(value("segment.ms")?)?;
    Some(TopicRetention {
        retention: u64::try_from(retention).ok().map(Duration::from_millis),
        segment: Duration::from_millis(u64::try_from(segment).unwrap_or(u64::MAX)),
        deletes: value("cleanup.policy")?.split(',').any(|policy| policy.trim() == "delete"),
    })
}
