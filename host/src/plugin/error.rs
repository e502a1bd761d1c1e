//! What can go wrong on the plugin's side.

use crate::class::Class;

/// A plugin broke, or broke a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// The guest trapped: panic, unreachable, out of bounds.
    #[error("plugin {plugin} trapped in {entry}: {message}")]
    Trap {
        /// Its name.
        plugin: String,
        /// describe, configure, extract-keys or compute.
        entry: &'static str,
        /// The trap, and what the guest wrote to stderr.
        message: String,
    },
}

impl PluginError {
    /// What to do about it.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Trap { .. } => Class::Poison,
        }
    }
}
