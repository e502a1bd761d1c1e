//! Whether a plugin's keys let it run for a consumer, and under which key version: the key gate, with an operator's word.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use super::{StartError, gates::blocking, locked};
use crate::{
    identity::ConsumerName,
    key_gate::{self, Acceptance, KeyFault, Refusal},
    pipeline::LARGEST_SAMPLE,
    plugin::{EvaluateContext, Plugin, identities},
    store::{KEY_SAMPLES, KeyChange, KeySample, KeyState, Store},
};

/// What was found.
pub(super) struct Admitted {
    /// The key version to run under.
    pub(super) key_version: i32,
    /// How many samples the database has.
    pub(super) samples: usize,
    /// How many inputs its keys were held against; `None` = at its first start there are no keys but its own.
    pub(super) compared: Option<usize>,
    /// What a person should know.
    pub(super) warning: Option<String>,
    /// Whether it passes by an operator's word alone.
    pub(super) by_a_word: bool,
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
    /// Applied inputs of this process that were too large to be among them.
    pub(super) left_out: usize,
    /// Whether the database may keep inputs.
    pub(super) keeps: bool,
    /// Whether the plugin, or its settings, are known to be others than those that rule.
    pub(super) other_rules: bool,
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
            let key_version = plugin.description().key_version;
            return Ok(Admitted { key_version, samples: 0, compared: None, warning: None, by_a_word: false });
        };
        let (key_version, samples) = (state.row.key_version, state.samples.len());
        state.samples.extend(self.recent.iter().cloned());
        let asked = (Arc::clone(plugin), context.clone(), state.clone());
        let comparison = blocking(move || {
            let (plugin, context, state) = asked;
            // Invariant 4, before anything is held against the ledger.
            let inputs = key_gate::inputs(&state.samples);
            let keys = identities(plugin.as_ref(), &inputs, &context)?;
            let held = key_gate::hold(plugin.as_ref(), &inputs, &keys, &context)?;
            held.map_err(|moved| moved.of(plugin.as_ref()))?;
            Ok(key_gate::compare(&state.samples, keys))
        })
        .await?;
        let fault = match key_gate::judge(plugin.as_ref(), &state, &comparison) {
            Ok(()) => {
                let (name, compared) = (self.consumer, comparison.compared);
                tracing::info!(consumer = %name, compared, lost = comparison.lost, "the plugin's keys fit");
                self.forget_words(plugin);
                // The very plugin that made the ledger's keys needs no proof.
                let other = self.other_rules || state.row.plugin_digest != plugin.digest();
                let unproven = compared == 0 && other;
                let warning = unproven.then(|| self.unproven());
                if let Some(warning) = &warning {
                    tracing::warn!(consumer = %name, "{warning}");
                }
                return Ok(Admitted { key_version, samples, compared: Some(compared), warning, by_a_word: false });
            }
            Err(fault) => fault,
        };
        match self.word_for(plugin) {
            Some(_) if self.only_looks => {
                let compared = Some(comparison.compared);
                Ok(Admitted { key_version, samples, compared, warning: None, by_a_word: true })
            }
            Some(word) => {
                let change = KeyChange {
                    consumer: self.consumer.clone(),
                    from_version: key_version,
                    declared: plugin.description().key_version,
                    plugin_digest: plugin.digest(),
                    samples: self.kept(comparison.rekeyed.clone()),
                    compared: comparison.compared,
                    changed: comparison.changed,
                    by: word.by.clone(),
                };
                self.accept(&change, &fault, &word).await
            }
            None => Err(StartError::Keys(Box::new(self.refusal(plugin, &state, fault)))),
        }
    }

    /// Of these samples those that the database may have.
    fn kept(&self, mut samples: Vec<KeySample>) -> Vec<KeySample> {
        samples.truncate(if self.keeps { KEY_SAMPLES.unsigned_abs() as usize } else { 0 });
        samples
    }

    /// That a plugin has passed without being asked anything.
    fn unproven(&self) -> String {
        let mut text =
            "the plugin's keys were held against no input: none is kept; if they are other keys than those of \
                        the ledger, what comes again is applied again"
                .to_owned();
        if self.left_out > 0 {
            let (left_out, most) = (self.left_out, LARGEST_SAMPLE >> 10);
            text.push_str(&format!(" ({left_out} applied inputs of more than {most} KiB were too large to be kept)"));
        }
        text
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

    /// An operator's word on this plugin.
    fn word_for(&self, plugin: &Arc<dyn Plugin>) -> Option<Acceptance> {
        let words = locked(self.acceptances?);
        words.iter().find(|word| word.covers(self.consumer, &plugin.digest())).cloned()
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
        let (samples, compared) = (change.samples.len(), Some(change.compared));
        Ok(Admitted { key_version, samples, compared, warning: None, by_a_word: true })
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
