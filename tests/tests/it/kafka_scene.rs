//! The scene of the tests of the Kafka source: the application in this process, with a plugin of closures, on a real
//! broker and a real PostgreSQL or SQLite.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tidegate::{
    app::App,
    config::{
        self, BatchLimits, Config, Consumer, DEFAULT_QUEUE_BYTES, HealthBounds, Http, KafkaCluster, Ledger, Log,
        Payload, Plugin, Plugins, Secret, Start, Tombstones, Topic,
    },
    identity::ConsumerName,
    store,
};
use tidegate_tests::{
    Broker, Database, Message, Sql,
    host::{CLASSIC, Protocol},
    kafka, oracle, postgres, wait,
};

use crate::accounts;

/// What a test says of a consumer.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) name: &'static str,
    /// The Kafka group; one of its own per scene and name unless said otherwise.
    pub(crate) group: Option<String>,
    pub(crate) topics: Vec<String>,
    pub(crate) lanes: usize,
    pub(crate) start: Start,
    pub(crate) max_records: usize,
}

pub(crate) struct Scene<D = Database> {
    pub(crate) broker: Broker,
    pub(crate) database: D,
    pub(crate) topic: String,
    pub(crate) partitions: i32,
    pub(crate) properties: BTreeMap<String, String>,
}

impl Scene {
    /// A topic, and an empty PostgreSQL database with tidegate's tables.
    pub(crate) async fn new(partitions: i32) -> Self {
        Self::on(postgres().await, partitions).await
    }
}

impl<D: Sql> Scene<D> {
    /// A topic, and tidegate's tables in this database.
    pub(crate) async fn on(database: D, partitions: i32) -> Self {
        let broker = kafka();
        let topic = broker.topic(partitions).await;
        let properties = [
            ("bootstrap.servers", broker.bootstrap()),
            ("session.timeout.ms", "6000"),
            ("heartbeat.interval.ms", "300"),
        ];
        let properties = properties.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let scene = Self { broker, database, topic, partitions, properties };
        assert_eq!(store::open(&scene.store()).unwrap().migrate().await.unwrap().refusal(), None);
        scene
    }

    /// The same with members of this protocol. Under the newer one the broker has the time-outs.
    pub(crate) fn under(mut self, protocol: Protocol) -> Self {
        if protocol == Protocol::Consumer {
            self.properties.retain(|key, _| !CLASSIC.contains(&key.as_str()));
        }
        self.with("group.protocol", protocol.name())
    }

    /// The same with another of librdkafka's settings.
    pub(crate) fn with(mut self, key: &str, value: &str) -> Self {
        self.properties.insert(key.to_owned(), value.to_owned());
        self
    }

    fn store(&self) -> config::Database {
        config::Database::new(Secret::new(self.database.url()), self.database.dialect())
    }

    /// A consumer of the scene's topic. Its tables are made where they are not there yet.
    pub(crate) async fn consumer(&self, name: &'static str) -> Wanted {
        self.database.execute(&accounts::tables(self.database.dialect(), &format!("{name}_"))).await;
        Wanted {
            name,
            group: None,
            topics: vec![self.topic.clone()],
            lanes: 1,
            start: Start::Earliest,
            max_records: 500,
        }
    }

    /// Runs these consumers in one application.
    pub(crate) fn start(&self, consumers: &[Wanted]) -> App {
        self.start_ruled(consumers, accounts::plugin(), vec![])
    }

    /// Runs them with this plugin, and these words of an operator.
    pub(crate) fn start_ruled(
        &self,
        consumers: &[Wanted],
        plugin: Arc<dyn tidegate::plugin::Plugin>,
        accepted: Vec<tidegate::key_gate::Acceptance>,
    ) -> App {
        App::start_with(self.config(consumers), Arc::new(move |_: &Consumer| Ok(Arc::clone(&plugin))), accepted)
            .unwrap()
    }

    /// Their configuration.
    pub(crate) fn config(&self, consumers: &[Wanted]) -> Config {
        Config {
            file: None,
            files: config::Files::default(),
            linked: BTreeMap::new(),
            databases: BTreeMap::from([("main".to_owned(), self.store())]),
            kafka: BTreeMap::from([("main".to_owned(), KafkaCluster { properties: self.properties.clone() })]),
            http: Http { listen: None, token: None, tls: None },
            log: Log { json: false, filter: "warn".to_owned() },
            health: HealthBounds::default(),
            plugins: Plugins { watch: false, ..Plugins::default() },
            consumers: consumers.iter().map(|wanted| self.settings(wanted)).collect(),
        }
    }

    fn settings(&self, wanted: &Wanted) -> Consumer {
        Consumer {
            name: ConsumerName::new(wanted.name).unwrap(),
            group: wanted.group.clone().unwrap_or_else(|| format!("{}-{}", wanted.name, self.topic)),
            database: "main".to_owned(),
            kafka: "main".to_owned(),
            topics: wanted.topics.iter().map(|name| Topic { name: name.clone(), source: "default".into() }).collect(),
            start: wanted.start,
            lanes: wanted.lanes,
            batch: BatchLimits { max_records: wanted.max_records, ..BatchLimits::default() },
            ledger: Ledger::default(),
            payload: Payload::Text,
            tombstones: Tombstones::Skip,
            queue_bytes: DEFAULT_QUEUE_BYTES,
            revoke_deadline: Duration::from_secs(3),
            key_samples: true,
            shadow: None,
            plugin: Plugin::at("closures"),
            targets: accounts::targets(&format!("{}_", wanted.name)),
        }
    }

    /// Produces texts to a partition of the scene's topic.
    pub(crate) fn produce(&self, partition: i32, texts: impl IntoIterator<Item = String>) {
        let messages = texts.into_iter().map(|text| Message::new(text).to(partition));
        self.broker.producer(&[]).send(&self.topic, messages);
    }

    /// Waits until the consumer covers the topic to its end.
    pub(crate) async fn consumed(&self, app: &App, consumer: &str) {
        let ends: Vec<i64> = self.broker.watermarks(&self.topic).into_iter().map(|(_, end)| end).collect();
        let stopped =
            || app.report().into_iter().find(|report| report.consumer == consumer && report.phase == "stopped");
        let probe = async || (oracle::positions(&self.database, consumer, &self.topic, ends.len()).await, stopped());
        let at_end = |at: &[i64]| at.iter().zip(&ends).all(|(at, end)| at >= end);
        let what = format!("{consumer} has consumed {} up to {ends:?}", self.topic);
        let (at, stopped) = wait::until(&what, probe, |(at, stopped)| at_end(at) || stopped.is_some()).await;
        assert!(at_end(&at), "{stopped:?}");
    }

    /// The sum of all balances: what an input adds twice, or not at all, shows here.
    pub(crate) async fn sum(&self, consumer: &str) -> i64 {
        self.database.number(&format!("SELECT sum(total) FROM {consumer}_balances")).await
    }

    /// What must hold for every consumer after everything: the chain tiles and no key of a target has two rows.
    pub(crate) async fn proofs(&self, consumer: &str) {
        oracle::assert_chain_tiles(&self.database, consumer).await;
        for table in ["balances", "latest"] {
            let table = format!("{consumer}_{table}");
            assert_eq!(oracle::target_duplicates(&self.database, &table, "account").await, 0);
        }
    }
}

/// Waits until some reason for not being ready says this.
pub(crate) async fn until_reason(app: &App, part: &str) {
    let says = async || app.health().reasons().iter().any(|reason| reason.text.contains(part));
    wait::until_true(&format!("a reason says {part:?}"), says).await;
}

/// Waits until nothing keeps the application from being ready.
pub(crate) async fn until_ready(app: &App) {
    wait::until("the application is ready", async || app.health().reasons(), Vec::is_empty).await;
}

/// Each case on a scene with this many partitions, on each database.
macro_rules! on_both_databases {
    ($($case:ident: $partitions:literal),+ $(,)?) => {
        mod on_postgres {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    let database = tidegate_tests::postgres().await;
                    super::$case(crate::kafka_scene::Scene::on(database, $partitions).await).await;
                }
            )+
        }

        mod on_sqlite {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    let database = tidegate_tests::sqlite();
                    super::$case(crate::kafka_scene::Scene::on(database, $partitions).await).await;
                }
            )+
        }
    };
}
pub(crate) use on_both_databases;

/// How many steps of rebalances a consumer has seen, of this kind or, without one, of any.
pub(crate) fn steps(app: &App, consumer: &str, kind: Option<&str>) -> u64 {
    let name = format!("tidegate_rebalances_total{{consumer=\"{consumer}\",");
    let text = app.metrics().text();
    let lines = text.lines().filter_map(|line| line.strip_prefix(&name)?.split_once("} "));
    lines
        .filter(|(label, _)| kind.is_none_or(|kind| *label == format!("kind=\"{kind}\"")))
        .map(|(_, n)| n.parse::<u64>().unwrap())
        .sum()
}

/// A test under both protocols of a Kafka group.
macro_rules! under_both_protocols {
    ($($test:ident),* $(,)?) => {
        mod classic {
            $(#[tokio::test(flavor = "multi_thread")] async fn $test() { super::$test(tidegate_tests::host::Protocol::Classic).await; })*
        }
        mod newer {
            $(#[tokio::test(flavor = "multi_thread")] async fn $test() { super::$test(tidegate_tests::host::Protocol::Consumer).await; })*
        }
    };
}
pub(crate) use under_both_protocols;
