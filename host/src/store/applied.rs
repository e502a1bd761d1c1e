//! What applying a batch came to.

use std::{collections::BTreeMap, collections::HashMap, fmt, sync::Arc};

use super::{DeadLetter, Link, Prepared, Receipt, StoreError, Tip, Tripped, Written, breaker::Refusals};
use crate::{
    class::Class,
    identity::ConsumerName,
    outcome::{Counts, Outcome, Rejection},
    record::TopicPartition,
};

/// The newest links of the chains that a lane extends.
pub type Tips = HashMap<Arc<TopicPartition>, Tip>;

/// A batch, or the head of one, that is committed.
#[derive(Debug)]
pub struct Applied {
    /// One per partition whose chain was extended (Invariant 1).
    pub receipts: Vec<Receipt>,
    /// The new tips: put them over the old ones.
    pub tips: Vec<(Arc<TopicPartition>, Tip)>,
    /// What became of the records.
    pub report: BatchReport,
    /// The commit's answer was lost, and the checkpoints were found by their ids.
    pub recovered: bool,
    /// Where the batch was cut: its tail, to be applied next, before anything else of these partitions (Invariant 9).
    pub rest: Option<Prepared>,
}

/// What became of the records of a committed batch. Metrics are a view of it (Invariant 5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchReport {
    /// One per record, from the batch's first on; shorter than the batch where it was cut.
    pub outcomes: Vec<Outcome>,
    /// The same, counted.
    pub counts: Counts,
    /// What writing the targets came to.
    pub written: Written,
    /// Changes that a transition guard refused under `on_refused = "ignore"`: dropped, their inputs are applied.
    pub ignored: u64,
    /// Changes left out because their row was in their state already and `allow` has no step from that state to itself:
    /// whatever else they carried was not written, their inputs are applied.
    pub same_state: u64,
    /// Refusals by kind, as the breaker saw them.
    pub refusals: Refusals,
    /// Inputs that a unique constraint of a target refused.
    pub unique_conflicts: u64,
    /// Duplicates whose payload differs from what was applied (R1.4).
    pub conflicts: u64,
    /// Duplicates beyond the number that one batch writes to `duplicate_attempts`.
    pub attempts_left_out: u64,
    /// Dead letters by code.
    pub dead_letter_codes: BTreeMap<String, u64>,
    /// The first of them.
    pub first_dead: Option<FirstDead>,
    /// Whether the optimistic way failed, and each record was tried on top of its accepted predecessors.
    pub careful: bool,
}

/// A dead letter for the log: why and where, nothing of what was in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstDead {
    /// The dead letter's code.
    pub code: String,
    /// The topic-partition, for people: `orders[3]`.
    pub place: String,
    /// Its offset there.
    pub offset: i64,
}

impl fmt::Display for FirstDead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}@{}", self.code, self.place, self.offset)
    }
}

impl From<&DeadLetter> for FirstDead {
    fn from(letter: &DeadLetter) -> Self {
        let (code, place) = (letter.rejection.code.clone(), letter.partition.to_string());
        Self { code, place, offset: letter.offset }
    }
}

/// What a link itself does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkPlace {
    /// The assignment under which its records were fetched.
    pub(super) generation: u64,
    /// Its place in its chain.
    pub(super) seq: i64,
}

/// What was about to be committed, kept until the outcome is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommitAttempt {
    pub(super) links: Vec<Link>,
    /// One per link.
    pub(super) places: Vec<LinkPlace>,
    pub(super) report: BatchReport,
}

/// Why a batch was not applied. Nothing of it is committed, except where a [`StoreError::connection_lost`] came from the
/// COMMIT: apply the same [`Prepared`] again over a new connection, which finds out.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Somebody else extended a chain. Read the tips again; where they moved, the partition has another owner.
    #[error(
        "consumer {consumer}: the checkpoint chain of {} was extended by somebody else; read the tips again",
        partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Fenced {
        /// Whose chain.
        consumer: ConsumerName,
        /// The batch's partitions; at least one of them is meant.
        partitions: Vec<Arc<TopicPartition>>,
    },
    /// The database said no.
    #[error("consumer {consumer}: {error}{}", error.way_out().map(|way_out| format!("; {way_out}")).unwrap_or_default())]
    Store {
        /// Whose batch.
        consumer: ConsumerName,
        /// What it said.
        error: StoreError,
    },
    /// Too many refusals.
    #[error(
        "consumer {consumer} is stopped by its circuit breaker, nothing of the batch is committed: {tripped}{}; look for a new constraint on its targets or a changed plugin, put it right and start again",
        first.as_ref().map(|first| format!(" (the first: {}: {})", first.code, first.message)).unwrap_or_default()
    )]
    BreakerOpen {
        /// Whose batch.
        consumer: ConsumerName,
        /// What tripped it.
        tripped: Tripped,
        /// The batch's first refusal of that kind, in the words that its dead letter would have had.
        first: Option<Rejection>,
    },
    /// Invariant 10.
    #[error(
        "consumer {consumer}: the active key version is {active}, the batch was computed under {computed}, and nothing of it is committed: an operator has accepted other keys on another host; deploy the plugin that they belong to here, too, and start again"
    )]
    KeyVersion {
        /// Whose batch.
        consumer: ConsumerName,
        /// In the database.
        active: i32,
        /// Of the plugin.
        computed: i32,
    },
}

impl ApplyError {
    /// What to do about it. A fenced batch is transient only in that the tips are to be read again first.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Fenced { .. } => Class::Transient,
            Self::Store { error, .. } => error.class(),
            Self::BreakerOpen { .. } | Self::KeyVersion { .. } => Class::Fatal,
        }
    }

    /// Whether the connection is to be dropped.
    #[must_use]
    pub fn connection_lost(&self) -> bool {
        matches!(self, Self::Store { error, .. } if error.connection_lost)
    }
}
