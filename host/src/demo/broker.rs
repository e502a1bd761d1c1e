//! The Kafka that the demo talks to: librdkafka's mock cluster in this process (the real protocol, on a loopback port),
//! or a real one.

use std::{collections::BTreeMap, time::Duration};

use rdkafka::{
    ClientConfig, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    bindings::{rd_kafka_handle_mock_cluster, rd_kafka_mock_group_initial_rebalance_delay_ms},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer},
    error::KafkaError,
    producer::{BaseProducer, DefaultProducerContext, Producer},
};

use super::{error::DemoError, story::Feed};

/// Per topic. The mock keeps 5 MiB of each, so more partitions are more room between producer and consumers.
pub(super) const PARTITIONS: i32 = 6;
const PATIENCE: Duration = Duration::from_secs(10);

/// The broker, the demo's topics on it, and a client that asks for their watermarks.
pub(super) struct Broker {
    servers: String,
    topics: BTreeMap<Feed, String>,
    watcher: BaseConsumer,
    /// The mock cluster lives as long as the client that owns it. Dropped last.
    mock: Option<BaseProducer>,
}

impl Broker {
    /// An embedded broker with fresh topics.
    pub(super) fn embedded() -> Result<Self, DemoError> {
        let fail = |what, message: String| DemoError::Broker { servers: "the embedded broker".into(), what, message };
        let owner: BaseProducer =
            ClientConfig::new().set("test.mock.num.brokers", "1").create().map_err(|e| fail("start", e.to_string()))?;
        let mock = owner.client().mock_cluster().ok_or_else(|| fail("start", "no mock cluster".into()))?;
        let topics: BTreeMap<Feed, String> = Feed::ALL.iter().map(|f| (*f, f.topic().to_owned())).collect();
        for topic in topics.values() {
            mock.create_topic(topic, PARTITIONS, 1).map_err(|e| fail("create topic", e.to_string()))?;
        }
        let servers = mock.bootstrap_servers();
        drop(mock);
        join_at_once(&owner);
        Ok(Self { watcher: watcher(&servers)?, servers, topics, mock: Some(owner) })
    }

    /// A real broker, on which new topics are made: `tidegate.demo.RUN.order.events` and so on.
    pub(super) async fn real(servers: &str, run: &str) -> Result<Self, DemoError> {
        let fail = |what, message: String| DemoError::Broker { servers: servers.into(), what, message };
        let topics: BTreeMap<Feed, String> =
            Feed::ALL.iter().map(|f| (*f, format!("tidegate.demo.{run}.{}", f.topic()))).collect();
        let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
            .set("bootstrap.servers", servers)
            .create()
            .map_err(|e| fail("connect", e.to_string()))?;
        // -1: as many replicas as the cluster makes by default.
        let new: Vec<_> = topics.values().map(|t| NewTopic::new(t, PARTITIONS, TopicReplication::Fixed(-1))).collect();
        let options = AdminOptions::new().request_timeout(Some(PATIENCE)).operation_timeout(Some(PATIENCE));
        let made = admin.create_topics(&new, &options).await.map_err(|e| {
            fail("create topics", format!("{e}; is a broker there, and may this host reach it without TLS and SASL?"))
        })?;
        for result in made {
            result.map_err(|(topic, code)| fail("create topic", format!("{topic}: {code}")))?;
        }
        Ok(Self { watcher: watcher(servers)?, servers: servers.into(), topics, mock: None })
    }

    /// `bootstrap.servers`.
    pub(super) fn servers(&self) -> &str {
        &self.servers
    }

    /// The topic's name on this broker.
    pub(super) fn topic(&self, feed: Feed) -> &str {
        &self.topics[&feed]
    }

    /// Whether it ends with this process.
    pub(super) fn is_embedded(&self) -> bool {
        self.mock.is_some()
    }

    /// What the broker says is in each partition of this topic: (first offset kept, next offset). Blocks for about a
    /// millisecond a partition: not for an async worker.
    pub(super) fn watermarks(&self, feed: Feed) -> Result<Vec<(i64, i64)>, DemoError> {
        (0..PARTITIONS)
            .map(|partition| self.watcher.fetch_watermarks(self.topic(feed), partition, PATIENCE))
            .collect::<Result<_, _>>()
            .map_err(|e| DemoError::Broker {
                servers: self.servers.clone(),
                what: "ask for watermarks",
                message: e.to_string(),
            })
    }

    /// What a group has committed in a topic, summed over its partitions; nothing committed counts as 0. Blocks.
    pub(super) fn committed(&self, group: &str, feed: Feed) -> Result<i64, DemoError> {
        let failed = |e: KafkaError| DemoError::Broker {
            servers: self.servers.clone(),
            what: "ask for committed offsets",
            message: e.to_string(),
        };
        // A client that only asks: it never subscribes, so it is no member of the group.
        let member: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.servers)
            .set("group.id", group)
            .create()
            .map_err(failed)?;
        let mut partitions = TopicPartitionList::new();
        partitions.add_partition_range(self.topic(feed), 0, PARTITIONS - 1);
        let committed = member.committed_offsets(partitions, PATIENCE).map_err(failed)?;
        Ok(committed.elements().iter().filter_map(|e| e.offset().to_raw()).filter(|o| *o > 0).sum())
    }
}

fn watcher(servers: &str) -> Result<BaseConsumer, DemoError> {
    ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("group.id", "tidegate-demo-watch")
        .create()
        .map_err(|e| DemoError::Broker { servers: servers.into(), what: "connect", message: e.to_string() })
}

/// The mock makes the first members of a group wait 3 seconds for others; nobody else will come.
#[allow(unsafe_code, reason = "the safe wrapper has no call for it")]
fn join_at_once(owner: &BaseProducer<DefaultProducerContext>) {
    // SAFETY: the handle belongs to `owner`, which is alive; the mock cluster is the handle's own, or null.
    unsafe {
        let mock = rd_kafka_handle_mock_cluster(owner.client().native_ptr());
        if !mock.is_null() {
            rd_kafka_mock_group_initial_rebalance_delay_ms(mock, 0);
        }
    }
}
