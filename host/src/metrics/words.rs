//! Words that stand in labels.

/// Why a batch is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryCause {
    /// The database cannot be reached, or said "later".
    Database,
    /// The plugin could not run just now.
    Plugin,
    /// The broker cannot say whether the topic is still the same.
    Broker,
}

impl RetryCause {
    pub(super) const ALL: [Self; 3] = [Self::Database, Self::Plugin, Self::Broker];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Plugin => "plugin",
            Self::Broker => "broker",
        }
    }
}

/// How a shadow's word on a record compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShadowResult {
    /// Both say the same.
    Same,
    /// Another key.
    Key,
    /// One applies it, the other skips or rejects it; or for another reason.
    Verdict,
    /// Other changes.
    Changes,
    /// There was no time to look.
    PassedBy,
    /// The shadow failed on the whole batch.
    Failed,
}

impl ShadowResult {
    pub(super) const ALL: [Self; 6] =
        [Self::Same, Self::Key, Self::Verdict, Self::Changes, Self::PassedBy, Self::Failed];

    /// Its word.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Key => "key",
            Self::Verdict => "verdict",
            Self::Changes => "changes",
            Self::PassedBy => "passed_by",
            Self::Failed => "failed",
        }
    }
}

/// How a reload ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// Other rules are in force.
    Taken,
    /// There was nothing new.
    Unchanged,
    /// What was found did not pass: the rules of before stay in force.
    Refused,
    /// It could not be examined for now, for the database or the machine: the rules of before stay in force.
    Failed,
}

impl Reloaded {
    pub(super) const ALL: [Self; 4] = [Self::Taken, Self::Unchanged, Self::Refused, Self::Failed];

    /// Its word.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Unchanged => "unchanged",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}
