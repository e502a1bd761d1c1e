//! Other keys on purpose, while the process runs: the consumer ends cleanly, every lane of it, and starts again with the
//! plugin that an operator's word is good for. So no batch is ever computed under one key version and applied under
//! another (Invariant 10), and what other hosts run is fenced as by a start.

use std::sync::{Arc, Mutex};

use super::{
    StartError,
    gates::Asks,
    launch::{Compiled, Launch},
    locked,
    reload::{Tried, failed},
};
use crate::{config, health::ReloadReport, key_gate::Acceptance, metrics::Reloaded, plugin::Plugin, store::KeySample};

/// What the next start may do that others may not. It is gone once that start has come to an end, whichever.
pub(super) struct Accepting {
    /// The operator's word, until it is used up.
    pub(super) words: Mutex<Vec<Acceptance>>,
    /// Inputs of the last minutes with the keys that they had: some consumers keep no others.
    pub(super) recent: Vec<KeySample>,
    /// The plugin.
    loaded: Option<Compiled>,
}

impl Accepting {
    /// Of this word.
    pub(super) fn new(word: Acceptance, recent: Vec<KeySample>) -> Self {
        Self { words: Mutex::new(vec![word]), recent, loaded: None }
    }

    /// The plugin, where these settings load it.
    pub(super) fn plugin(&self, settings: &config::Consumer) -> Option<Arc<dyn Plugin>> {
        let (of, plugin) = self.loaded.as_ref()?;
        of.rules_alike(settings).then(|| Arc::clone(plugin))
    }
}

impl Launch {
    /// Follows an operator's word. Answers whether the consumer has to end for it; otherwise all is done, or nothing.
    pub(super) async fn accepted(&self, word: Acceptance) -> bool {
        let _one = self.reloading.lock().await;
        let settings = self.settings();
        let tried = match self.to_end_for(&settings, &word).await {
            Ok(Some(accepting)) => {
                tracing::warn!(
                    consumer = %settings.name, by = %word.by,
                    "other keys are accepted: finishing what is at hand, then starting again under the next key version"
                );
                *locked(&self.accepting) = Some(Arc::new(accepting));
                return true;
            }
            // Its keys fit, or nothing of it is new: the word is not needed, and gone.
            Ok(None) => {
                let is_it = |found: &[u8; 32]| self.is_the_accepted(&word, found);
                self.try_rules(&settings, is_it).await
            }
            Err(error) => Tried::failed(&error, None),
        };
        self.tell(tried);
        self.shade().await;
        false
    }

    fn is_the_accepted(&self, word: &Acceptance, found: &[u8; 32]) -> Result<(), StartError> {
        if word.covers(&self.settings().name, found) {
            return Ok(());
        }
        Err(StartError::OtherPlugin {
            wanted: "the plugin whose keys are accepted",
            chosen: word.to_string(),
            found: hex::encode(found),
        })
    }

    /// What a start with the word's plugin needs, where only a start can let it rule. It passes all gates before: a plugin
    /// that would not run must not end the one that does.
    async fn to_end_for(
        &self,
        settings: &Arc<config::Consumer>,
        word: &Acceptance,
    ) -> Result<Option<Accepting>, StartError> {
        let Some(consumer) = self.running() else { return Ok(None) };
        let plugin = self.load(settings).await?;
        self.is_the_accepted(word, &plugin.digest())?;
        let store = self.store(settings)?;
        let targets = self.targets(settings, store.as_ref(), plugin.as_ref()).await?;
        let mut accepting = Accepting::new(word.clone(), consumer.recent_samples());
        let asks = Asks::OtherKeys(&consumer, &accepting);
        let (rules, admitted) = self.rules(settings, store.as_ref(), Arc::clone(&plugin), targets, asks).await?;
        if !admitted.by_a_word && rules.key_version == consumer.rules().key_version {
            return Ok(None);
        }
        accepting.loaded = Some((Arc::clone(settings), plugin));
        Ok(Some(accepting))
    }

    /// The start that an operator's word was for has come to its end.
    pub(super) fn accepted_or_not(&self, started: Result<[u8; 32], &StartError>) {
        if locked(&self.accepting).take().is_none() {
            return;
        }
        match started {
            Ok(digest) => {
                self.tell(Tried { result: Reloaded::Taken, digest: Some(digest), why: None, warning: None });
            }
            // No rules are in force: the consumer has stopped, and its state says why.
            Err(error) => {
                let (result, why) = (failed(error), format!("the consumer has stopped: {error}"));
                self.metrics.reloaded(result);
                self.health.reloaded(ReloadReport::now(result, None, Some(why)));
            }
        }
    }
}
