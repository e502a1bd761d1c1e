//! Any sequence of inputs with any repeats, any interleaving of partitions, any batch split, any trouble with the
//! database and any crash end in the rows of the naive model (the whole path, with the source in memory, a plugin of
//! closures and SQLite).

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex, atomic::AtomicUsize},
    time::Duration,
};

use proptest::prelude::*;
use sqlx::{Connection as _, Row, SqliteConnection};
use tidegate::{
    config::{self, BatchLimits, Database, Dialect, Payload, PluginLimits, Secret, Start, Tombstones},
    health::ConsumerHealth,
    identity::ConsumerName,
    merge::{Operation, TableName, Target, model::Model, resolve, type_change},
    metrics::Metrics,
    outcome::{Change, POISON_PER_BATCH},
    pipeline::{Consumer, Parts, Rules},
    plugin::{ComputePool, EvaluateContext},
    source::{
        PartitionName, Source,
        memory::{MemoryBroker, MemorySource},
    },
    store::{self, Applier, Policy, Registration, Store},
};

use crate::{
    accounts,
    faulty::{Fault, Faults, FaultyStore},
};

const CONSUMER: &str = "c";
const TOPIC: &str = "events";

/// What is produced: an event of one of a few ids, or something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Event(u8),
    Skip,
    Broken,
    /// A value that does not fit its column.
    Misfit(u8),
    Tombstone,
    /// An offset without a record.
    Gap,
}

/// One life of the consumer, ended by a crash.
#[derive(Clone, Debug)]
struct Life {
    /// Which partitions this life has; two members may have the same one.
    members: Vec<Vec<i32>>,
    max_records: usize,
    /// By the number of the database operation.
    faults: Vec<(usize, Fault)>,
    /// Whether offset commits get lost.
    deaf: bool,
}

#[derive(Clone, Debug)]
struct Story {
    partitions: i32,
    inputs: Vec<(i32, Input)>,
    /// How many of the inputs are there when each life begins.
    lives: Vec<(usize, Life)>,
    last_max_records: usize,
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        12 => (0u8..10).prop_map(Input::Event),
        1 => Just(Input::Skip),
        1 => Just(Input::Broken),
        1 => (0u8..3).prop_map(Input::Misfit),
        1 => Just(Input::Tombstone),
        1 => Just(Input::Gap),
    ]
}

fn life(partitions: i32) -> impl Strategy<Value = Life> {
    let fault = prop_oneof![
        Just(Fault::CrashBefore),
        Just(Fault::CrashAfter),
        Just(Fault::LoseBefore),
        Just(Fault::LoseAfter),
    ];
    let member = proptest::collection::btree_set(0..partitions, 1..=usize::try_from(partitions).unwrap());
    let members = proptest::collection::vec(member, 1..=2);
    (members, 1usize..6, proptest::collection::vec((0usize..60, fault), 0..4), any::<bool>()).prop_map(
        |(members, max_records, faults, deaf)| Life {
            members: members.into_iter().map(|member| member.into_iter().collect()).collect(),
            max_records,
            faults,
            deaf,
        },
    )
}

fn story() -> impl Strategy<Value = Story> {
    (1i32..=3).prop_flat_map(|partitions| {
        let inputs = proptest::collection::vec((0..partitions, input()), 1..40);
        let lives = proptest::collection::vec((0usize..=100, life(partitions)), 0..3);
        (inputs, lives, 1usize..8).prop_map(move |(inputs, lives, last_max_records)| {
            let share = |percent: usize| inputs.len() * percent / 100;
            let lives = lives.into_iter().map(|(percent, life)| (share(percent), life)).collect();
            Story { partitions, inputs, lives, last_max_records }
        })
    })
}

fn name(partition: i32) -> PartitionName {
    PartitionName { topic: TOPIC.into(), partition }
}

/// Ids and what belongs to them are a function of the number.
fn text(input: Input) -> String {
    match input {
        Input::Event(n) => accounts::event(format!("e{n}"), &format!("a{}", n % 3), i64::from(n) + 1, n.into()),
        Input::Misfit(number) => format!("m{number}|a0|too much|1"),
        Input::Skip => "skip".to_owned(),
        Input::Broken => "broken".to_owned(),
        Input::Tombstone | Input::Gap => String::new(),
    }
}

fn produce(broker: &MemoryBroker, partition: i32, input: Input) {
    match input {
        Input::Gap => broker.produce_gap(&name(partition), 1),
        Input::Tombstone => drop(broker.produce(&name(partition), None, None)),
        _ => drop(broker.produce(&name(partition), None, Some(text(input).as_bytes()))),
    }
}

/// A database in a folder of its own, with schema, tables and consumer.
pub(crate) struct Scene {
    _folder: tempfile::TempDir,
    url: String,
    store: Arc<dyn Store>,
    targets: Arc<[Target]>,
    broker: Arc<MemoryBroker>,
    pool: Arc<ComputePool>,
}

fn registration() -> Registration {
    Registration {
        name: consumer(),
        group: CONSUMER.to_owned(),
        key_version: accounts::plugin().description().key_version,
        declared: accounts::plugin().description().key_version,
        plugin_digest: accounts::plugin().digest(),
        started_from: serde_json::json!({}),
    }
}

/// What a configuration would say.
fn settings() -> Arc<config::Consumer> {
    let text = format!(
        "[database.main]\nurl = \"sqlite://t.db\"\n[kafka.main]\n\"bootstrap.servers\" = \"h:1\"\n[[consumer]]\n\
         name = \"{CONSUMER}\"\ntopics = [\"{TOPIC}\"]\nplugin = {{ path = \"p.wasm\" }}\n[[consumer.target]]\n\
         name = \"balances\"\ntable = \"balances\"\ncolumns = [\"account\", \"total\"]\nkey = [\"account\"]\n"
    );
    let loaded = config::parse(&text, Path::new("t.toml"), &|_| None).unwrap();
    Arc::new(loaded.config.consumers[0].clone())
}

impl Scene {
    pub(crate) async fn new(partitions: i32, pool: Arc<ComputePool>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("t.db").display());
        let database = Database::new(Secret::new(url.clone()), Dialect::Sqlite);
        let store = store::open(&database).unwrap();
        assert_eq!(store.migrate().await.unwrap().refusal(), None);
        let mut connection = SqliteConnection::connect(&url).await.unwrap();
        let tables = sqlx::AssertSqlSafe(accounts::tables(Dialect::Sqlite, ""));
        sqlx::raw_sql(tables).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        let mut targets = Vec::new();
        for spec in accounts::targets("") {
            targets.push(resolve(&spec, &store.table_info(&spec.table).await.unwrap()).unwrap());
        }
        store.register_consumer(&registration()).await.unwrap();
        let broker = MemoryBroker::new();
        broker.create_topic(TOPIC, usize::try_from(partitions).unwrap());
        Self { _folder: folder, url, store, targets: targets.into(), broker, pool }
    }

    fn start(&self, member: usize, max_records: usize, store: Arc<dyn Store>) -> Consumer {
        self.start_with(member, max_records, store, |source| source)
    }

    /// A member whose source is wrapped up.
    pub(crate) fn start_on(
        &self,
        member: usize,
        max_records: usize,
        wrap: impl FnOnce(Arc<dyn Source>) -> Arc<dyn Source>,
    ) -> Consumer {
        self.start_with(member, max_records, Arc::clone(&self.store), wrap)
    }

    fn start_with(
        &self,
        member: usize,
        max_records: usize,
        store: Arc<dyn Store>,
        wrap: impl FnOnce(Arc<dyn Source>) -> Arc<dyn Source>,
    ) -> Consumer {
        let parts = Parts {
            config_file: None,
            name: consumer(),
            start: Start::Earliest,
            lanes: 1,
            limits: BatchLimits { max_records, linger: Duration::ZERO, ..BatchLimits::default() },
            drain_deadline: Duration::from_secs(60),
            store,
            rules: Rules {
                applier: Applier::new(consumer(), Arc::clone(&self.targets), Policy::default()),
                plugin: accounts::plugin(),
                context: EvaluateContext {
                    payload: Payload::Text,
                    tombstones: Tombstones::Skip,
                    sources: [].into(),
                    targets: accounts::targets("").into(),
                    limits: PluginLimits::default(),
                    max_broken: usize::from(POISON_PER_BATCH),
                },
                key_version: registration().key_version,
                settings: settings(),
                registration: registration(),
            },
            key_samples: true,
            samples_known: 0,
            shadow: Arc::default(),
            pool: Arc::clone(&self.pool),
            paused: tokio::sync::watch::channel(false).1,
            health: ConsumerHealth::new(consumer(), 1),
            metrics: Metrics::new().consumer(&consumer()),
        };
        let broker = Arc::clone(&self.broker);
        Consumer::start(parts, |starts| -> Result<_, std::io::Error> {
            let source = MemorySource::new(&broker, CONSUMER, member, 1, Duration::from_secs(60), starts);
            Ok(wrap(Arc::new(source)))
        })
        .unwrap()
    }

    /// Publishes.
    pub(crate) fn produce(&self, partition: i32, input: Input) {
        produce(&self.broker, partition, input);
    }

    /// Gives a member every partition.
    pub(crate) fn assign(&self, member: usize) {
        self.broker.assign(CONSUMER, member, self.broker.names(TOPIC));
    }

    /// Waits until this member has consumed everything.
    pub(crate) async fn until_caught_up(&self, consumer: &Consumer) {
        until_caught_up([consumer]).await;
    }

    /// What was applied.
    pub(crate) async fn ids(&self) -> BTreeSet<String> {
        let rows = self.rows("SELECT message_id FROM processed_messages").await;
        rows.into_iter().flatten().collect()
    }

    /// The sum of all balances.
    pub(crate) async fn sum(&self) -> i64 {
        let rows = self.rows("SELECT CAST(sum(total) AS text) FROM balances").await;
        rows[0][0].parse().unwrap()
    }

    /// A life that ends in a crash, or once nothing more comes.
    async fn live(&self, life: &Life) {
        self.broker.deaf_to_commits(life.deaf);
        let faults = Arc::new(Faults {
            at: life.faults.iter().copied().collect(),
            count: AtomicUsize::new(0),
            crashed: tokio::sync::Notify::new(),
        });
        let mut consumers = Vec::new();
        for (member, partitions) in life.members.iter().enumerate() {
            self.broker.assign(CONSUMER, member, partitions.iter().map(|partition| name(*partition)));
            let store = Arc::new(FaultyStore { inner: Arc::clone(&self.store), faults: Arc::clone(&faults) });
            consumers.push(self.start(member, life.max_records, store));
        }
        tokio::select! {
            () = faults.crashed.notified() => {}
            () = until_caught_up(consumers.iter()) => {}
        }
        // As a killed process: nothing is drained, committed or given back.
        drop(consumers);
        for member in 0..life.members.len() {
            self.broker.assign(CONSUMER, member, []);
        }
        self.broker.deaf_to_commits(false);
    }

    pub(crate) async fn finish(&self, max_records: usize) {
        self.broker.assign(CONSUMER, 9, self.broker.names(TOPIC));
        let consumer = self.start(9, max_records, Arc::clone(&self.store));
        until_caught_up([&consumer]).await;
        consumer.drain().await;
        assert_eq!(consumer.health().stop_reason(), None);
    }

    async fn rows(&self, query: &'static str) -> Vec<Vec<String>> {
        let mut connection = SqliteConnection::connect(&self.url).await.unwrap();
        let rows = sqlx::query(query).fetch_all(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        rows.iter().map(|row| (0..row.len()).map(|column| row.get::<String, _>(column)).collect()).collect()
    }
}

fn consumer() -> ConsumerName {
    ConsumerName::new(CONSUMER).unwrap()
}

async fn until_caught_up(consumers: impl IntoIterator<Item = &Consumer>) {
    let consumers: Vec<_> = consumers.into_iter().collect();
    let seen = Mutex::new(0);
    tidegate_tests::wait::until_true("everything is consumed", async || {
        // A member that is told of its partitions only at its next poll is not caught up yet, whatever it says: twice in
        // a row is needed, with polls in between.
        let caught_up = consumers.iter().all(|c| c.caught_up() && c.health().partitions().0 > 0);
        let mut seen = seen.lock().unwrap();
        *seen = if caught_up { *seen + 1 } else { 0 };
        *seen >= 2
    })
    .await;
}

/// The naive model: every id once, in the order of production.
fn model(story: &Story, targets: &[Target]) -> (BTreeMap<&'static str, Vec<Vec<String>>>, BTreeSet<String>) {
    let mut model = Model::default();
    let mut ids = BTreeSet::new();
    for (_, input) in &story.inputs {
        let Input::Event(number) = input else { continue };
        if !ids.insert(format!("e{number}")) {
            continue;
        }
        for (target, values) in accounts::values(&text(*input)).into_iter().enumerate() {
            let change = Change { target, operation: Operation::Upsert, values };
            model.apply(&targets[target], &type_change(&targets[target], target, 0, change).unwrap());
        }
    }
    let mut tables = BTreeMap::new();
    for (table, columns) in [("balances", &["account", "total"][..]), ("latest", &["account", "version", "note"])] {
        let named = TableName { schema: None, name: table.to_owned() };
        let found = model.tables.iter().find(|(name, _)| name.name == named.name).map(|(_, rows)| rows);
        let cell = |cell: &tidegate::merge::Cell| match cell {
            tidegate::merge::Cell::Int(number) => number.to_string(),
            tidegate::merge::Cell::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        };
        let rows = found.into_iter().flatten();
        tables.insert(table, rows.map(|(_, row)| columns.iter().map(|&c| cell(&row[c])).collect()).collect());
    }
    (tables, ids)
}

async fn holds(story: Story, pool: Arc<ComputePool>) {
    let scene = Scene::new(story.partitions, pool).await;
    let mut there = 0;
    let produce_to = |there: &mut usize, to: usize| {
        for (partition, input) in &story.inputs[(*there).min(to)..to] {
            produce(&scene.broker, *partition, *input);
        }
        *there = to.max(*there);
    };
    for (share, life) in &story.lives {
        let to = (*share).max(there);
        produce_to(&mut there, to);
        scene.live(life).await;
    }
    produce_to(&mut there, story.inputs.len());
    scene.finish(story.last_max_records).await;

    let (tables, ids) = model(&story, &scene.targets);
    let query = "SELECT account, CAST(total AS TEXT) FROM balances ORDER BY account";
    assert_eq!(scene.rows(query).await, tables["balances"], "each id was added once");
    let query = "SELECT account, CAST(version AS TEXT), note FROM latest ORDER BY account";
    assert_eq!(scene.rows(query).await, tables["latest"], "the newest version of each account");
    let ledger = scene.rows("SELECT message_id FROM processed_messages ORDER BY message_id").await.concat();
    assert_eq!(ledger.into_iter().collect::<BTreeSet<_>>(), ids);

    // The chain tiles, its counts add up, and it reaches every end.
    assert_eq!(scene.store.chain_faults(&consumer()).await.unwrap(), []);
    let status = scene.store.status(Some(&consumer())).await.unwrap().remove(0);
    for partition in 0..story.partitions {
        let end = story.inputs.iter().filter(|(of, _)| *of == partition).count();
        let tip = status.partitions.iter().find(|status| status.partition.partition == partition).unwrap();
        assert_eq!(tip.tip.next_offset, i64::try_from(end).unwrap());
        // Invariant 1: never ahead. (Behind it may be: commits get lost, and a life that reads nothing commits nothing.)
        assert!(scene.broker.committed(CONSUMER, &name(partition)) <= Some(tip.tip.next_offset));
    }
    let totals = status.totals();
    assert_eq!(totals.applied, u64::try_from(ids.len()).unwrap());
    let records = story.inputs.iter().filter(|(_, input)| *input != Input::Gap).count();
    assert!(totals.consumed() >= u64::try_from(records).unwrap(), "every record was covered: {totals:?}");

    // Every broken input stands in the dead letters once, wherever it was seen.
    let dead = story.inputs.iter().filter(|(_, input)| matches!(input, Input::Broken | Input::Misfit(_))).count();
    assert_eq!(status.dead_letters.values().sum::<u64>(), u64::try_from(dead).unwrap());
}

#[test]
fn any_story_ends_in_the_rows_of_the_model() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let pool = Arc::new(ComputePool::new(2, 4).unwrap());
    let config =
        ProptestConfig { cases: 60, max_shrink_iters: 40, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(story in story())| {
        runtime.block_on(holds(story, Arc::clone(&pool)));
    });
}
