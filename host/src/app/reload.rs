//! Hot reload: another plugin, or the same under other settings, takes over between two batches, once it has passed
//! whatever it would have to pass at a start. Until then, and where it does not pass, the rules of before stay in force.

use std::sync::Arc;

use super::{
    StartError,
    admission::Admitted,
    control::start_if_stopped,
    gates::Asks,
    launch::Launch,
    locked,
    orders::{Promotion, Told},
    watch,
};
use crate::{
    class::Class,
    config,
    file_stamp::Files,
    health::{PluginReport, ReloadReport},
    metrics::Reloaded,
    pipeline::{Consumer, Rules},
    plugin::Plugin,
};

/// Rules that have passed every gate and are not in force.
pub(super) struct Candidate {
    consumer: Arc<Consumer>,
    rules: Rules,
    admitted: Admitted,
}

/// What was found where a plugin should be.
pub(super) enum Found {
    /// Its consumer does not run: there is nothing to hold it against.
    NotRunning,
    /// What is in force is made of just this.
    Same,
    /// Something else, which may rule.
    Other(Box<Candidate>),
}

/// How a try to put other rules in force ended.
pub(super) struct Tried {
    pub(super) result: Reloaded,
    pub(super) digest: Option<[u8; 32]>,
    pub(super) why: Option<String>,
    pub(super) warning: Option<String>,
}

impl Tried {
    pub(super) fn failed(error: &StartError, digest: Option<[u8; 32]>) -> Self {
        Self { result: failed(error), digest, why: Some(error.to_string()), warning: None }
    }
}

impl Launch {
    /// Does what it is told, one after the other. Resolves where the consumer has to end, so that a plugin with other
    /// keys can rule, which an operator has accepted.
    pub(super) async fn follow_orders(&self) {
        let settings = self.settings();
        if self.running().is_some_and(|consumer| !consumer.rules().settings.rules_alike(&settings)) {
            // They came while it started under others.
            self.reload().await;
        } else {
            self.shade().await;
        }
        loop {
            match self.orders.next().await {
                Told::Look => self.reload().await,
                Told::Promote(promotion) => self.promoted(*promotion).await,
                Told::Accept(word) => {
                    if self.accepted(word).await {
                        return;
                    }
                }
            }
        }
    }

    /// Looks at the plugin's file again, and takes what it finds if that passes.
    async fn reload(&self) {
        let _one = self.reloading.lock().await;
        let settings = self.settings();
        self.ruling.reads(watch::files(&settings.plugin));
        let tried = self.try_rules(&settings, |_| Ok(())).await;
        self.tell(tried);
        // The shadow's file may be another one as well.
        self.shade().await;
    }

    /// Lets a shadow's plugin rule, if it passes. Whatever else the configuration says by now stays.
    async fn promoted(&self, Promotion { plugin, digest }: Promotion) {
        let _one = self.reloading.lock().await;
        let settings = self.settings();
        let files = Files::of(watch::files(&plugin));
        let with_it = Arc::new(config::Consumer { plugin: plugin.clone(), ..(*settings).clone() });
        let tried = self
            .try_rules(&with_it, |found| match digest {
                Some(chosen) if chosen != *found => Err(StartError::OtherPlugin {
                    wanted: "the shadow that was to rule",
                    chosen: hex::encode(chosen),
                    found: hex::encode(found),
                }),
                _ => Ok(()),
            })
            .await;
        if matches!(tried.result, Reloaded::Taken | Reloaded::Unchanged) {
            self.ruling.replace(files);
            let mut settings = locked(&self.settings);
            if settings.plugin != plugin {
                tracing::warn!(
                    consumer = %settings.name,
                    "the shadow was promoted, and its file is what is watched from now on; the configuration says otherwise, and the \
                     next time that it is read, or a restart, goes back: write path = \"{}\" into [consumer.plugin], with the \
                     shadow's other keys", plugin.origin
                );
            }
            // It looks on no longer; another one that has come meanwhile does.
            let shadow = settings.shadow.clone().filter(|shadow| *shadow != plugin);
            *settings = Arc::new(config::Consumer { plugin, shadow, ..(**settings).clone() });
        }
        self.tell(tried);
        self.shade().await;
    }

    /// Tries to have rules of these settings. `chosen` may refuse a plugin by its digest. The lock on reloads is held.
    pub(super) async fn try_rules(
        &self,
        settings: &Arc<config::Consumer>,
        chosen: impl Fn(&[u8; 32]) -> Result<(), StartError>,
    ) -> Tried {
        let found = match self.load(settings).await {
            Ok(plugin) => match chosen(&plugin.digest()) {
                Ok(()) => self.candidate_of(settings, plugin).await,
                Err(error) => Err(error),
            },
            Err(error) => Err(error.into()),
        };
        let candidate = match found {
            Ok(Found::Other(candidate)) => candidate,
            Ok(Found::Same | Found::NotRunning) => {
                return Tried { result: Reloaded::Unchanged, digest: None, why: None, warning: None };
            }
            Err(error) => return Tried::failed(&error, None),
        };
        let digest = Some(candidate.rules.plugin.digest());
        if let Err(error) = self.announce(&candidate).await {
            self.take_back(&candidate).await;
            return Tried::failed(&error, digest);
        }
        let warning = candidate.admitted.warning.clone();
        self.enforce(*candidate);
        Tried { result: Reloaded::Taken, digest, why: None, warning }
    }

    /// Tells people how it ended.
    pub(super) fn tell(&self, Tried { result, digest, why, warning }: Tried) {
        let name = self.settings().name.clone();
        match (&why, result) {
            (Some(why), _) => tracing::error!(consumer = %name, "the rules of before stay in force: {why}"),
            (None, Reloaded::Unchanged) => tracing::info!(consumer = %name, "asked to reload: nothing has changed"),
            (None, _) => {}
        }
        self.metrics.reloaded(result);
        self.health.reloaded(ReloadReport { warning, ..ReloadReport::now(result, digest, why) });
    }

    /// Compiles and examines what is found under these settings, off the path.
    pub(super) async fn candidate(&self, settings: &Arc<config::Consumer>) -> Result<Found, StartError> {
        let plugin = self.load(settings).await?;
        self.candidate_of(settings, plugin).await
    }

    async fn candidate_of(
        &self,
        settings: &Arc<config::Consumer>,
        plugin: Arc<dyn Plugin>,
    ) -> Result<Found, StartError> {
        let Some(consumer) = self.running() else { return Ok(Found::NotRunning) };
        let store = self.store(settings)?;
        let targets = self.targets(settings, store.as_ref(), plugin.as_ref()).await?;
        if consumer.rules().are_made_of(&plugin.digest(), settings, &targets) {
            return Ok(Found::Same);
        }
        let (rules, admitted) = self.rules(settings, store.as_ref(), plugin, targets, Asks::Reload(&consumer)).await?;
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
        Ok(Found::Other(Box::new(Candidate { consumer, rules, admitted })))
    }

    /// Whether a consumer of these settings would start, as far as plugin and database go.
    pub(super) async fn examine(&self, settings: &Arc<config::Consumer>) -> Result<(), StartError> {
        let store = self.store(settings)?;
        let plugin = self.load(settings).await?;
        let targets = self.targets(settings, store.as_ref(), plugin.as_ref()).await?;
        self.rules(settings, store.as_ref(), plugin, targets, Asks::Beforehand).await.map(drop)
    }

    /// The configuration says this from now on, and said `before` when that was decided on. A shadow that an operator has
    /// dropped since then stays away.
    pub(super) fn is_to_be(&self, before: &config::Consumer, mut new: config::Consumer) {
        let mut settings = locked(&self.settings);
        if settings.shadow.is_none() && new.shadow == before.shadow {
            new.shadow = None;
        }
        *settings = Arc::new(new);
    }

    /// Its settings have changed and it does not run: its next start has them, and if it had stopped, it starts now.
    pub(super) fn start_anew(&self) {
        if !start_if_stopped(&self.stage, &self.health) {
            self.orders.look();
        }
    }

    /// Says in the database which plugin rules from now on.
    pub(super) async fn announce(&self, candidate: &Candidate) -> Result<(), StartError> {
        self.register(self.store(&candidate.rules.settings)?.as_ref(), &candidate.rules.registration).await
    }

    /// Says in the database that it is still the plugin of before which rules: an announcement may have arrived there
    /// though nobody heard so, and the candidate is not taken.
    pub(super) async fn take_back(&self, candidate: &Candidate) {
        let in_force = candidate.consumer.rules();
        let told = match self.store(&in_force.settings) {
            Ok(store) => self.register(store.as_ref(), &in_force.registration).await,
            Err(error) => Err(error),
        };
        if let Err(error) = told {
            tracing::warn!(
                consumer = %in_force.settings.name, rules = %crate::key_gate::short(&in_force.plugin.digest()),
                "the database may name another plugin than the one that rules, until the next reload that is taken, or start: {error}"
            );
        }
    }

    /// Puts rules in force that have passed and are announced: each lane takes them for its next batch.
    pub(super) fn enforce(&self, Candidate { consumer, rules, admitted }: Candidate) {
        let plugin = Arc::clone(&rules.plugin);
        // Settings and targets are rules, too.
        let what = if consumer.rules().plugin.digest() == plugin.digest() {
            "the same plugin rules under other settings"
        } else {
            "other rules are in force"
        };
        let described = plugin.description();
        self.health.runs(PluginReport::of(plugin.as_ref(), admitted.compared, admitted.warning));
        tracing::info!(
            consumer = %rules.settings.name, plugin = %described.name, version = %described.version,
            sha256 = %crate::key_gate::short(&plugin.digest()), "reloaded: {what} from the next batch on"
        );
        consumer.rule_by(rules);
    }
}

/// Whether trying again may help.
pub(super) fn failed(error: &StartError) -> Reloaded {
    if error.class() == Class::Transient { Reloaded::Failed } else { Reloaded::Refused }
}
