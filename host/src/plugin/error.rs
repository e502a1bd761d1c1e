//! What can go wrong on the plugin's side, and what to do about it.

use std::fmt;

use crate::class::Class;

/// A way into a guest. Each is budgeted (Invariant 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// Making the instance: memories, data segments, a start function.
    Instantiate,
    /// `describe`, once, when the plugin is loaded.
    Describe,
    /// `configure`, once per instance.
    Configure,
    /// `extract-keys`, once per instance.
    ExtractKeys,
    /// `compute`, once per instance.
    Compute,
}

impl Entry {
    /// The entry's name in the contract.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Instantiate => "instantiate",
            Self::Describe => "describe",
            Self::Configure => "configure",
            Self::ExtractKeys => "extract-keys",
            Self::Compute => "compute",
        }
    }

    /// Whether what goes wrong here can be one record's fault.
    pub(super) fn sees_records(self) -> bool {
        matches!(self, Self::ExtractKeys | Self::Compute)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A budget that a plugin can exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// CPU time of one entry, in milliseconds: a base, and so much per event.
    Cpu,
    /// Bytes over all memories of an instance.
    Memory,
    /// Elements over all tables of an instance.
    Tables,
    /// Changes that one event may give.
    Changes,
    /// Bytes of a batch's answer.
    Output,
}

impl Limit {
    /// The dead letter's code where one record exceeds it alone.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Cpu => "plugin-cpu",
            Self::Memory => "plugin-memory",
            Self::Tables => "plugin-tables",
            Self::Changes => "plugin-changes",
            Self::Output => "plugin-output",
        }
    }

    /// The limit in words, with its unit.
    fn unit(self) -> &'static str {
        match self {
            Self::Cpu => "ms of CPU time",
            Self::Memory => "bytes of memory",
            Self::Tables => "table elements",
            Self::Changes => "changes per event",
            Self::Output => "bytes of output",
        }
    }

    /// The way out.
    fn way_out(self) -> &'static str {
        match self {
            Self::Cpu => "raise limits.cpu_per_event (or limits.cpu_base) if the plugin really needs more",
            Self::Memory => "raise limits.memory if the plugin really needs more",
            Self::Tables => "this is fixed: build the plugin with smaller tables",
            Self::Changes => "raise limits.changes_per_event if one event really changes so many rows",
            Self::Output => "raise limits.output_per_event if the rows are really so big",
        }
    }
}

/// A plugin broke, broke a limit or the contract, or cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// The guest trapped: panic, unreachable, out of bounds.
    #[error("plugin {plugin} trapped in {entry} of a batch of {batch}: {message}")]
    Trap {
        /// Its name.
        plugin: String,
        /// Where.
        entry: Entry,
        /// Messages in the batch.
        batch: usize,
        /// The trap, and what the guest wrote about it.
        message: String,
    },
    /// The guest called a function of WASI that a plugin is not granted, or not here.
    #[error("plugin {plugin} is not granted what it called in {entry} of a batch of {batch}: {message}")]
    Denied {
        /// Its name.
        plugin: String,
        /// Where.
        entry: Entry,
        /// Messages in the batch.
        batch: usize,
        /// The function, with interface and version; why not, and what to use instead.
        message: String,
    },
    /// The guest wanted more than its budget.
    #[error("plugin {plugin} exceeded {allowed} {} in {entry} of a batch of {batch}: {}", limit.unit(), limit.way_out())]
    Limit {
        /// Its name.
        plugin: String,
        /// Where.
        entry: Entry,
        /// Messages in the batch.
        batch: usize,
        /// Which budget.
        limit: Limit,
        /// The budget's size for this batch, in the limit's unit.
        allowed: u64,
    },
    /// The guest answered something that the contract does not allow.
    #[error("plugin {plugin} broke the contract in {entry} of a batch of {batch}: {message}")]
    Contract {
        /// Its name.
        plugin: String,
        /// Where.
        entry: Entry,
        /// Messages in the batch.
        batch: usize,
        /// What was wrong.
        message: String,
    },
    /// The far wall-clock cap: the machine was too busy to give the plugin its CPU time.
    #[error(
        "plugin {plugin} did not get through {entry} of a batch of {batch} in {seconds} s, though within its CPU \
         budget: this machine is overloaded or was suspended"
    )]
    WallClock {
        /// Its name.
        plugin: String,
        /// Where.
        entry: Entry,
        /// Messages in the batch.
        batch: usize,
        /// The cap.
        seconds: u64,
    },
    /// The host could not make an instance: no address space, no memory.
    #[error("no instance of plugin {plugin} could be made: {message}")]
    Instance {
        /// Its name.
        plugin: String,
        /// Why.
        message: String,
    },
    /// A target, column or operation that the configuration does not grant.
    #[error("plugin {plugin}: {message}")]
    NotGranted {
        /// Its name.
        plugin: String,
        /// What it asked for and what is granted.
        message: String,
    },
    /// The plugin said no to its settings.
    #[error("plugin {plugin} refuses its settings: {message}; see [consumer.plugin] settings")]
    Settings {
        /// Its name.
        plugin: String,
        /// Its own words.
        message: String,
    },
    /// The file cannot be used as a plugin.
    #[error("plugin {path}: {message}")]
    Load {
        /// The file.
        path: String,
        /// What is wrong and what to do.
        message: String,
    },
    /// The plugin is in a registry that does not answer, and was not fetched before.
    #[error("plugin {path} cannot be fetched, and was not fetched before: {message}")]
    Unreachable {
        /// Where it is.
        path: String,
        /// The client's words.
        message: String,
    },
    /// So many records of one batch break the plugin that the plugin is what is broken.
    #[error(
        "plugin {plugin} breaks on {broken} records of one batch of {batch}, more than the {allowed} that are taken for \
         broken input; nothing of this batch was applied. The last was: {last}"
    )]
    Broken {
        /// Its name.
        plugin: String,
        /// Records found so far.
        broken: usize,
        /// Messages in the batch.
        batch: usize,
        /// The most that is allowed.
        allowed: usize,
        /// The last one's error.
        last: String,
    },
    /// The key of an input depends on its company, its place or its position (Invariant 4).
    #[error(
        "error[TG001]: plugin {plugin}: {message}; a key must come from the input alone: take the id that the producer \
         put into the event"
    )]
    KeysMoved {
        /// Its name.
        plugin: String,
        /// What was done, and the ids.
        message: String,
    },
    /// The host itself panicked in a compute job, or its compute threads are gone.
    #[error("a compute job failed in the host itself: {message}")]
    Host {
        /// The panic's text.
        message: String,
    },
}

impl PluginError {
    /// What to do about it. Poison only after [`crate::plugin::evaluate`] has shown it alone (Invariant 6).
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Trap { entry, .. }
            | Self::Denied { entry, .. }
            | Self::Limit { entry, .. }
            | Self::Contract { entry, .. } => {
                if entry.sees_records() {
                    Class::Poison
                } else {
                    Class::Fatal
                }
            }
            Self::WallClock { .. } | Self::Instance { .. } | Self::Unreachable { .. } => Class::Transient,
            Self::NotGranted { .. }
            | Self::Settings { .. }
            | Self::Load { .. }
            | Self::Broken { .. }
            | Self::KeysMoved { .. }
            | Self::Host { .. } => Class::Fatal,
        }
    }

    /// A short stable word for metrics, and the code of the dead letter where it comes to that.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Trap { .. } => "plugin-trap",
            Self::Denied { .. } => "plugin-denied",
            Self::Limit { limit, .. } => limit.code(),
            Self::Contract { .. } => "plugin-contract",
            Self::WallClock { .. } => "plugin-wall-clock",
            Self::Instance { .. } => "plugin-instance",
            Self::NotGranted { .. } => "plugin-not-granted",
            Self::Settings { .. } => "plugin-settings",
            Self::Load { .. } => "plugin-load",
            Self::Unreachable { .. } => "plugin-unreachable",
            Self::Broken { .. } => "plugin-broken",
            Self::KeysMoved { .. } => "plugin-keys-moved",
            Self::Host { .. } => "plugin-host",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_entries_that_see_records_can_make_poison() {
        let trap = |entry| PluginError::Trap { plugin: "p".into(), entry, batch: 1, message: "unreachable".into() };
        assert_eq!(trap(Entry::Compute).class(), Class::Poison);
        assert_eq!(trap(Entry::ExtractKeys).class(), Class::Poison);
        for entry in [Entry::Instantiate, Entry::Describe, Entry::Configure] {
            assert_eq!(trap(entry).class(), Class::Fatal, "{entry}");
        }
    }

    #[test]
    fn a_limit_names_plugin_batch_value_and_key() {
        let error = PluginError::Limit {
            plugin: "settlement".into(),
            entry: Entry::Compute,
            batch: 500,
            limit: Limit::Cpu,
            allowed: 1500,
        };
        assert_eq!(
            error.to_string(),
            "plugin settlement exceeded 1500 ms of CPU time in compute of a batch of 500: raise limits.cpu_per_event \
             (or limits.cpu_base) if the plugin really needs more"
        );
    }
}
