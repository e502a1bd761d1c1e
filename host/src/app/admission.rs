//! Whether a plugin's keys let it run for a consumer, and under which key version: the key gate, with an operator's word.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use super::{StartError, gates::blocking, locked};
use crate::{
    identity::ConsumerName,
    key_gate::{self, Acceptance, KeyFault, Refusal},
    plugin::{EvaluateContext, Plugin},
    store::{KeyChange, KeySample, KeyState, Store},
};

/// What was found.
pub(super) struct Admitted {
    /// The key version to run under.
    pub(super) key_version: i32,
    /// How many samples the database has.
    pub(super) samples: usize,
}

/// Who asks.
pub(super) struct Gate<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) consumer: &'a ConsumerName,
    pub(super) config_file: Option<&'a Path>,
    /// An operator's words that were not used yet; `None` = none is taken.
    pub(super) acceptances: Option<&'a Mutex<Vec<Acceptance>>>,
    /// Whether it would pass is all that is asked: nothing is accepted, no word is used up.
    pub(super) only_looks: bool,
    /// Inputs of the last minutes with their keys, whether or not the database keeps any.
    pub(super) recent: Vec<KeySample>,
}

impl Gate<'_> {
    /// Lets the plugin pass, or says why not.
    ///
    /// # Errors
    /// [`StartError::Keys`] where its keys do not fit and nobody accepts that.
    pub(super) async fn admit(
        &self,
        plugin: &Arc<dyn Plugin>,
        context: &EvaluateContext,
    ) -> Result<Admitted, StartError> {
        let Some(mut state) = self.store.key_state(self.consumer).await? else {
            // The first start ever: its keys are the ledger's.
            return Ok(Admitted { key_version: plugin.description().key_version, samples: 0 });
        };
        let (key_version, samples) = (state.row.key_version, state.samples.len());
        state.samples.extend(self.recent.iter().cloned());
        let asked = (Arc::clone(plugin), context.clone(), state.clone());
        let comparison = blocking(move || {
            let (plugin, context, state) = asked;
            // Invariant 4, before anything is held against the ledger.
            let inputs = key_gate::inputs(&state.samples);
            let held = key_gate::hold(plugin.as_ref(), &inputs, &context)?;
            held.map_err(|moved| moved.of(plugin.as_ref()))?;
            key_gate::compare(plugin.as_ref(), &state.samples, &context)
        })
        .await?;
        let fault = match key_gate::judge(plugin.as_ref(), &state, &comparison) {
            Ok(()) => {
                let name = self.consumer;
                tracing::info!(consumer = %name, samples, lost = comparison.lost, "the plugin's keys fit");
                self.forget_words(plugin);
                return Ok(Admitted { key_version, samples });
            }
            Err(fault) => fault,
        };
        match self.word_for(plugin, &fault) {
            Some(_) if self.only_looks => Ok(Admitted { key_version, samples }),
            Some(word) => {
                let change = KeyChange {
                    consumer: self.consumer.clone(),
                    from_version: key_version,
                    declared: plugin.description().key_version,
                    plugin_digest: plugin.digest(),
                    samples: comparison.rekeyed.clone(),
                    compared: comparison.compared,
                    changed: comparison.changed,
                    by: word.by.clone(),
                };
                self.accept(&change, &fault, &word).await
            }
            None => Err(StartError::Keys(Box::new(self.refusal(plugin, &state, fault)))),
        }
    }

    /// An operator's words on a plugin that needs none are used up: they must not be good for one that comes later.
    fn forget_words(&self, plugin: &Arc<dyn Plugin>) {
        let (Some(words), false) = (self.acceptances, self.only_looks) else { return };
        let mut words = locked(words);
        let before = words.len();
        words.retain(|word| !word.covers(self.consumer, &plugin.digest()));
        if words.len() < before {
            tracing::info!(consumer = %self.consumer, "--accept-key-change: there is nothing to accept");
        }
    }

    /// An operator's word on this plugin. A plugin that cannot make up its mind is never accepted.
    fn word_for(&self, plugin: &Arc<dyn Plugin>, fault: &KeyFault) -> Option<Acceptance> {
        let stable = !matches!(fault, KeyFault::Unstable { .. });
        let words = locked(self.acceptances?);
        words.iter().find(|word| stable && word.covers(self.consumer, &plugin.digest())).cloned()
    }

    async fn accept(&self, change: &KeyChange, fault: &KeyFault, word: &Acceptance) -> Result<Admitted, StartError> {
        let Some(key_version) = self.store.accept_key_change(change).await? else {
            let refusal = format!(
                "another host has changed the key version of consumer {} at this moment: start again",
                self.consumer
            );
            return Err(StartError::Refused { place: self.store.place(), refusal });
        };
        // Good for once: a plugin that comes later has to be accepted anew.
        if let Some(words) = self.acceptances {
            locked(words).retain(|kept| kept != word);
        }
        tracing::warn!(
            consumer = %self.consumer, by = %change.by, from = change.from_version, to = key_version,
            "other keys are accepted, whoever runs under the old ones commits nothing from here on: {fault}"
        );
        Ok(Admitted { key_version, samples: change.samples.len() })
    }

    fn refusal(&self, plugin: &Arc<dyn Plugin>, state: &KeyState, fault: KeyFault) -> Refusal {
        let config = self.config_file.map(|file| crate::seek::quoted(&file.to_string_lossy()));
        Refusal {
            consumer: self.consumer.clone(),
            fault,
            digest: plugin.digest(),
            before: state.row.plugin_digest.clone(),
            active: state.row.key_version,
            config: config.map(|file| format!(" --config {file}")).unwrap_or_default(),
        }
    }
}
