//! Hot reload: another plugin, or the same under other settings, takes over between two batches, once it has passed
//! whatever it would have to pass at a start. Until then, and where it does not pass, the rules of before stay in force.

use std::sync::Arc;

use super::{
    StartError,
    control::Stage,
    gates::Asks,
    launch::{Launch, registration},
    locked,
};
use crate::{
    class::Class,
    config,
    health::{PluginReport, ReloadReport},
    metrics::Reloaded,
    pipeline::{Consumer, Rules},
    store::Registration,
};

/// Rules that have passed every gate and are not in force.
pub(super) struct Candidate {
    settings: Arc<config::Consumer>,
    consumer: Arc<Consumer>,
    registration: Registration,
    rules: Rules,
}

impl Launch {
    /// Looks at the plugin's file again, and takes what it finds if that passes.
    pub(super) async fn reload(&self) -> Reloaded {
        let _one = self.reloading.lock().await;
        let wanted = locked(&self.wanted).take();
        let result = self.reload_with(wanted.unwrap_or_else(|| self.settings())).await;
        if !matches!(result, Reloaded::Taken) {
            self.shade().await;
        }
        result
    }

    /// The same under these settings. The lock on reloads is held.
    async fn reload_with(&self, settings: Arc<config::Consumer>) -> Reloaded {
        let name = settings.name.clone();
        let (result, digest, why) = match self.candidate(settings).await {
            Ok(None) => (Reloaded::Unchanged, None, None),
            Ok(Some(candidate)) => {
                let digest = candidate.rules.plugin.digest();
                match self.announce(&candidate).await {
                    Ok(()) => {
                        self.enforce(candidate).await;
                        (Reloaded::Taken, Some(digest), None)
                    }
                    Err(error) => (failed(&error), Some(digest), Some(error.to_string())),
                }
            }
            Err(error) => (failed(&error), None, Some(error.to_string())),
        };
        match (&why, result) {
            (Some(why), _) => tracing::error!(consumer = %name, "the rules of before stay in force: {why}"),
            (None, Reloaded::Unchanged) => tracing::info!(consumer = %name, "asked to reload: nothing has changed"),
            (None, _) => {}
        }
        self.metrics.reloaded(result);
        self.health.reloaded(ReloadReport::now(result, digest, why));
        result
    }

    /// Compiles and examines, off the path. `None`: nothing differs from what is in force, or nothing runs.
    pub(super) async fn candidate(&self, settings: Arc<config::Consumer>) -> Result<Option<Candidate>, StartError> {
        let Some(consumer) = self.running() else { return Ok(None) };
        let plugin = self.load(&settings).await?;
        if plugin.digest() == consumer.rules().plugin.digest() && *settings == *self.settings() {
            return Ok(None);
        }
        let store = self.store(&settings)?;
        let targets = self.targets(&settings, store.as_ref(), plugin.as_ref()).await?;
        let (rules, _) = self.rules(&settings, store.as_ref(), plugin, targets, Asks::Reload(&consumer)).await?;
        let in_force = consumer.rules().key_version;
        if rules.key_version != in_force {
            // Another host has accepted other keys: this one is fenced, and says so at its next commit.
            let place = store.place();
            let refusal = format!(
                "the key version of consumer {} is {} by now, this host runs under {in_force}: start it again",
                settings.name, rules.key_version
            );
            return Err(StartError::Refused { place, refusal });
        }
        let registration = registration(&settings, &rules);
        Ok(Some(Candidate { settings, consumer, registration, rules }))
    }

    /// Whether a consumer of these settings would start, as far as plugin and database go.
    pub(super) async fn examine(&self, settings: &Arc<config::Consumer>) -> Result<(), StartError> {
        let store = self.store(settings)?;
        let plugin = self.load(settings).await?;
        let targets = self.targets(settings, store.as_ref(), plugin.as_ref()).await?;
        self.rules(settings, store.as_ref(), plugin, targets, Asks::Beforehand).await.map(drop)
    }

    /// Settings for a consumer that does not run: its next start has them, and if it had stopped, it starts now.
    pub(super) async fn start_with(&self, settings: Arc<config::Consumer>) {
        *locked(&self.settings) = settings;
        *self.compiled.lock().await = None;
        let stopped = |stage: &mut Stage| {
            let stopped = *stage == Stage::Stopped;
            if stopped {
                *stage = Stage::Running;
            }
            stopped
        };
        if !self.stage.send_if_modified(stopped) {
            self.told.notify_one();
        }
    }

    /// Says in the database which plugin rules from now on.
    pub(super) async fn announce(&self, candidate: &Candidate) -> Result<(), StartError> {
        self.register(self.store(&candidate.settings)?.as_ref(), &candidate.registration).await
    }

    /// Puts rules in force that have passed: each lane takes them for its next batch. Their shadow comes with them.
    pub(super) async fn enforce(&self, candidate: Candidate) {
        let Candidate { settings, consumer, rules, .. } = candidate;
        let plugin = Arc::clone(&rules.plugin);
        // A start that comes later begins with these.
        *self.compiled.lock().await = Some(Arc::clone(&plugin));
        self.health.runs(PluginReport::of(plugin.as_ref()));
        tracing::info!(
            consumer = %settings.name, plugin = %plugin.description().name, version = %plugin.description().version,
            sha256 = %crate::key_gate::short(&plugin.digest()), "reloaded: other rules are in force from the next batch on"
        );
        *locked(&self.settings) = settings;
        consumer.rule_by(rules);
        self.shade().await;
    }
}

/// Whether trying again may help.
pub(super) fn failed(error: &StartError) -> Reloaded {
    if error.class() == Class::Transient { Reloaded::Failed } else { Reloaded::Refused }
}
