//! The application: a validated configuration becomes consumers that run, each failing alone. The binary, the demo and
//! the tests only start it, look at it and drain it.

mod accept;
mod admission;
mod control;
mod gates;
mod launch;
mod orders;
mod reconfigure;
mod reload;
mod shade;
mod start_error;
mod step;
mod watch;

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

pub use control::{Control, Disobeyed, Order};
use control::{Stage, Steering};
use launch::Launch;
use orders::Orders;
pub use start_error::{Fault, StartError};
use tokio::{sync::watch as channel, task::JoinHandle};

use crate::{
    config,
    file_stamp::Seen,
    health::{ConsumerHealth, ConsumerReport, Health},
    key_gate::Acceptance,
    metrics::{Metrics, Reloaded},
    plugin::{ComputePool, Plugin, PluginError, Runtime},
};

/// How a consumer gets its plugin. Blocks while it compiles.
pub type PluginLoader = dyn Fn(&config::Consumer) -> Result<Arc<dyn Plugin>, PluginError> + Send + Sync;

/// Consumers that run. Dropped without [`drain`](App::drain) they stop as in a crash.
pub struct App {
    inner: Arc<Inner>,
    watcher: Option<JoinHandle<()>>,
}

/// What the helpers of an application share.
struct Inner {
    config: Arc<config::Config>,
    plugins: Arc<PluginLoader>,
    acceptances: Arc<Mutex<Vec<Acceptance>>>,
    slots: Mutex<Vec<Slot>>,
    /// What the configuration was read from, or looked for, the last time.
    files: Seen,
    /// The plugins' files that a configuration names which was not taken: another one there may have it pass.
    refused: Seen,
    /// One at a time.
    reconfiguring: tokio::sync::Mutex<()>,
    control: Control,
    health: Health,
    metrics: Arc<Metrics>,
    draining: AtomicBool,
}

/// A consumer that does not run yet.
struct Made {
    launch: Arc<Launch>,
    steering: Steering,
}

/// One consumer's place.
struct Slot {
    launch: Arc<Launch>,
    stage: channel::Receiver<Stage>,
    task: JoinHandle<()>,
}

impl App {
    /// Starts every consumer with its WebAssembly plugin. See [`start_with`](App::start_with).
    ///
    /// # Errors
    /// Where the plugin engine does not run on this machine, or the system gives no threads.
    pub fn start(config: config::Config) -> Result<Self, StartError> {
        Self::start_accepting(config, vec![])
    }

    /// As [`start`](App::start), with an operator's words that consumers' keys may change.
    ///
    /// # Errors
    /// As [`start`](App::start).
    pub fn start_accepting(config: config::Config, accepted: Vec<Acceptance>) -> Result<Self, StartError> {
        let runtime = Runtime::of(&config)?;
        let plugins = Arc::new(move |consumer: &config::Consumer| runtime.load(&consumer.plugin));
        Self::start_with(config, plugins, accepted)
    }

    /// Starts every consumer. Returns at once: what keeps a consumer from starting is in [`health`](App::health); what
    /// passes by itself (a database or a broker that is away) is tried again, anything else stops that consumer alone.
    ///
    /// # Errors
    /// Where the system gives no threads for computing.
    pub fn start_with(
        config: config::Config,
        plugins: Arc<PluginLoader>,
        accepted: Vec<Acceptance>,
    ) -> Result<Self, StartError> {
        let files = Seen::default();
        files.replace(config.files.clone());
        let inner = Arc::new(Inner {
            plugins,
            acceptances: Arc::new(Mutex::new(accepted)),
            slots: Mutex::default(),
            files,
            refused: Seen::default(),
            reconfiguring: tokio::sync::Mutex::default(),
            control: Control::default(),
            health: Health::default(),
            metrics: Arc::new(Metrics::new()),
            draining: AtomicBool::new(false),
            config: Arc::new(config),
        });
        for consumer in &inner.config.consumers {
            inner.spawn(inner.make(consumer)?);
        }
        let watcher = inner.config.plugins.watch.then(|| tokio::spawn(watch::watch(Arc::downgrade(&inner))));
        Ok(Self { inner, watcher })
    }

    /// Drains every consumer: reads no more, finishes what is in flight, commits, leaves the groups.
    pub async fn drain(&self) {
        self.inner.draining.store(true, Ordering::SeqCst);
        for launch in self.inner.launches() {
            launch.drain.send_replace(true);
        }
        self.ended().await;
    }

    /// Resolves when no consumer runs any more, for whatever reasons.
    pub async fn ended(&self) {
        loop {
            let stages: Vec<_> = locked(&self.inner.slots).iter().map(|slot| slot.stage.clone()).collect();
            for mut stage in stages {
                // An error means that the task is gone.
                let _ = stage.wait_for(|stage| *stage != Stage::Running).await;
            }
            // Between the end of one consumer and the start of the next there may be none.
            let _settled = match self.inner.draining.load(Ordering::SeqCst) {
                true => None,
                false => Some(self.inner.reconfiguring.lock().await),
            };
            if locked(&self.inner.slots).iter().all(|slot| *slot.stage.borrow() != Stage::Running) {
                return;
            }
        }
    }

    /// The worst reason for which a consumer has ended by itself.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.inner.launches().iter().filter_map(|launch| *locked(&launch.fault)).max()
    }

    /// For an operator's orders.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.inner.control
    }

    /// What works and what does not.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.inner.health
    }

    /// All metrics.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.inner.metrics
    }

    /// For the status page.
    #[must_use]
    pub fn report(&self) -> Vec<ConsumerReport> {
        self.inner.health.report()
    }

    /// Reads the configuration's file again, and has every consumer look at its plugin's. Returns once the first is done.
    pub async fn reload(&self) {
        self.inner.read_again().await;
        for launch in self.inner.launches() {
            launch.orders.look();
        }
    }

    /// Takes another configuration while the consumers run: all of it, or nothing.
    pub async fn reconfigure(&self, new: config::Config) -> Reloaded {
        self.inner.reconfigure(Ok(new)).await
    }

    /// Whether every consumer runs and has read and finished all that is there. A moment later it may be untrue.
    #[must_use]
    pub fn caught_up(&self) -> bool {
        let launches = self.inner.launches();
        launches.iter().all(|launch| launch.running().is_some_and(|consumer| consumer.caught_up()))
    }
}

impl Inner {
    /// One more consumer, which does not run yet.
    fn make(&self, consumer: &config::Consumer) -> Result<Made, StartError> {
        let health = ConsumerHealth::watched(
            consumer.name.clone(),
            consumer.lanes.max(1),
            self.config.health,
            consumer.revoke_deadline,
        );
        // There from now on: an alert on a consumer that does not run must see one that never started.
        let metrics = self.metrics.consumer(&consumer.name);
        let (stage, paused) = (Arc::new(channel::channel(Stage::Running).0), Arc::new(channel::channel(false).0));
        let launch = Arc::new(Launch {
            config: Arc::clone(&self.config),
            settings: Mutex::new(Arc::new(consumer.clone())),
            plugins: Arc::clone(&self.plugins),
            // Its own: whose plugin burns all it may holds up no other consumer. The system shares the cores out.
            pool: Arc::new(ComputePool::for_lanes(consumer.lanes)?),
            metrics: metrics.clone(),
            health: Arc::clone(&health),
            stage: Arc::clone(&stage),
            paused: paused.subscribe(),
            consumer: Mutex::default(),
            fault: Mutex::default(),
            acceptances: Arc::clone(&self.acceptances),
            compiled: tokio::sync::Mutex::default(),
            accepting: Mutex::default(),
            orders: Orders::default(),
            shadow: Arc::default(),
            ruling: Seen::default(),
            shading: Seen::default(),
            reloading: tokio::sync::Mutex::default(),
            drain: channel::channel(false).0,
        });
        let steering = Steering {
            name: consumer.name.clone(),
            stage: Arc::clone(&stage),
            paused,
            health: Arc::clone(&health),
            metrics,
            launch: Arc::downgrade(&launch),
        };
        Ok(Made { launch, steering })
    }

    /// It begins to start.
    fn spawn(&self, Made { launch, steering }: Made) {
        let stage = launch.stage.subscribe();
        self.health.add(Arc::clone(&launch.health));
        self.control.add(steering);
        let task = tokio::spawn(Arc::clone(&launch).run());
        locked(&self.slots).push(Slot { launch: Arc::clone(&launch), stage, task });
        if self.draining.load(Ordering::SeqCst) {
            launch.drain.send_replace(true);
        }
    }

    fn launches(&self) -> Vec<Arc<Launch>> {
        locked(&self.slots).iter().map(|slot| Arc::clone(&slot.launch)).collect()
    }
}

impl Drop for App {
    fn drop(&mut self) {
        if let Some(watcher) = &self.watcher {
            watcher.abort();
        }
        for slot in locked(&self.inner.slots).iter() {
            slot.task.abort();
            // The last handle stops the consumer's threads.
            locked(&slot.launch.consumer).take();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
