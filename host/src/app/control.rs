//! What an operator may tell a running consumer: pause, go on, start again. Nothing here outlives the process.

use std::sync::{Arc, PoisonError, RwLock, Weak};

use tokio::sync::watch;

use super::{accept::Accepting, launch::Launch, locked};
use crate::{
    health::ConsumerHealth, identity::ConsumerName, key_gate::Acceptance, metrics::ConsumerMetrics,
    pipeline::ShadowReport,
};

/// Where a consumer's task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It starts or runs.
    Running,
    /// It ended by itself, and may be started again.
    Stopped,
    /// It was drained, or its task is gone.
    Done,
}

/// All consumers of an application, for orders. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Control {
    consumers: Arc<RwLock<Vec<Steering>>>,
}

/// One consumer's.
#[derive(Clone, Debug)]
pub(super) struct Steering {
    pub(super) name: ConsumerName,
    pub(super) stage: Arc<watch::Sender<Stage>>,
    pub(super) paused: Arc<watch::Sender<bool>>,
    pub(super) health: Arc<ConsumerHealth>,
    pub(super) metrics: ConsumerMetrics,
    /// Gone with the application.
    pub(super) launch: Weak<Launch>,
}

/// What a consumer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Start again, after it stopped by itself. What made it stop should be mended before.
    Restart,
    /// Take no more records, but stay in the group and keep the partitions. What is at hand is finished.
    Pause,
    /// Take records again.
    Resume,
    /// Look at the plugin's file again, and take what is there if it passes the gates.
    Reload,
    /// The shadow's plugin becomes the consumer's, if it passes the gates.
    Promote,
    /// The shadow looks on no longer.
    DropShadow,
}

impl Order {
    /// By the word that names it.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "restart" => Some(Self::Restart),
            "pause" => Some(Self::Pause),
            "resume" => Some(Self::Resume),
            "reload" => Some(Self::Reload),
            _ => None,
        }
    }
}

/// Why an order is not followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disobeyed {
    /// There is no such consumer here.
    #[error("this process has no consumer of that name; it has: {0}")]
    Unknown(String),
    /// Only what has stopped can be started again.
    #[error("consumer {0} has not stopped: only a consumer that stopped by itself is started again")]
    NotStopped(ConsumerName),
    /// There is nothing to promote or drop.
    #[error("consumer {0} has no shadow: give it [consumer.shadow] and have the configuration read again")]
    NoShadow(ConsumerName),
    /// A word on some plugin or other would be good for one that nobody has seen.
    #[error("a change of keys is accepted for one plugin alone: give all 64 hexadecimal digits of its SHA-256")]
    NoDigest,
    /// What does not run takes no records anyway.
    #[error("consumer {0} does not run: mend what stopped it and POST /v1/consumers/{0}/restart")]
    NotRunning(ConsumerName),
}

impl Control {
    /// What a consumer's shadow has found; `None` where there is no such consumer, or it has no shadow.
    #[must_use]
    pub fn shadow(&self, consumer: &str) -> Option<ShadowReport> {
        let consumers = self.consumers.read().unwrap_or_else(PoisonError::into_inner);
        let launch = consumers.iter().find(|steering| steering.name.as_str() == consumer)?.launch.upgrade()?;
        Some(launch.shadow.get()?.report())
    }

    pub(super) fn remove(&self, consumer: &ConsumerName) {
        self.consumers.write().unwrap_or_else(PoisonError::into_inner).retain(|steering| steering.name != *consumer);
    }

    pub(super) fn add(&self, steering: Steering) {
        self.consumers.write().unwrap_or_else(PoisonError::into_inner).push(steering);
    }

    /// Gives a consumer an order; it follows within moments. Saying the same twice is no mistake, a restart excepted.
    ///
    /// # Errors
    /// Where there is no such consumer, or it is in no state for it.
    pub fn order(&self, consumer: &str, order: Order) -> Result<(), Disobeyed> {
        let steering = self.steering(consumer)?;
        match order {
            Order::Restart => steering.restart(),
            Order::Pause => steering.pause(true),
            Order::Resume => steering.pause(false),
            Order::Reload => steering.reload(),
            Order::Promote => steering.shadow(Launch::promote),
            Order::DropShadow => steering.shadow(Launch::drop_shadow),
        }
    }

    /// Lets a consumer take the plugin of this digest (all 64 hexadecimal digits), though it gives other keys, if that is
    /// what is found where its plugin should be. One that runs finishes what is at hand and starts again; one that has
    /// stopped starts. `by` says who wants it, for the record.
    ///
    /// # Errors
    /// Where there is no such consumer, or it is in no state for it, or that is no digest.
    pub fn accept_key_change(&self, consumer: &str, sha256: &str, by: &str) -> Result<(), Disobeyed> {
        let steering = self.steering(consumer)?;
        let word = Acceptance::exact(&steering.name, sha256, by).ok_or(Disobeyed::NoDigest)?;
        steering.accept(word)
    }

    fn steering(&self, consumer: &str) -> Result<Steering, Disobeyed> {
        let consumers = self.consumers.read().unwrap_or_else(PoisonError::into_inner);
        consumers.iter().find(|steering| steering.name.as_str() == consumer).cloned().ok_or_else(|| {
            let names: Vec<&str> = consumers.iter().map(|steering| steering.name.as_str()).collect();
            Disobeyed::Unknown(names.join(", "))
        })
    }
}

/// Has a consumer that has stopped start again; whether it had.
pub(super) fn start_if_stopped(stage: &watch::Sender<Stage>, health: &ConsumerHealth) -> bool {
    stage.send_if_modified(|stage| {
        let stopped = *stage == Stage::Stopped;
        if stopped {
            // Before its task knows: whoever asks from now on hears nothing of the last end.
            health.restarting();
            *stage = Stage::Running;
        }
        stopped
    })
}

impl Steering {
    fn restart(&self) -> Result<(), Disobeyed> {
        if !start_if_stopped(&self.stage, &self.health) {
            return Err(Disobeyed::NotStopped(self.name.clone()));
        }
        tracing::info!(consumer = %self.name, "starting again, as an operator wants");
        Ok(())
    }

    fn running(&self) -> Result<(), Disobeyed> {
        // One that has failed and is just leaving its group does not run either.
        let runs = *self.stage.borrow() == Stage::Running && self.health.stop_reason().is_none();
        if runs { Ok(()) } else { Err(Disobeyed::NotRunning(self.name.clone())) }
    }

    fn shadow(&self, what: impl Fn(&Launch) -> bool) -> Result<(), Disobeyed> {
        self.running()?;
        match self.launch.upgrade() {
            Some(launch) if what(&launch) => Ok(()),
            _ => Err(Disobeyed::NoShadow(self.name.clone())),
        }
    }

    fn reload(&self) -> Result<(), Disobeyed> {
        self.running()?;
        if let Some(launch) = self.launch.upgrade() {
            launch.orders.look();
        }
        Ok(())
    }

    fn accept(&self, word: Acceptance) -> Result<(), Disobeyed> {
        let not_running = || Disobeyed::NotRunning(self.name.clone());
        let launch = self.launch.upgrade().ok_or_else(not_running)?;
        let stage = *self.stage.borrow();
        match stage {
            Stage::Running => launch.orders.accept(word),
            Stage::Stopped => {
                let recent = launch.running().map(|consumer| consumer.recent_samples()).unwrap_or_default();
                *locked(&launch.accepting) = Some(Arc::new(Accepting::new(word, recent)));
                if let Err(refusal) = self.restart() {
                    *locked(&launch.accepting) = None;
                    return Err(refusal);
                }
            }
            Stage::Done => return Err(not_running()),
        }
        Ok(())
    }

    fn pause(&self, paused: bool) -> Result<(), Disobeyed> {
        self.running()?;
        self.health.paused(paused);
        self.metrics.paused(paused);
        if self.paused.send_replace(paused) != paused {
            let what = if paused { "paused: it takes no records until an operator resumes it" } else { "resumed" };
            tracing::warn!(consumer = %self.name, "{what}");
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    fn control(stage: Stage) -> Control {
        let name = ConsumerName::new("c").unwrap();
        let metrics = Metrics::new().consumer(&name);
        let health = ConsumerHealth::new(name.clone(), 1);
        let (stage, paused) = (Arc::new(watch::channel(stage).0), Arc::new(watch::channel(false).0));
        let control = Control::default();
        control.add(Steering { name, stage, paused, health, metrics, launch: Weak::new() });
        control
    }

    #[test]
    fn only_what_has_stopped_is_started_again_and_only_once() {
        let name = ConsumerName::new("c").unwrap();
        for stage in [Stage::Running, Stage::Done] {
            assert_eq!(control(stage).order("c", Order::Restart), Err(Disobeyed::NotStopped(name.clone())));
        }
        let stopped = control(Stage::Stopped);
        assert_eq!(stopped.order("c", Order::Pause), Err(Disobeyed::NotRunning(name.clone())));
        let state = || stopped.consumers.read().unwrap()[0].health.stop_reason();
        stopped.consumers.read().unwrap()[0].health.stopped("no table".into());
        assert_eq!(stopped.order("c", Order::Restart), Ok(()));
        assert_eq!(state(), None, "what is seen from now on is about the new start");
        assert_eq!(stopped.order("c", Order::Restart), Err(Disobeyed::NotStopped(name)));
        assert_eq!(stopped.order("d", Order::Resume), Err(Disobeyed::Unknown("c".into())));
    }

    #[test]
    fn whoever_has_failed_takes_no_orders_while_it_leaves_its_group() {
        let leaving = control(Stage::Running);
        leaving.consumers.read().unwrap()[0].health.stopped("poison".into());
        let name = ConsumerName::new("c").unwrap();
        assert_eq!(leaving.order("c", Order::Pause), Err(Disobeyed::NotRunning(name)));
    }

    #[test]
    fn a_pause_may_be_said_twice() {
        let running = control(Stage::Running);
        for (order, paused) in [(Order::Pause, true), (Order::Pause, true), (Order::Resume, false)] {
            assert_eq!(running.order("c", order), Ok(()));
            assert_eq!(*running.consumers.read().unwrap()[0].paused.borrow(), paused);
        }
    }
}
