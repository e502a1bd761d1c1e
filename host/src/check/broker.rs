//! Asks a Kafka cluster what it has of the topics that a configuration names. Joins no group, commits nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use rdkafka::{
    ClientConfig, ClientContext,
    admin::{AdminClient, AdminOptions, ConfigResource, OwnedResourceSpecifier, ResourceSpecifier},
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::KafkaError,
};
use tokio::{
    runtime::Handle,
    sync::{Semaphore, oneshot},
    time::timeout,
};

use super::retention::TopicRetention;
use crate::{
    config::KafkaCluster,
    source::kafka::{Closing, bystander_config, is_embedded, left_behind},
};

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long all of them may take, with the clients' ends.
const IN_ALL: Duration = Duration::from_secs(60);
/// So many clients of this process may hang in their end; each has threads of its own.
const MANY_LEFT: usize = 16;

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

/// Questions that are under way. They end by themselves, so more than a few at once means that some never will.
static ASKING: Semaphore = Semaphore::const_new(16);

/// What the cluster has of these topics. Takes no longer than [`IN_ALL`], whatever the client does: it is asked on a thread
/// that nobody waits for.
///
/// # Errors
/// Why it cannot be asked.
pub(super) async fn topics(cluster: &KafkaCluster, names: Vec<String>) -> Result<BTreeMap<String, TopicFacts>, String> {
    let hung = || "earlier questions to brokers hang in this process; start it again".to_owned();
    let under_way = ASKING.try_acquire().map_err(|_| hung())?;
    if left_behind() >= MANY_LEFT {
        return Err(hung());
    }
    let mut config = bystander_config(&cluster.properties);
    // Asking for a topic must not make it.
    config.set("allow.auto.create.topics", "false");
    let (tell, told) = oneshot::channel();
    let runtime = Handle::current();
    let ask = move || {
        let _under_way = under_way;
        let facts = facts(&config, names, &runtime);
        // An error means that nobody waits any more.
        let _ = tell.send(facts);
    };
    let thread = thread::Builder::new().name("kafka-question".to_owned()).spawn(ask);
    thread.map_err(|error| format!("start a thread: {error}"))?;
    match timeout(IN_ALL, told).await {
        Ok(Ok(facts)) => facts,
        Ok(Err(_)) => Err("the question was given up".to_owned()),
        Err(_) => Err(format!("the client has not come back with an answer within {} s", IN_ALL.as_secs())),
    }
}

/// Blocks.
fn facts(config: &ClientConfig, names: Vec<String>, runtime: &Handle) -> Result<BTreeMap<String, TopicFacts>, String> {
    let (partitions, embedded) = partitions(config, &names)?;
    let kept = if embedded { BTreeMap::new() } else { runtime.block_on(retentions(config, &names))? };
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
    let consumer = Closing::new(consumer);
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
    let admin = Closing::new(admin);
    let resources: Vec<_> = names.iter().map(|name| ResourceSpecifier::Topic(name)).collect();
    let options = AdminOptions::new().request_timeout(Some(PATIENCE));
    // The client ends what it was asked by itself, but its word for it is not taken: this thread has to come back.
    let answers = timeout(PATIENCE * 2, admin.describe_configs(&resources, &options)).await;
    let answers = answers.map_err(|_| "the client has forgotten a question".to_owned())?;
    let answers = answers.map_err(|error| quiet.why(&error))?;
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
