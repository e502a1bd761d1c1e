//! Whether the process does its work, and if not, why. The pipeline reports; `/readyz`, `/livez` and the status page read.

mod away;
mod behind;
mod consumer;
mod reasons;
mod rules;

use std::{
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Instant,
};

pub use away::Dependency;
pub use consumer::ConsumerHealth;
pub use reasons::{ConsumerReport, LaneReport, Reason};
pub use rules::{PluginReport, ReloadReport};

use crate::identity::ConsumerName;

/// All consumers of a process.
#[derive(Clone, Debug, Default)]
pub struct Health {
    consumers: Arc<RwLock<Vec<Arc<ConsumerHealth>>>>,
    configuration: Arc<Mutex<Option<ReloadReport>>>,
}

impl Health {
    /// Of these consumers.
    #[must_use]
    pub fn new(consumers: Vec<Arc<ConsumerHealth>>) -> Self {
        Self { consumers: Arc::new(RwLock::new(consumers)), configuration: Arc::default() }
    }

    /// One more.
    pub fn add(&self, consumer: Arc<ConsumerHealth>) {
        self.consumers.write().unwrap_or_else(PoisonError::into_inner).push(consumer);
    }

    /// It is no longer one of them.
    pub fn remove(&self, consumer: &ConsumerName) {
        self.consumers.write().unwrap_or_else(PoisonError::into_inner).retain(|kept| kept.name != *consumer);
    }

    /// The configuration was read again.
    pub fn configured(&self, report: ReloadReport) {
        *self.configuration.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    /// What became of the configuration when it was read again; `None` = it was not.
    #[must_use]
    pub fn configuration(&self) -> Option<ReloadReport> {
        self.configuration.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn all(&self) -> Vec<Arc<ConsumerHealth>> {
        self.consumers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why the process is not ready; empty = ready.
    #[must_use]
    pub fn reasons(&self) -> Vec<Reason> {
        let now = Instant::now();
        self.all().iter().flat_map(|consumer| consumer.reasons(now)).collect()
    }

    /// Whether a restart is not called for. A database or broker that is away is no reason for one.
    #[must_use]
    pub fn live(&self) -> bool {
        let now = Instant::now();
        self.all().iter().all(|consumer| consumer.live(now))
    }

    /// Everything, for a person.
    #[must_use]
    pub fn report(&self) -> Vec<ConsumerReport> {
        let now = Instant::now();
        self.all().iter().map(|consumer| consumer.report(now)).collect()
    }
}
