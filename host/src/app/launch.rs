//! One consumer's life: started, tried again while what keeps it from starting passes by itself, run, and started again
//! where an operator wants it.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::{
    PluginLoader, StartError,
    accept::Accepting,
    admission::Admitted,
    control::Stage,
    gates::Asks,
    locked,
    orders::Orders,
    start_error::Fault,
    step::{Kind, PATIENCE, step},
};
use crate::{
    check,
    class::Class,
    config::{self, KafkaCluster},
    file_stamp::Seen,
    health::{ConsumerHealth, PluginReport},
    key_gate::Acceptance,
    metrics::ConsumerMetrics,
    outage::Told,
    pipeline::{Consumer, Parts, ShadowSlot},
    plugin::{ComputePool, Plugin},
    source::{
        Source,
        kafka::{ClientOptions, KafkaSource},
    },
    store::{self, Registration, Store},
};

/// How long ago the last start must be that nobody has ordered.
const START_AGAIN: Duration = Duration::from_secs(600);
/// So that whoever looks sees why.
const PAUSE_BEFORE: Duration = Duration::from_secs(3);
/// How long the group may take to let a consumer in before the log says so; then at twice the time each.
const SLOW_TO_JOIN: Duration = Duration::from_secs(10);
/// The longest pause between two tries to start a consumer.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A plugin, and the settings that it was loaded under.
pub(super) type Compiled = (Arc<config::Consumer>, Arc<dyn Plugin>);

/// What it takes to start one consumer, and what others may tell it.
pub(super) struct Launch {
    /// Databases, clusters and the file's name; the consumers in it may be out of date.
    pub(super) config: Arc<config::Config>,
    /// The consumer's own, as they are wanted by now. What rules was made of may be others: [`crate::pipeline::Rules`].
    pub(super) settings: Mutex<Arc<config::Consumer>>,
    pub(super) plugins: Arc<PluginLoader>,
    pub(super) pool: Arc<ComputePool>,
    pub(super) metrics: ConsumerMetrics,
    pub(super) health: Arc<ConsumerHealth>,
    pub(super) stage: Arc<watch::Sender<Stage>>,
    pub(super) paused: watch::Receiver<bool>,
    pub(super) consumer: Mutex<Option<Arc<Consumer>>>,
    pub(super) fault: Mutex<Option<Fault>>,
    /// An operator's words that keys may change.
    pub(super) acceptances: Arc<Mutex<Vec<Acceptance>>>,
    /// Compiled once, however often the start is tried; with the settings that it was loaded under.
    pub(super) compiled: tokio::sync::Mutex<Option<Compiled>>,
    /// Other keys that the start which comes next may take.
    pub(super) accepting: Mutex<Option<Arc<Accepting>>>,
    /// What it was told to do about its rules.
    pub(super) orders: Orders,
    /// A candidate that looks on.
    pub(super) shadow: Arc<ShadowSlot>,
    /// The files of the plugin that rules, or was last tried for that.
    pub(super) ruling: Seen,
    /// The shadow's.
    pub(super) shading: Seen,
    /// One reload at a time.
    pub(super) reloading: tokio::sync::Mutex<()>,
    pub(super) drain: watch::Sender<bool>,
}

/// How one run of a consumer has ended.
struct Ended {
    /// The settings that it ran, or was to start, under.
    under: Arc<config::Consumer>,
    /// An operator wants it to start at once.
    again: bool,
}

/// The task is over, by whatever way.
struct Done {
    stage: Arc<watch::Sender<Stage>>,
    health: Arc<ConsumerHealth>,
}

impl Drop for Done {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.health.stopped("its task died of a bug in tidegate; the log says where".to_owned());
        }
        self.stage.send_replace(Stage::Done);
    }
}

impl Launch {
    pub(super) fn settings(&self) -> Arc<config::Consumer> {
        Arc::clone(&locked(&self.settings))
    }

    pub(super) fn running(&self) -> Option<Arc<Consumer>> {
        locked(&self.consumer).clone()
    }

    /// Runs the consumer, and runs it again where an operator wants it after it stopped, until it is drained.
    pub(super) async fn run(self: Arc<Self>) {
        let _done = Done { stage: Arc::clone(&self.stage), health: Arc::clone(&self.health) };
        let mut draining = self.drain.subscribe();
        let mut again = None;
        loop {
            let ended = self.run_once(&mut draining).await;
            if *draining.borrow() {
                return;
            }
            if ended.again {
                self.forget().await;
                continue;
            }
            *locked(&self.accepting) = None;
            if self.may_start_again(&mut again) {
                tracing::warn!(consumer = %self.settings().name, "starts again by itself in {} s, but not twice in {} minutes", PAUSE_BEFORE.as_secs(), START_AGAIN.as_secs() / 60);
                tokio::select! {
                    () = tokio::time::sleep(PAUSE_BEFORE) => {}
                    () = drained(&mut draining) => return,
                }
                self.forget().await;
                continue;
            }
            // Other settings that came while it failed under those of before want a start of their own; whoever brought
            // them saw no stop.
            let stops = |stage: &mut Stage| {
                let stops = self.settings().rules_alike(&ended.under);
                if stops {
                    *stage = Stage::Stopped;
                }
                stops
            };
            if self.stage.send_if_modified(stops) {
                let mut ordered = self.stage.subscribe();
                tokio::select! {
                    _ = ordered.wait_for(|stage| *stage == Stage::Running) => {}
                    () = drained(&mut draining) => return,
                }
            }
            self.forget().await;
        }
    }

    /// Whether what it ended of may be over with another start, and the last such start is long ago. Of two processes
    /// that take each other's place, one stops so.
    fn may_start_again(&self, last: &mut Option<Instant>) -> bool {
        let failed_as = locked(&self.consumer).as_ref().and_then(|consumer| consumer.failed_as());
        let may = failed_as == Some(Class::Transient) && last.is_none_or(|last| last.elapsed() > START_AGAIN);
        if may {
            *last = Some(Instant::now());
        }
        may
    }

    /// Before another start: nothing of the last one may be left, for it may hold a lock; and whatever was mended may
    /// have been the plugin.
    async fn forget(&self) {
        *locked(&self.fault) = None;
        *self.compiled.lock().await = None;
        self.health.restarting();
        let last = locked(&self.consumer).take();
        // Closing a client waits for its threads.
        let _ = tokio::task::spawn_blocking(move || drop(last)).await;
    }

    /// Starts the consumer, however long it takes, and stays until it has ended.
    async fn run_once(&self, draining: &mut watch::Receiver<bool>) -> Ended {
        let mut pause = Duration::from_millis(100);
        let mut told = Told::default();
        let consumer = loop {
            let settings = self.settings();
            let ended = || Ended { under: Arc::clone(&settings), again: false };
            let started = tokio::select! {
                started = self.start(&settings) => started,
                () = drained(draining) => {
                    self.health.drained();
                    return ended();
                }
            };
            let error = match started {
                Ok(consumer) => break Arc::new(consumer),
                Err(error) => error,
            };
            let name = &settings.name;
            if error.class() != Class::Transient {
                tracing::error!(consumer = %name, "does not start: {error}");
                *locked(&self.fault) = Some(error.fault());
                self.accepted_or_not(Err(&error));
                self.health.stopped(error.to_string());
                return ended();
            }
            if told.is_news(Instant::now(), &error.trouble()) {
                tracing::warn!(consumer = %name, "cannot start yet: {error}");
            } else {
                tracing::debug!(consumer = %name, "cannot start yet: {error}");
            }
            self.health.doing(None);
            self.health.trouble(error.to_string());
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // The plugin's file has changed: what was compiled is of yesterday.
                () = self.orders.look_wanted() => *self.compiled.lock().await = None,
                () = drained(draining) => {
                    self.health.drained();
                    return ended();
                }
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        };
        *locked(&self.consumer) = Some(Arc::clone(&consumer));
        self.accepted_or_not(Ok(consumer.rules().plugin.digest()));
        let again = tokio::select! {
            () = consumer.ended() => {
                *locked(&self.fault) = Some(Fault::Running);
                false
            }
            () = drained(draining) => {
                consumer.drain().await;
                false
            }
            () = self.follow_orders() => {
                consumer.drain().await;
                true
            }
            () = self.tell_while_it_joins() => false,
        };
        Ended { under: Arc::clone(&consumer.rules().settings), again }
    }

    /// Never resolves. A group takes in nobody while its coordinator is away, or another member holds up a rebalance.
    async fn tell_while_it_joins(&self) {
        let (begun, mut pause) = (Instant::now(), SLOW_TO_JOIN);
        loop {
            tokio::time::sleep(pause).await;
            let Some(what) = self.health.waits_for() else { return std::future::pending().await };
            let lasted = begun.elapsed().as_secs();
            tracing::warn!(consumer = %self.settings().name, "has not joined its group for {lasted} s{what}");
            pause *= 2;
        }
    }

    async fn start(&self, settings: &Arc<config::Consumer>) -> Result<Consumer, StartError> {
        let cluster = self.config.kafka.get(&settings.kafka);
        let cluster = cluster.ok_or_else(|| StartError::NoSuch {
            consumer: settings.name.clone(),
            table: "kafka",
            name: settings.kafka.clone(),
        })?;
        let store = self.store(settings)?;
        let place = store.place();
        let accepted = locked(&self.accepting).as_ref().and_then(|accepting| accepting.plugin(settings));
        let plugin = match accepted {
            Some(plugin) => plugin,
            None => {
                let what = format!("loading plugin {}", settings.plugin.origin);
                self.step(Kind::Work, what, self.compiled(settings)).await?
            }
        };
        let what = format!("asking database {place} for schema, targets and rights");
        let targets = self.targets(settings, store.as_ref(), plugin.as_ref());
        let targets = self.step(Kind::Question, what, targets).await?;
        // Before cases and keys, which take CPU time: while the broker is away, a start is tried every few seconds.
        let what = format!("asking Kafka {} for the retention of its topics", check::servers(cluster));
        tracing::info!(consumer = %settings.name, "{what}");
        self.step(Kind::Question, what, self.ask_for_topics(settings, cluster)).await?;
        let what = format!("holding the plugin against its cases and the keys in database {place}");
        let rules = self.rules(settings, store.as_ref(), plugin, targets, Asks::Start);
        let (rules, admitted) = self.step(Kind::Work, what, rules).await?;
        let what = format!("registering in database {place}");
        self.step(Kind::Question, what, self.register(store.as_ref(), &rules.registration)).await?;
        let Admitted { samples, compared, warning, .. } = admitted;
        if !settings.key_samples {
            // They have served once more; whoever keeps none must not keep the old ones.
            if samples > 0 {
                let what = format!("deleting the key samples in database {place}");
                self.step(Kind::Question, what, store.forget_key_samples(&settings.name)).await?;
            }
            tracing::warn!(
                consumer = %settings.name,
                "key_samples = false: a later plugin that gives other keys is found by a reload only, or where it declares it"
            );
        }
        self.health.runs(PluginReport::of(rules.plugin.as_ref(), compared, warning));
        let parts = Parts {
            name: settings.name.clone(),
            config_file: self.config.file.clone().map(Arc::new),
            start: settings.start,
            lanes: settings.lanes,
            limits: settings.batch,
            drain_deadline: settings.revoke_deadline,
            rules,
            key_samples: settings.key_samples,
            samples_known: samples,
            shadow: Arc::clone(&self.shadow),
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
        let what = format!("waiting for group {} to take it in", settings.group);
        tracing::info!(consumer = %settings.name, "{what}");
        self.health.doing(what);
        Consumer::start(parts, |starts| {
            let source = KafkaSource::new(&cluster.properties, &options, topics, settings.lanes, starts)?;
            Ok(Arc::new(source) as Arc<dyn Source>)
        })
    }

    async fn step<T, E: Into<StartError>>(
        &self,
        kind: Kind,
        what: String,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, StartError> {
        step(PATIENCE, &self.settings().name, &self.health, kind, what, work).await
    }

    /// The consumer's database. Nothing is connected yet.
    pub(super) fn store(&self, settings: &config::Consumer) -> Result<Arc<dyn Store>, StartError> {
        let database = self.config.databases.get(&settings.database).ok_or_else(|| StartError::NoSuch {
            consumer: settings.name.clone(),
            table: "database",
            name: settings.database.clone(),
        })?;
        Ok(store::open(database)?)
    }

    /// Says in the database under which key version and plugin it runs from now on.
    pub(super) async fn register(&self, store: &dyn Store, registration: &Registration) -> Result<(), StartError> {
        // Invariant 10: one active key version per consumer. Another host may have raised it a moment ago.
        let row = store.register_consumer(registration).await?;
        match row.refusal(registration.key_version) {
            None => Ok(()),
            Some(refusal) => Err(StartError::Refused { place: store.place(), refusal }),
        }
    }

    /// Whether the topics are there, and R3.1: a ledger that forgets too early would let a replay in twice. Not known =
    /// not started. Where only some are missing, the others are consumed.
    async fn ask_for_topics(&self, settings: &config::Consumer, cluster: &KafkaCluster) -> Result<(), StartError> {
        let servers = check::servers(cluster);
        let topics = check::topics_of(cluster, settings).await;
        let topics = topics.map_err(|why| StartError::Away { servers: servers.to_owned(), why })?;
        let missing: Vec<_> = topics.missing.iter().map(|topic| check::no_topic(topic, cluster)).collect();
        if missing.len() == settings.topics.len() {
            return Err(StartError::NoTopic(missing));
        }
        for (topic, why) in topics.missing.iter().zip(missing) {
            tracing::warn!(consumer = %settings.name, "{why}");
            self.health.topic_missing(&topic.as_str().into(), why);
        }
        for topic in topics.unknown {
            let name = &settings.name;
            tracing::warn!(consumer = %name, "the broker does not say how long topic {topic} keeps what is in it: it is not checked that the ledger remembers longer");
        }
        if topics.too_short.is_empty() { Ok(()) } else { Err(StartError::Retention(topics.too_short)) }
    }
}

/// Resolves once the consumer is to drain, or is gone.
async fn drained(draining: &mut watch::Receiver<bool>) {
    let _ = draining.wait_for(|drain| *drain).await;
}
