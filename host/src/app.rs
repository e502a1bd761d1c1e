//! The application: a validated configuration becomes consumers that run, each failing alone. The binary, the demo and
//! the tests only start it, look at it and drain it.

mod control;

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

pub use control::{Control, Disobeyed, Order};
use control::{Stage, Steering};
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    check::{self, danger::Danger},
    class::Class,
    config::{self, KafkaCluster},
    health::{ConsumerHealth, ConsumerReport, Health},
    identity::ConsumerName,
    merge::{self, Target},
    metrics::{ConsumerMetrics, Metrics},
    outage::Outages,
    pipeline::{Consumer, Parts},
    plugin::{ComputePool, Description, EvaluateContext, Plugin, PluginError, Runtime},
    source::{
        PartitionName, Source, SourceError,
        kafka::{ClientOptions, KafkaSource},
    },
    store::{self, Applier, Policy, Registration, Statement, Store, StoreError},
};

/// The longest pause between two tries to start a consumer.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How a consumer gets its plugin. Blocks while it compiles.
pub type PluginLoader = dyn Fn(&config::Consumer) -> Result<Arc<dyn Plugin>, PluginError> + Send + Sync;

/// Why the application, or one consumer of it, does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration names a database or cluster that it does not have.
    #[error("consumer {consumer}: there is no [{table}.{name}]")]
    NoSuch {
        /// Whose.
        consumer: ConsumerName,
        /// database or kafka.
        table: &'static str,
        /// The name.
        name: String,
    },
    /// The database; with the way out where it refuses what `url` asks for.
    #[error("{}", database_words(.0))]
    Store(#[from] StoreError),
    /// The schema, or the consumer's row, is not what this binary or plugin needs.
    #[error("database {place}: {refusal}")]
    Refused {
        /// Where.
        place: String,
        /// What is wrong and what to do.
        refusal: String,
    },
    /// The ledger forgets what the topics may deliver again.
    #[error("error[{}]: {}", Danger::RetentionTooShort.code(), .0.join("; "))]
    Retention(Vec<String>),
    /// Targets that the catalog does not bear out.
    #[error("{}", .0.join("; "))]
    Targets(Vec<String>),
    /// The database role may not do what the consumer needs; what to issue.
    #[error("database {place}: this role may not do what the consumer needs; have its owner issue: {} (docs/database-roles.md)", .grants.join("; "))]
    Rights {
        /// Where.
        place: String,
        /// The statements.
        grants: Vec<String>,
    },
    /// The broker cannot be asked about the consumer's topics.
    #[error("Kafka {servers} does not answer, asking again until it does: {why}")]
    Away {
        /// Where.
        servers: String,
        /// In the client's words.
        why: String,
    },
    /// None of the consumer's topics is there; each with the way out.
    #[error("{}", .0.join("; "))]
    NoTopic(Vec<String>),
    /// The plugin.
    #[error("{0}")]
    Plugin(#[from] PluginError),
    /// The source.
    #[error("{0}")]
    Source(#[from] SourceError),
    /// The system gives no thread.
    #[error("start a thread: {0}")]
    Thread(#[from] io::Error),
}

fn database_words(error: &StoreError) -> String {
    match error.refused() {
        Some((what, way_out)) => format!("{what}: {error}; {way_out}"),
        None => error.to_string(),
    }
}

impl StartError {
    /// Transient: try again.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Store(error) => error.class(),
            Self::Plugin(error) => error.class(),
            Self::Source(error) => error.class(),
            Self::Away { .. } | Self::NoTopic(_) => Class::Transient,
            Self::NoSuch { .. }
            | Self::Refused { .. }
            | Self::Rights { .. }
            | Self::Targets(_)
            | Self::Retention(_)
            | Self::Thread(_) => Class::Fatal,
        }
    }

    /// Who has to put right what does not pass by itself.
    #[must_use]
    pub fn fault(&self) -> Fault {
        let configuration = match self {
            Self::Store(error) => error.refused().is_some() || error.statement == Statement::Catalog,
            Self::Plugin(error) => !matches!(error, PluginError::Host { .. }),
            Self::Thread(_) | Self::Away { .. } => false,
            _ => true,
        };
        if configuration { Fault::Configuration } else { Fault::Environment }
    }

    /// What tells one trouble from another, whatever words it comes in.
    fn trouble(&self) -> String {
        match self {
            Self::Away { servers, .. } => servers.clone(),
            other => other.to_string(),
        }
    }
}

/// Why a consumer ended that nobody told to. The worst is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It did not start: configuration, plugin, or what the database has of tables and schema.
    Configuration,
    /// It did not start: the machine, the database.
    Environment,
    /// It ran.
    Running,
}

/// Consumers that run. Dropped without [`drain`](App::drain) they stop as in a crash.
pub struct App {
    slots: Vec<Slot>,
    control: Control,
    health: Health,
    metrics: Arc<Metrics>,
    drain: watch::Sender<bool>,
}

/// One consumer's place: its state, and itself once it runs.
struct Slot {
    consumer: Arc<Mutex<Option<Arc<Consumer>>>>,
    fault: Arc<Mutex<Option<Fault>>>,
    stage: watch::Receiver<Stage>,
    task: JoinHandle<()>,
}

impl App {
    /// Starts every consumer with its WebAssembly plugin. See [`start_with`](App::start_with).
    ///
    /// # Errors
    /// Where the plugin engine does not run on this machine, or the system gives no threads.
    pub fn start(config: config::Config) -> Result<Self, StartError> {
        let runtime = Runtime::new(config.plugin_cache.as_deref())?;
        Self::start_with(config, Arc::new(move |consumer: &config::Consumer| runtime.load(&consumer.plugin)))
    }

    /// Starts every consumer. Returns at once: what keeps a consumer from starting is in [`health`](App::health); what
    /// passes by itself (a database or a broker that is away) is tried again, anything else stops that consumer alone.
    ///
    /// # Errors
    /// Where the system gives no threads for computing.
    pub fn start_with(config: config::Config, plugins: Arc<PluginLoader>) -> Result<Self, StartError> {
        let metrics = Arc::new(Metrics::new());
        let (drain, draining) = watch::channel(false);
        let config = Arc::new(config);
        let (mut slots, mut healths, mut steerings) = (Vec::new(), Vec::new(), Vec::new());
        for (index, consumer) in config.consumers.iter().enumerate() {
            let health = ConsumerHealth::new(consumer.name.clone(), consumer.lanes.max(1));
            // There from now on: an alert on a consumer that does not run must see one that never started.
            let metrics = metrics.consumer(&consumer.name);
            let (stage, paused) = (Arc::new(watch::channel(Stage::Running).0), Arc::new(watch::channel(false).0));
            let launch = Launch {
                config: Arc::clone(&config),
                index,
                plugins: Arc::clone(&plugins),
                // Its own: whose plugin burns all it may holds up no other consumer. The system shares the cores out.
                pool: Arc::new(ComputePool::for_lanes(consumer.lanes)?),
                metrics: metrics.clone(),
                health: Arc::clone(&health),
                stage: Arc::clone(&stage),
                paused: paused.subscribe(),
                consumer: Arc::default(),
                fault: Arc::default(),
                plugin: tokio::sync::OnceCell::new(),
                draining: draining.clone(),
            };
            slots.push(Slot {
                consumer: Arc::clone(&launch.consumer),
                fault: Arc::clone(&launch.fault),
                stage: stage.subscribe(),
                task: tokio::spawn(launch.run()),
            });
            let (name, health_too) = (consumer.name.clone(), Arc::clone(&health));
            steerings.push(Steering { name, stage, paused, health: health_too, metrics });
            healths.push(health);
        }
        let control = Control { consumers: steerings.into() };
        Ok(Self { slots, control, health: Health::new(healths), metrics, drain })
    }

    /// Drains every consumer: reads no more, finishes what is in flight, commits, leaves the groups.
    pub async fn drain(&self) {
        self.drain.send_replace(true);
        self.ended().await;
    }

    /// Resolves when no consumer runs any more, for whatever reasons.
    pub async fn ended(&self) {
        for slot in &self.slots {
            // An error means that the task is gone.
            let _ = slot.stage.clone().wait_for(|stage| *stage != Stage::Running).await;
        }
    }

    /// The worst reason for which a consumer has ended by itself.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.slots.iter().filter_map(|slot| *locked(&slot.fault)).max()
    }

    /// For an operator's orders.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// What works and what does not.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// All metrics.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// For the status page.
    #[must_use]
    pub fn report(&self) -> Vec<ConsumerReport> {
        self.health.report()
    }

    /// Whether every consumer runs and has read and finished all that is there. A moment later it may be untrue.
    #[must_use]
    pub fn caught_up(&self) -> bool {
        self.slots.iter().all(|slot| {
            let consumer = locked(&slot.consumer);
            consumer.as_ref().is_some_and(|consumer| consumer.caught_up())
        })
    }
}

impl Drop for App {
    fn drop(&mut self) {
        for slot in &self.slots {
            slot.task.abort();
            // The last handle stops the consumer's threads.
            locked(&slot.consumer).take();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What it takes to start one consumer.
struct Launch {
    config: Arc<config::Config>,
    index: usize,
    plugins: Arc<PluginLoader>,
    pool: Arc<ComputePool>,
    metrics: ConsumerMetrics,
    health: Arc<ConsumerHealth>,
    stage: Arc<watch::Sender<Stage>>,
    paused: watch::Receiver<bool>,
    consumer: Arc<Mutex<Option<Arc<Consumer>>>>,
    fault: Arc<Mutex<Option<Fault>>>,
    /// Compiled once, however often the start is tried.
    plugin: tokio::sync::OnceCell<Arc<dyn Plugin>>,
    draining: watch::Receiver<bool>,
}

impl Launch {
    fn settings(&self) -> &config::Consumer {
        &self.config.consumers[self.index]
    }

    /// Runs the consumer, and runs it again where an operator wants it after it stopped, until the application drains.
    async fn run(mut self) {
        let mut draining = self.draining.clone();
        loop {
            self.run_once(&mut draining).await;
            if *draining.borrow() {
                return;
            }
            self.stage.send_replace(Stage::Stopped);
            let mut ordered = self.stage.subscribe();
            tokio::select! {
                _ = ordered.wait_for(|stage| *stage == Stage::Running) => {}
                () = drained(&mut draining) => return,
            }
            self.forget().await;
        }
    }

    /// Before another start: nothing of the last one may be left, for it may hold a lock; and whatever was mended may
    /// have been the plugin.
    async fn forget(&mut self) {
        *locked(&self.fault) = None;
        self.plugin = tokio::sync::OnceCell::new();
        self.health.restarting();
        let last = locked(&self.consumer).take();
        // Closing a client waits for its threads.
        let _ = tokio::task::spawn_blocking(move || drop(last)).await;
    }

    /// Starts the consumer, however long it takes, and stays until it has ended.
    async fn run_once(&self, draining: &mut watch::Receiver<bool>) {
        let mut pause = Duration::from_millis(100);
        let mut outages = Outages::default();
        let consumer = loop {
            let started = tokio::select! {
                started = self.start() => started,
                () = drained(draining) => return self.health.drained(),
            };
            let error = match started {
                Ok(consumer) => break Arc::new(consumer),
                Err(error) => error,
            };
            let name = &self.settings().name;
            if error.class() != Class::Transient {
                tracing::error!(consumer = %name, "does not start: {error}");
                *locked(&self.fault) = Some(error.fault());
                return self.health.stopped(error.to_string());
            }
            if outages.begins(Instant::now(), &error.trouble()) {
                tracing::warn!(consumer = %name, "cannot start yet: {error}");
            } else {
                tracing::debug!(consumer = %name, "cannot start yet: {error}");
            }
            self.health.trouble(error.to_string());
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = drained(draining) => return self.health.drained(),
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        };
        *locked(&self.consumer) = Some(Arc::clone(&consumer));
        tokio::select! {
            () = consumer.ended() => *locked(&self.fault) = Some(Fault::Running),
            () = drained(draining) => consumer.drain().await,
        }
    }

    async fn start(&self) -> Result<Consumer, StartError> {
        let settings = self.settings();
        let no_such =
            |table, name: &String| StartError::NoSuch { consumer: settings.name.clone(), table, name: name.clone() };
        let database =
            self.config.databases.get(&settings.database).ok_or_else(|| no_such("database", &settings.database))?;
        let cluster = self.config.kafka.get(&settings.kafka).ok_or_else(|| no_such("kafka", &settings.kafka))?;
        let store = store::open(database)?;
        let refused = |refusal| StartError::Refused { place: store.place(), refusal };
        if let Some(refusal) = store.schema_state().await?.refusal() {
            return Err(refused(refusal));
        }
        let targets = resolve(store.as_ref(), settings).await?;
        let grants = store.missing_grants(&targets).await?;
        if !grants.is_empty() {
            return Err(StartError::Rights { place: store.place(), grants });
        }
        let plugin = self.load_plugin().await?;
        ungranted(plugin.description(), &targets)?;
        self.ask_for_topics(cluster).await?;
        let registration = Registration {
            name: settings.name.clone(),
            group: settings.group.clone(),
            key_version: plugin.description().key_version,
            plugin_digest: plugin.digest(),
            started_from: serde_json::json!({ "start": start_text(settings.start) }),
        };
        // Invariant 10: one active key version per consumer.
        let row = store.register_consumer(&registration).await?;
        if let Some(refusal) = row.refusal(registration.key_version) {
            return Err(refused(refusal));
        }
        let policy = Policy { older_than_retention: settings.ledger.older_than_retention, ..Policy::default() };
        let parts = Parts {
            name: settings.name.clone(),
            registration,
            config_file: self.config.file.clone().map(Arc::new),
            start: settings.start,
            lanes: settings.lanes,
            limits: settings.batch,
            drain_deadline: settings.revoke_deadline,
            applier: Arc::new(Applier::new(settings.name.clone(), targets.into(), policy)),
            store,
            plugin,
            context: Arc::new(EvaluateContext::of(settings)),
            pool: Arc::clone(&self.pool),
            paused: self.paused.clone(),
            health: Arc::clone(&self.health),
            metrics: self.metrics.clone(),
        };
        let options = ClientOptions {
            group: settings.group.clone(),
            queue_bytes: settings.queue_bytes,
            revoke_deadline: settings.revoke_deadline,
        };
        let topics = settings.topics.iter().map(|topic| topic.name.as_str().into()).collect();
        Consumer::start(parts, |starts| {
            let source = KafkaSource::new(&cluster.properties, &options, topics, settings.lanes, starts)?;
            Ok(Arc::new(source) as Arc<dyn Source>)
        })
    }

    /// Whether the topics are there, and R3.1: a ledger that forgets too early would let a replay in twice. Not known =
    /// not started. Where only some are missing, the others are consumed.
    async fn ask_for_topics(&self, cluster: &KafkaCluster) -> Result<(), StartError> {
        let (settings, servers) = (self.settings(), check::servers(cluster));
        let asking = format!("asking Kafka {servers} for the retention of its topics");
        tracing::info!(consumer = %settings.name, "{asking}");
        self.health.trouble(asking);
        let topics = check::topics_of(cluster, settings).await;
        let topics = topics.map_err(|why| StartError::Away { servers: servers.to_owned(), why })?;
        let missing: Vec<_> = topics.missing.iter().map(|topic| check::no_topic(topic, cluster)).collect();
        if missing.len() == settings.topics.len() {
            return Err(StartError::NoTopic(missing));
        }
        for (topic, why) in topics.missing.iter().zip(missing) {
            tracing::warn!(consumer = %settings.name, "{why}");
            self.health.waiting(&[PartitionName { topic: topic.as_str().into(), partition: 0 }], &why);
        }
        for topic in topics.unknown {
            let name = &settings.name;
            tracing::warn!(consumer = %name, "the broker does not say how long topic {topic} keeps what is in it: it is not checked that the ledger remembers longer");
        }
        if topics.too_short.is_empty() { Ok(()) } else { Err(StartError::Retention(topics.too_short)) }
    }

    async fn load_plugin(&self) -> Result<Arc<dyn Plugin>, PluginError> {
        self.plugin.get_or_try_init(|| self.compile_plugin()).await.cloned()
    }

    /// Compiling takes seconds of CPU time: not on an async worker.
    async fn compile_plugin(&self) -> Result<Arc<dyn Plugin>, PluginError> {
        let (plugins, config, index) = (Arc::clone(&self.plugins), Arc::clone(&self.config), self.index);
        let loaded = tokio::task::spawn_blocking(move || plugins(&config.consumers[index])).await;
        loaded.unwrap_or_else(|panic| Err(PluginError::Host { message: panic.to_string() }))
    }
}

impl Drop for Launch {
    /// The task is over, by whatever way.
    fn drop(&mut self) {
        self.stage.send_replace(Stage::Done);
    }
}

/// Resolves once the application drains, or is gone.
async fn drained(draining: &mut watch::Receiver<bool>) {
    let _ = draining.wait_for(|drain| *drain).await;
}

fn start_text(start: config::Start) -> String {
    match start {
        config::Start::Earliest => "earliest".to_owned(),
        config::Start::Latest => "latest".to_owned(),
        config::Start::Time(time_ms) => format!("{time_ms} ms since 1970"),
    }
}

/// Holds every target against the catalog (R2.5), then against the consumer's others; all faults at once.
async fn resolve(store: &dyn Store, settings: &config::Consumer) -> Result<Vec<Target>, StartError> {
    let (mut targets, mut faults) = (Vec::new(), Vec::new());
    for spec in &settings.targets {
        match merge::resolve(spec, &store.table_info(&spec.table).await?) {
            Ok(target) => targets.push(target),
            Err(found) => faults.extend(found.iter().map(ToString::to_string)),
        }
    }
    if faults.is_empty() {
        faults.extend(merge::check_together(&targets).iter().map(ToString::to_string));
    }
    if faults.is_empty() { Ok(targets) } else { Err(StartError::Targets(faults)) }
}

/// Invariant 7, as far as the plugin says beforehand what it writes.
fn ungranted(description: &Description, targets: &[Target]) -> Result<(), PluginError> {
    let refuse = |message| Err(PluginError::NotGranted { plugin: description.name.clone(), message });
    for (name, columns) in &description.targets {
        let Some(target) = targets.iter().find(|target| target.spec.name == *name) else {
            return refuse(format!("it writes a target {name}, which no [[consumer.target]] grants"));
        };
        let granted = |column: &&String| target.spec.columns.iter().any(|granted| granted.name == **column);
        if let Some(column) = columns.iter().find(|column| !granted(column)) {
            return refuse(format!("it writes column {column} of target {name}, which `columns` does not grant"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_to_put_it_right() {
        let configuration = [
            StartError::Refused { place: "db".into(), refusal: "run `tidegate migrate`".into() },
            StartError::Targets(vec!["no unique index".into()]),
            StartError::Retention(vec!["too short".into()]),
            StartError::Plugin(PluginError::Load { path: "x.wasm".into(), message: "there is no such file".into() }),
            StartError::Store(StoreError::fatal(Statement::Catalog, "table t", "there is no such table")),
        ];
        for error in configuration {
            assert_eq!((error.class(), error.fault()), (Class::Fatal, Fault::Configuration), "{error}");
        }
        let refused = StoreError {
            sqlstate: Some("3D000".to_owned()),
            ..StoreError::fatal(Statement::Connect, "connect to db:5432/shop", "database \"shop\" does not exist")
        };
        let refused = StartError::Store(refused);
        assert_eq!((refused.class(), refused.fault()), (Class::Fatal, Fault::Configuration));
        assert!(refused.to_string().contains("CREATE DATABASE"), "{refused}");
        let environment = [
            StartError::Thread(io::Error::other("no thread")),
            StartError::Store(StoreError::fatal(Statement::Connect, "lock", "another process")),
            StartError::Plugin(PluginError::Host { message: "panic".into() }),
        ];
        for error in environment {
            assert_eq!((error.class(), error.fault()), (Class::Fatal, Fault::Environment), "{error}");
        }
        let away = |why: &str| StartError::Away { servers: "a:1".into(), why: why.into() };
        assert_eq!((away("x").class(), away("x").trouble()), (Class::Transient, away("y").trouble()));
    }
}
