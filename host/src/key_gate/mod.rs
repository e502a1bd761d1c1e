//! The key gate: a plugin that gives inputs other keys than its predecessor must not run by accident. What was applied
//! under the old keys would not be recognised when it comes again, and would be applied twice.
//!
//! A consumer has one *active key version* in the database, checked in every transaction (Invariant 10). It begins as what
//! the first plugin declares of itself, and grows when an operator accepts other keys: whoever still runs under the old
//! version can commit nothing from then on. A plugin may run if it declares what the last accepted one declared, gives the
//! kept samples the keys that they had, and is none that an accepted change has replaced. [`compare`] asks the plugin,
//! [`judge`] decides.

mod acceptance;
mod compare;
mod metamorphic;

use std::fmt;

pub use acceptance::Acceptance;
pub use compare::{Comparison, Difference, compare, inputs};
pub use metamorphic::{Moved, hold, hold_live};

use crate::{identity::ConsumerName, plugin::Plugin, store::KeyState};

/// Differences that are shown, of as many as there are.
pub const SHOWN: usize = 3;

/// Why a plugin's keys do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// The author says so.
    #[error("it declares key version {says}, the plugin that the ledger's keys are of declares {expected}")]
    Declared {
        /// The plugin.
        says: i32,
        /// The active one.
        expected: i32,
    },
    /// An accepted change has replaced this plugin.
    #[error("this very plugin was replaced when an operator accepted a change of keys")]
    Replaced,
    /// Its keys are others.
    #[error("{changed} of {compared} inputs that were applied get other keys: {}", joined(.shown))]
    Changed {
        /// How many.
        changed: usize,
        /// Of how many.
        compared: usize,
        /// The first few.
        shown: Vec<Difference>,
    },
    /// It knows none of the inputs.
    #[error("it gives a key to none of {compared} inputs that were applied")]
    Lost {
        /// How many were tried.
        compared: usize,
    },
}

fn joined(shown: &[Difference]) -> String {
    shown.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Whether a plugin's keys fit. `comparison` is over [`KeyState::samples`]. Pure.
///
/// # Errors
/// The first fault found; the one that says most.
pub fn judge(plugin: &dyn Plugin, state: &KeyState, comparison: &Comparison) -> Result<(), KeyFault> {
    comparison.fault().map_or(Ok(()), Err)?;
    let says = plugin.description().key_version;
    if says != state.declared {
        return Err(KeyFault::Declared { says, expected: state.declared });
    }
    if state.replaced.iter().any(|digest| *digest == plugin.digest()) {
        return Err(KeyFault::Replaced);
    }
    Ok(())
}

/// A plugin that is not taken, with what it would mean and the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Whose.
    pub consumer: ConsumerName,
    /// Why.
    pub fault: KeyFault,
    /// SHA-256 of the plugin.
    pub digest: [u8; 32],
    /// SHA-256 of the one that the consumer ran last.
    pub before: Vec<u8>,
    /// The active key version.
    pub active: i32,
    /// The command's `--config FILE`, with a blank before it, where there is a file.
    pub config: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { consumer, fault, digest, before, active, config } = self;
        write!(f, "error[TG009]: consumer {consumer} does not take the plugin {}…: {fault}; ", short(digest))?;
        write!(
            f,
            "duplicates of what was applied would not be recognised, and would be applied again; deploy the plugin of \
             before ({}…), or, where other keys are meant, run `tidegate run --accept-key-change {}{config}`, or, while \
             it runs, `tidegate consumers reload {} --accept-key-change {}{config}`: it raises the key version from \
             {active}, ends whoever runs under the old one, and is recorded in key_changes",
            short(before),
            crate::seek::quoted(&Acceptance::word(consumer, digest)),
            crate::seek::quoted(consumer.as_str()),
            hex::encode(digest)
        )
    }
}

/// Enough of a digest to tell plugins apart.
pub(crate) fn short(digest: &[u8]) -> String {
    hex::encode(&digest[..digest.len().min(6)])
}

#[cfg(test)]
mod tests;
