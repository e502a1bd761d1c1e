//! The application: a validated configuration becomes consumers that run, each failing alone. The binary, the demo and
//! the tests only start it, look at it and drain it.

mod admission;
mod control;
mod launch;
mod start_error;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use control::{Control, Disobeyed, Order};
use control::{Stage, Steering};
use launch::Launch;
pub use start_error::{Fault, StartError};
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    config,
    health::{ConsumerHealth, ConsumerReport, Health},
    key_gate::Acceptance,
    metrics::Metrics,
    pipeline::Consumer,
    plugin::{ComputePool, Plugin, PluginError, Runtime},
};

/// How a consumer gets its plugin. Blocks while it compiles.
pub type PluginLoader = dyn Fn(&config::Consumer) -> Result<Arc<dyn Plugin>, PluginError> + Send + Sync;

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
        Self::start_accepting(config, vec![])
    }

    /// As [`start`](App::start), with an operator's words that consumers' keys may change.
    ///
    /// # Errors
    /// As [`start`](App::start).
    pub fn start_accepting(config: config::Config, accepted: Vec<Acceptance>) -> Result<Self, StartError> {
        let runtime = Runtime::new(config.plugin_cache.as_deref())?;
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
        let acceptances = Arc::new(Mutex::new(accepted));
        let metrics = Arc::new(Metrics::new());
        let (drain, draining) = watch::channel(false);
        let config = Arc::new(config);
        let (mut slots, mut healths, mut steerings) = (Vec::new(), Vec::new(), Vec::new());
        for (index, consumer) in config.consumers.iter().enumerate() {
            let health = ConsumerHealth::watched(
                consumer.name.clone(),
                consumer.lanes.max(1),
                config.health,
                consumer.revoke_deadline,
            );
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
                acceptances: Arc::clone(&acceptances),
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
