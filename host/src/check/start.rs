//! What a consumer's start needs to know of its topics: whether they are there, and R3.1.

use super::{broker, retention};
use crate::config::{Consumer, KafkaCluster};

/// What the broker says of a consumer's topics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topics {
    /// Those that are not there.
    pub missing: Vec<String>,
    /// R3.1: what is wrong with the ledger's retention.
    pub too_short: Vec<String>,
    /// Those that are there, but of which the broker does not say how long it keeps them: R3.1 is not checked.
    pub unknown: Vec<String>,
}

/// A cluster's address, for people.
#[must_use]
pub fn servers(cluster: &KafkaCluster) -> &str {
    cluster.properties.get("bootstrap.servers").map_or("", String::as_str)
}

/// A topic that is not there, for people, with the way out.
#[must_use]
pub fn no_topic(topic: &str, cluster: &KafkaCluster) -> String {
    format!("topic {topic} does not exist on {}: {CREATE_IT}", servers(cluster))
}

/// The way out where a topic is not there.
pub(super) const CREATE_IT: &str = "create it, or correct the name in `topics`; tidegate never creates topics";

/// Asks the broker. Joins no group.
///
/// # Errors
/// Why it cannot be asked.
pub async fn topics_of(cluster: &KafkaCluster, consumer: &Consumer) -> Result<Topics, String> {
    let facts = broker::topics(cluster, consumer.topics.iter().map(|topic| topic.name.clone()).collect()).await?;
    let mut topics = Topics::default();
    for (name, facts) in facts {
        match facts.kept {
            _ if facts.partitions == 0 => topics.missing.push(name),
            None if facts.embedded => {}
            None => topics.unknown.push(name),
            Some(kept) => topics.too_short.extend(retention::too_short(&name, kept, consumer.ledger)),
        }
    }
    Ok(topics)
}
