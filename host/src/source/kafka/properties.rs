//! The client's settings: the user's first, then those that safety needs, so that nobody can override them.

use std::{collections::BTreeMap, time::Duration};

use rdkafka::ClientConfig;

use crate::config::{REFRESH, REFRESH_MS};

/// What a consumer asks of its client beside the cluster's properties.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The group.
    pub group: String,
    /// Bytes that a lane's prefetch queue may hold (payload, after decompression).
    pub queue_bytes: usize,
    /// How long a revoke may take to drain.
    pub revoke_deadline: Duration,
}

/// The smallest fetch that makes sense: below it one big record would be fetched alone each time.
const LEAST_FETCH: usize = 64 << 10;

const STRATEGY: &str = "partition.assignment.strategy";

/// Settings of a consumer's client. The pinned ones come last and win.
#[must_use]
pub fn client_config(user: &BTreeMap<String, String>, options: &ClientOptions) -> ClientConfig {
    let mut config = ClientConfig::new();
    for (key, value) in user.iter().filter(|(key, _)| *key != STRATEGY) {
        config.set(key, value);
    }
    for (key, value) in pinned(options) {
        config.set(key, value);
    }
    // New partitions are noticed within half a minute instead of five, or sooner.
    let refresh = user.get(REFRESH).and_then(|ms| ms.trim().parse().ok()).unwrap_or(*REFRESH_MS.end());
    config.set(REFRESH, refresh.clamp(*REFRESH_MS.start(), *REFRESH_MS.end()).to_string());
    // The newer protocol has its assignor on the broker, and refuses this key.
    if !user.get("group.protocol").is_some_and(|protocol| protocol.eq_ignore_ascii_case("consumer")) {
        // An eager assignor cannot take single partitions back and give them again, which fencing needs.
        config.set(STRATEGY, "cooperative-sticky");
    }
    config
}

fn pinned(options: &ClientOptions) -> Vec<(&'static str, String)> {
    let queue = options.queue_bytes.max(LEAST_FETCH);
    vec![
        ("group.id", options.group.clone()),
        // Lost offsets are an operator's decision, never a jump.
        ("auto.offset.reset", "error".to_owned()),
        ("isolation.level", "read_committed".to_owned()),
        // Invariant 1: offsets are committed from receipts only.
        ("enable.auto.commit", "false".to_owned()),
        ("enable.auto.offset.store", "false".to_owned()),
        // Such an event would leave the client's position one too far (see `raw`).
        ("enable.partition.eof", "false".to_owned()),
        ("allow.auto.create.topics", "false".to_owned()),
        // A small queue would otherwise be filled only once a second.
        ("fetch.queue.backoff.ms", "10".to_owned()),
        // Invariant 11. What one fetch adds on top of the queue is at most a quarter of it.
        ("queued.max.messages.kbytes", (queue >> 10).max(1).to_string()),
        ("fetch.message.max.bytes", (queue / 4).max(LEAST_FETCH).to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(user: &[(&str, &str)]) -> ClientConfig {
        let user = user.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let options =
            ClientOptions { group: "g".into(), queue_bytes: 4 << 20, revoke_deadline: Duration::from_secs(10) };
        client_config(&user, &options)
    }

    #[test]
    fn what_safety_needs_wins_over_the_user() {
        let config = config(&[("auto.offset.reset", "latest"), ("enable.auto.commit", "true"), ("client.id", "mine")]);
        assert_eq!(config.get("auto.offset.reset"), Some("error"));
        assert_eq!(config.get("enable.auto.commit"), Some("false"));
        assert_eq!(config.get("client.id"), Some("mine"));
        assert_eq!(config.get("partition.assignment.strategy"), Some("cooperative-sticky"));
    }

    #[test]
    fn the_newer_protocol_brings_its_own_assignor() {
        let config = config(&[("group.protocol", "consumer")]);
        assert_eq!(config.get("partition.assignment.strategy"), None);
    }

    #[test]
    fn nobody_can_make_the_client_overlook_new_partitions() {
        let refresh = |value: &str| config(&[(REFRESH, value)]).get(REFRESH).map(str::to_owned);
        assert_eq!(config(&[]).get(REFRESH), Some("30000"));
        assert_eq!(refresh("2000").as_deref(), Some("2000"));
        assert_eq!(refresh("900000").as_deref(), Some("30000"));
        assert_eq!(refresh("-1").as_deref(), Some("30000"), "librdkafka's word for never");
    }

    #[test]
    fn an_eager_strategy_never_gets_through() {
        for strategy in ["range", "roundrobin", "range,roundrobin", "cooperative-sticky,range"] {
            let config = config(&[("partition.assignment.strategy", strategy)]);
            assert_eq!(config.get("partition.assignment.strategy"), Some("cooperative-sticky"));
        }
        let newer = config(&[("group.protocol", "consumer"), ("partition.assignment.strategy", "range")]);
        assert_eq!(newer.get("partition.assignment.strategy"), None, "the client would refuse to start");
    }

    #[test]
    fn the_queue_bounds_memory() {
        let config = config(&[]);
        assert_eq!(config.get("queued.max.messages.kbytes"), Some("4096"));
        assert_eq!(config.get("fetch.message.max.bytes"), Some("1048576"));
    }
}
