//! Which plugin rules, and what became of the last try to replace it.

use serde::Serialize;

use crate::{metrics::Reloaded, plugin::Plugin};

/// A plugin, for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PluginReport {
    /// Its name.
    pub name: String,
    /// Its version, as it says.
    pub version: String,
    /// Its file's digest.
    pub sha256: String,
    /// Inputs that its keys were held against before it ruled; `None` = it was the consumer's first.
    pub keys_held_against: Option<usize>,
    /// What a person should know of that.
    pub warning: Option<String>,
}

impl PluginReport {
    /// Of this one.
    #[must_use]
    pub fn of(plugin: &dyn Plugin, keys_held_against: Option<usize>, warning: Option<String>) -> Self {
        let described = plugin.description();
        Self {
            name: described.name.clone(),
            version: described.version.clone(),
            sha256: hex::encode(plugin.digest()),
            keys_held_against,
            warning,
        }
    }
}

/// A reload, for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReloadReport {
    /// taken, unchanged, refused, failed.
    pub result: &'static str,
    /// When, as a time in UTC.
    pub at: String,
    /// The plugin's digest, where it came so far.
    pub sha256: Option<String>,
    /// Why the rules of before stay in force.
    pub why: Option<String>,
    /// What a person should know of what was taken.
    pub warning: Option<String>,
}

impl ReloadReport {
    /// That ends now.
    #[must_use]
    pub fn now(result: Reloaded, digest: Option<[u8; 32]>, why: Option<String>) -> Self {
        let at = std::time::SystemTime::now();
        let at = jiff::Timestamp::try_from(at).map(|at| at.to_string()).unwrap_or_default();
        Self { result: result.label(), at, sha256: digest.map(hex::encode), why, warning: None }
    }
}
