//! What a consumer's configuration says about evaluating.

use std::{collections::HashMap, sync::Arc};

use crate::{
    config::{Consumer, Payload, PluginLimits, Tombstones},
    merge::TargetSpec,
    outcome::POISON_PER_BATCH,
};

/// Everything that [`super::evaluate`] needs besides plugin and batch. Made once per consumer.
#[derive(Clone, Debug)]
pub struct EvaluateContext {
    /// How the plugin gets the payload.
    pub payload: Payload,
    /// What becomes of records without a value.
    pub tombstones: Tombstones,
    /// From a topic's name to what the plugin is told of it. A topic that is absent is called "default".
    pub sources: HashMap<Arc<str>, Arc<str>>,
    /// What the plugin may write. [`crate::outcome::Change::target`] is an index into this.
    pub targets: Arc<[TargetSpec]>,
    /// The budgets that are checked here; those of the sandbox are the plugin's own.
    pub limits: PluginLimits,
    /// The most records of one batch that may break the plugin. One more, and it is the plugin that is broken: the
    /// batch fails as a whole, so that a bad plugin does not move a topic into the dead letters. [`POISON_PER_BATCH`], but
    /// where a plugin is only tried out.
    pub max_broken: usize,
}

impl EvaluateContext {
    /// What the plugin is told of a topic.
    #[must_use]
    pub fn source_of(&self, topic: &str) -> Arc<str> {
        self.sources.get(topic).cloned().unwrap_or_else(|| Arc::from("default"))
    }

    /// As a consumer's configuration says.
    #[must_use]
    pub fn of(consumer: &Consumer) -> Self {
        let sources = consumer.topics.iter().map(|topic| (Arc::from(topic.name.as_str()), Arc::clone(&topic.source)));
        Self {
            payload: consumer.payload,
            tombstones: consumer.tombstones,
            sources: sources.collect(),
            targets: consumer.targets.as_slice().into(),
            limits: consumer.plugin.limits,
            max_broken: usize::from(POISON_PER_BATCH),
        }
    }
}
