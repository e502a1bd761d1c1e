//! One consumer's life: started, tried again while what keeps it from starting passes by itself, run, and started again
//! where an operator wants it.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::{PluginLoader, StartError, admission::Gate, control::Stage, locked, start_error::Fault};
use crate::{
    check,
    class::Class,
    config::{self, KafkaCluster},
    health::ConsumerHealth,
    key_gate::Acceptance,
    merge::{self, Target},
    metrics::ConsumerMetrics,
    outage::Outages,
    panics,
    pipeline::{Consumer, Parts, Rules},
    plugin::{ComputePool, Description, EvaluateContext, Plugin, PluginError},
    source::{
        PartitionName, Source,
        kafka::{ClientOptions, KafkaSource},
    },
    store::{self, Applier, Policy, Registration, Store},
};

/// The longest pause between two tries to start a consumer.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What it takes to start one consumer.
pub(super) struct Launch {
    pub(super) config: Arc<config::Config>,
    pub(super) index: usize,
    pub(super) plugins: Arc<PluginLoader>,
    pub(super) pool: Arc<ComputePool>,
    pub(super) metrics: ConsumerMetrics,
    pub(super) health: Arc<ConsumerHealth>,
    pub(super) stage: Arc<watch::Sender<Stage>>,
    pub(super) paused: watch::Receiver<bool>,
    pub(super) consumer: Arc<Mutex<Option<Arc<Consumer>>>>,
    pub(super) fault: Arc<Mutex<Option<Fault>>>,
    /// Compiled once, however often the start is tried.
    pub(super) plugin: tokio::sync::OnceCell<Arc<dyn Plugin>>,
    /// An operator's words that keys may change.
    pub(super) acceptances: Arc<Mutex<Vec<Acceptance>>>,
    pub(super) draining: watch::Receiver<bool>,
}

impl Launch {
    fn settings(&self) -> &config::Consumer {
        &self.config.consumers[self.index]
    }

    /// Runs the consumer, and runs it again where an operator wants it after it stopped, until the application drains.
    pub(super) async fn run(mut self) {
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
        let context = EvaluateContext::of(settings);
        let gate = Gate {
            store: store.as_ref(),
            consumer: &settings.name,
            config_file: self.config.file.as_deref(),
            acceptances: &self.acceptances,
        };
        let admitted = gate.admit(&plugin, &context).await?;
        self.ask_for_topics(cluster).await?;
        let registration = Registration {
            name: settings.name.clone(),
            group: settings.group.clone(),
            key_version: admitted.key_version,
            plugin_digest: plugin.digest(),
            started_from: serde_json::json!({ "start": start_text(settings.start) }),
        };
        // Invariant 10: one active key version per consumer. Another host may have raised it a moment ago.
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
            rules: Rules {
                applier: Applier::new(settings.name.clone(), targets.into(), policy),
                plugin,
                context,
                key_version: admitted.key_version,
            },
            key_samples: settings.key_samples,
            samples_known: admitted.samples,
            store,
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
        loaded.unwrap_or_else(|error| Err(PluginError::Host { message: panics::of_task(error) }))
    }
}

impl Drop for Launch {
    /// The task is over, by whatever way.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.health.stopped("its task died of a bug in tidegate; the log says where".to_owned());
        }
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
