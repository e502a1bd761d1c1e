//! A client beside the consumer's, for questions that a batch waits for.
//!
//! A broker answers one request of a connection after the other, and a fetch that finds too little waits there for
//! `fetch.wait.max.ms`. A question on the consumer's own connection stands behind it: half a second for each batch.

use std::collections::BTreeMap;

use rdkafka::{
    ClientConfig, ClientContext,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    consumer::{BaseConsumer, ConsumerContext},
    error::{KafkaError, KafkaResult},
};

/// Settings that make a client a member of a group, and those that mean something to a member only: the client holds them
/// against each other, and what fits a member need not fit one that is none.
const OF_A_MEMBER: &[&str] = &[
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
];

/// What it has to say, the consumer's own client says as well.
pub(super) struct Silent;

impl ClientContext for Silent {
    fn log(&self, _: RDKafkaLogLevel, fac: &str, message: &str) {
        tracing::debug!(target: "librdkafka", fac, "{message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", "{error}: {reason}");
    }
}

impl ConsumerContext for Silent {}

/// A client of the same cluster that is no member of any group. Nobody polls it, so no settings may be among them whose
/// tokens are refreshed in a poll (OAUTHBEARER): the configuration refuses them.
///
/// # Errors
/// For properties that the client does not take.
pub(super) fn client(user: &BTreeMap<String, String>) -> KafkaResult<BaseConsumer<Silent>> {
    BaseConsumer::from_config_and_context(&config(user), Silent)
}

/// The user's settings without those that make a member.
pub(crate) fn config(user: &BTreeMap<String, String>) -> ClientConfig {
    let mut config = ClientConfig::new();
    for (key, value) in user.iter().filter(|(key, _)| !OF_A_MEMBER.contains(&key.as_str())) {
        config.set(key, value);
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn it_reaches_the_same_cluster_and_joins_nothing() {
        let user = user(&[
            ("bootstrap.servers", "localhost:1"),
            ("group.instance.id", "a"),
            ("group.protocol", "consumer"),
            // Below the classic protocol's session time-out, which does not apply.
            ("max.poll.interval.ms", "4000"),
        ]);
        let config = config(&user);
        assert_eq!(config.get("bootstrap.servers"), Some("localhost:1"));
        assert!(OF_A_MEMBER.iter().all(|key| config.get(key).is_none()));
        assert!(client(&user).is_ok());
    }
}
