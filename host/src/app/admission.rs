//! Whether a plugin's keys let it run for a consumer, and under which key version: the key gate, with an operator's word.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use super::{StartError, locked};
use crate::{
    identity::ConsumerName,
    key_gate::{self, Acceptance, KeyFault, Refusal},
    plugin::{EvaluateContext, Plugin, PluginError},
    store::{KeyChange, KeyState, Store},
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
    /// An operator's words that were not used yet.
    pub(super) acceptances: &'a Mutex<Vec<Acceptance>>,
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
        let Some(state) = self.store.key_state(self.consumer).await? else {
            // The first start ever: its keys are the ledger's.
            return Ok(Admitted { key_version: plugin.description().key_version, samples: 0 });
        };
        let (key_version, samples) = (state.row.key_version, state.samples.len());
        let asked = (Arc::clone(plugin), context.clone(), state.clone());
        let compared = tokio::task::spawn_blocking(move || {
            let (plugin, context, state) = asked;
            key_gate::compare(plugin.as_ref(), &state.samples, &context)
        });
        let comparison =
            compared.await.unwrap_or_else(|panic| Err(PluginError::Host { message: panic.to_string() }))?;
        let fault = match key_gate::judge(plugin.as_ref(), &state, &comparison) {
            Ok(()) => {
                let name = self.consumer;
                tracing::info!(consumer = %name, samples, lost = comparison.lost, "the plugin's keys fit");
                if locked(self.acceptances).iter().any(|word| word.names(name)) {
                    tracing::info!(consumer = %name, "--accept-key-change: there is nothing to accept");
                }
                return Ok(Admitted { key_version, samples });
            }
            Err(fault) => fault,
        };
        match self.word_for(plugin, &fault) {
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

    /// An operator's word on this plugin. A plugin that cannot make up its mind is never accepted.
    fn word_for(&self, plugin: &Arc<dyn Plugin>, fault: &KeyFault) -> Option<Acceptance> {
        let stable = !matches!(fault, KeyFault::Unstable { .. });
        let words = locked(self.acceptances);
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
        locked(self.acceptances).retain(|kept| kept != word);
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
