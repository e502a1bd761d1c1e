//! The business rules in force, and all that their verdicts mean.

use std::sync::Arc;

use crate::{
    config,
    merge::Target,
    plugin::{EvaluateContext, Plugin},
    store::{Applier, Registration},
};

/// A plugin with what belongs to it. A batch is evaluated and applied under one and the same.
pub struct Rules {
    /// The business rules.
    pub plugin: Arc<dyn Plugin>,
    /// What evaluating needs beside them.
    pub context: EvaluateContext,
    /// The transaction's logic, with the targets that the verdicts name.
    pub applier: Applier,
    /// Invariant 10: the consumer's active key version, under which the plugin's keys were found to fit.
    pub key_version: i32,
    /// The settings that they were made from; those that are wanted by now may be others.
    pub settings: Arc<config::Consumer>,
    /// What the database is told of the consumer while they are in force.
    pub registration: Registration,
}

impl Rules {
    /// Whether a plugin of this digest, these settings and these targets, as the database has them by now, would make the
    /// same rules. A shadow has no part in them.
    #[must_use]
    pub fn are_made_of(&self, digest: &[u8; 32], settings: &config::Consumer, targets: &[Target]) -> bool {
        self.plugin.digest() == *digest
            && self.settings.rules_alike(settings)
            && self.applier.targets().as_ref() == targets
    }
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rules").field("key_version", &self.key_version).finish_non_exhaustive()
    }
}

/// The rules that a consumer's lanes take for their next batch.
#[derive(Debug)]
pub(super) struct InForce(std::sync::RwLock<Arc<Rules>>);

impl InForce {
    pub(super) fn new(rules: Arc<Rules>) -> Self {
        Self(std::sync::RwLock::new(rules))
    }

    /// The lanes take them for their next batch; what is evaluated already is applied under the rules of before.
    pub(super) fn set(&self, rules: Arc<Rules>) {
        *self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner) = rules;
    }

    pub(super) fn get(&self) -> Arc<Rules> {
        Arc::clone(&self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}
