//! Topics and groups on the tests' Kafka, under names of their own.

use std::{
    env,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, CommitMode, Consumer},
};
use uuid::Uuid;

use crate::produce::Producer;

/// What an administrator waits for an answer; far more than a busy broker needs.
const ANSWER: Duration = Duration::from_secs(60);

/// A connection to the broker. The topics that it made are deleted at the end of the test.
pub struct Broker {
    bootstrap: String,
    admin: AdminClient<DefaultClientContext>,
    made: Mutex<Vec<String>>,
}

/// The broker of `KAFKA_BOOTSTRAP`.
///
/// # Panics
/// Where there is none, with the command that starts one.
pub fn kafka() -> Broker {
    let bootstrap = env::var("KAFKA_BOOTSTRAP").unwrap_or_else(|_| {
        panic!(
            "KAFKA_BOOTSTRAP is not set. `make test` starts Kafka and PostgreSQL for all tests; for single ones run \
             `make services` in another terminal and export what it prints"
        )
    });
    let broker = Broker::at(&bootstrap);
    let metadata = broker.reader("probe").fetch_metadata(None, ANSWER);
    assert!(metadata.is_ok(), "no Kafka answers at {bootstrap}: start one by `make services`, or run `make test`");
    broker
}

impl Broker {
    /// A connection to a broker that a test has started for itself.
    ///
    /// # Panics
    /// Where the address is none.
    #[must_use]
    pub fn at(bootstrap: &str) -> Self {
        let admin = ClientConfig::new().set("bootstrap.servers", bootstrap).create().unwrap();
        Self { bootstrap: bootstrap.to_owned(), admin, made: Mutex::default() }
    }

    /// `host:port`.
    #[must_use]
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// A new topic under a name that nobody else has; gives the name.
    ///
    /// # Panics
    /// Where the broker refuses.
    pub async fn topic(&self, partitions: i32) -> String {
        self.topic_with(partitions, &[]).await
    }

    /// [`Self::topic`], with settings such as `("cleanup.policy", "compact")`.
    ///
    /// # Panics
    /// Where the broker refuses.
    pub async fn topic_with(&self, partitions: i32, settings: &[(&str, &str)]) -> String {
        let name = format!("t-{}", Uuid::now_v7().simple());
        self.create(&name, partitions, settings).await;
        name
    }

    /// Makes a topic of this name, such as one that was deleted before.
    ///
    /// # Panics
    /// Where the broker refuses.
    pub async fn create(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        let made = self.try_create(name, partitions, settings).await;
        assert!(made.is_ok(), "creating topic {name}: {made:?}");
    }

    /// [`Self::create`], on a broker that may be starting, or not be through with a topic of that name.
    ///
    /// # Errors
    /// What the broker says against it.
    pub async fn try_create(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) -> Result<(), String> {
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        for &(key, value) in settings {
            topic = topic.set(key, value);
        }
        let made = self.admin.create_topics([&topic], &options()).await.map_err(|error| error.to_string())?;
        made.into_iter().try_for_each(|one| one.map(drop).map_err(|(_, code)| code.to_string()))?;
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push(name.to_owned());
        Ok(())
    }

    /// Deletes a topic.
    ///
    /// # Panics
    /// Where the broker refuses.
    pub async fn delete(&self, topic: &str) {
        let gone = self.try_delete(topic).await;
        assert!(gone.is_ok(), "deleting topic {topic}: {gone:?}");
    }

    /// [`Self::delete`], on a broker that may be starting.
    ///
    /// # Errors
    /// What the broker says against it.
    pub async fn try_delete(&self, topic: &str) -> Result<(), String> {
        let gone = self.admin.delete_topics(&[topic], &options()).await.map_err(|error| error.to_string())?;
        gone.into_iter().try_for_each(|one| one.map(drop).map_err(|(_, code)| code.to_string()))
    }

    /// Raises a topic's number of partitions to `total`.
    ///
    /// # Panics
    /// Where the broker refuses.
    pub async fn grow(&self, topic: &str, total: usize) {
        let grown = self.try_grow(topic, total).await;
        assert!(grown.is_ok(), "partitions of {topic}: {grown:?}");
    }

    /// [`Self::grow`], on a broker that may be starting.
    ///
    /// # Errors
    /// What the broker says against it.
    pub async fn try_grow(&self, topic: &str, total: usize) -> Result<(), String> {
        let wanted = [NewPartitions::new(topic, total)];
        let grown = self.admin.create_partitions(&wanted, &options()).await.map_err(|error| error.to_string())?;
        grown.into_iter().try_for_each(|one| one.map(drop).map_err(|(_, code)| code.to_string()))
    }

    /// Removes all records of a partition before this offset, as retention does.
    ///
    /// # Panics
    /// Where the broker refuses.
    pub async fn truncate(&self, topic: &str, partition: i32, before: i64) {
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(topic, partition, Offset::Offset(before)).unwrap();
        self.admin.delete_records(&offsets, &options()).await.unwrap();
    }

    /// Forgets an empty group with its committed offsets.
    ///
    /// # Panics
    /// Where the broker refuses, as it does while the group has members.
    pub async fn delete_group(&self, group: &str) {
        let gone = self.try_delete_group(group).await;
        assert!(gone.is_ok(), "deleting group {group}: {gone:?}");
    }

    /// [`Self::delete_group`], for a group that may not be empty yet.
    ///
    /// # Errors
    /// What the broker says against it.
    pub async fn try_delete_group(&self, group: &str) -> Result<(), String> {
        let gone = self.admin.delete_groups(&[group], &options()).await.map_err(|error| error.to_string())?;
        gone.into_iter().try_for_each(|one| one.map(drop).map_err(|(_, code)| code.to_string()))
    }

    /// What a group has committed, per partition; `None` = nothing.
    ///
    /// # Panics
    /// Where the broker does not answer.
    #[must_use]
    pub fn committed(&self, group: &str, topic: &str) -> Vec<Option<i64>> {
        let reader = self.reader(group);
        let mut asked = TopicPartitionList::new();
        asked.add_partition_range(topic, 0, self.partitions(topic) - 1);
        let answer = reader.committed_offsets(asked, ANSWER).unwrap();
        let mut offsets: Vec<_> = answer.elements().iter().map(|e| (e.partition(), e.offset().to_raw())).collect();
        offsets.sort_unstable_by_key(|&(partition, _)| partition);
        offsets.into_iter().map(|(_, offset)| offset.filter(|&offset| offset >= 0)).collect()
    }

    /// Sets a group's offset, as an operator's reset does. The group must be empty.
    ///
    /// # Panics
    /// Where the broker refuses, as it does while the group has members.
    pub fn set_committed(&self, group: &str, topic: &str, partition: i32, offset: i64) {
        self.try_set_committed(group, topic, &[(partition, offset)]).unwrap();
    }

    /// Sets a group's offsets, partition by partition, where it is empty already.
    ///
    /// # Errors
    /// What the broker says against it.
    ///
    /// # Panics
    /// Where an offset is none.
    pub fn try_set_committed(&self, group: &str, topic: &str, offsets: &[(i32, i64)]) -> Result<(), String> {
        let mut wanted = TopicPartitionList::new();
        for &(partition, offset) in offsets {
            wanted.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
        }
        self.reader(group).commit(&wanted, CommitMode::Sync).map_err(|error| error.to_string())
    }

    /// First and end offset of every partition.
    ///
    /// # Panics
    /// Where the broker does not answer.
    #[must_use]
    pub fn watermarks(&self, topic: &str) -> Vec<(i64, i64)> {
        let reader = self.reader("watermarks");
        // A broker that has just come back knows a topic before it leads its partitions.
        let ask = |partition| {
            let asked = Instant::now();
            loop {
                match reader.fetch_watermarks(topic, partition, ANSWER) {
                    Ok(found) => return found,
                    Err(error) => assert!(asked.elapsed() < ANSWER, "{topic}[{partition}]: {error}"),
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        };
        (0..self.partitions(topic)).map(ask).collect()
    }

    /// A producer with these settings on top of the defaults, such as `("compression.codec", "zstd")`.
    ///
    /// # Panics
    /// Where a setting is wrong.
    #[must_use]
    pub fn producer(&self, settings: &[(&str, &str)]) -> Producer {
        Producer::new(&self.bootstrap, settings)
    }

    /// How many partitions a topic has; 0 where it does not exist.
    ///
    /// # Panics
    /// Where the broker does not answer.
    #[must_use]
    pub fn partitions(&self, topic: &str) -> i32 {
        let metadata = self.reader("metadata").fetch_metadata(Some(topic), ANSWER).unwrap();
        metadata.topics().first().map_or(0, |topic| i32::try_from(topic.partitions().len()).unwrap_or(0))
    }

    /// A consumer that joins no group: for questions about `group` or about topics.
    fn reader(&self, group: &str) -> BaseConsumer {
        ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .create()
            .unwrap()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let made = std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner));
        if made.is_empty() || crate::database::keep() {
            return;
        }
        let bootstrap = self.bootstrap.clone();
        // A thread of its own: a destructor cannot wait inside the test's runtime. Leftovers die with the broker.
        let _ = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let broker = Self::at(&bootstrap);
            let names: Vec<&str> = made.iter().map(String::as_str).collect();
            runtime.block_on(broker.admin.delete_topics(&names, &options())).is_ok()
        })
        .join();
    }
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").field("bootstrap", &self.bootstrap).finish_non_exhaustive()
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(ANSWER)).operation_timeout(Some(ANSWER))
}
