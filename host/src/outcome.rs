//! What the plugin says of a record (its verdict) and what the store did with it (its outcome).

use std::ops::{Add, AddAssign};

use crate::{identity::Identity, merge::Operation, value::Value};

/// A change of one target row, as the plugin asked for it: its values in the order of the grant.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Index of the target among the consumer's targets.
    pub target: usize,
    /// What to do with the row.
    pub operation: Operation,
    /// Upsert and update: one value per granted column, in the grant's order.
    /// Delete: the key's values in key order, then the guard's column where the target has a guard.
    pub values: Vec<Value>,
}

/// The most poison records of one batch (Invariant 6): one more, and it is the table or the plugin that is broken, and the
/// consumer stops instead of moving its topic into the dead letters. Evaluation counts those that break the plugin, the
/// store's breaker these and those that the database refuses.
pub const POISON_PER_BATCH: u16 = 16;

/// Why an input cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// A short stable word, to filter dead letters by.
    pub code: String,
    /// For a person: what was wrong and where.
    pub message: String,
    /// The database's SQLSTATE, where the database said no.
    pub sqlstate: Option<String>,
}

impl Rejection {
    /// A rejection that no database was asked about.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), sqlstate: None }
    }

    /// How the codes begin that only the host gives: the record broke the plugin. A plugin's own words never do.
    pub const BY_HOST: &str = "plugin-";

    /// Whether the record broke the plugin, instead of being turned down by it.
    #[must_use]
    pub fn is_by_host(&self) -> bool {
        self.code.starts_with(Self::BY_HOST)
    }
}

/// The plugin's word on one record.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Apply these changes (none is allowed: the input is then remembered and changes nothing).
    Apply(Vec<Change>),
    /// Not for this consumer. Never in the ledger.
    Skip(String),
    /// Broken input, to the dead letters. Never in the ledger.
    Reject(Rejection),
}

/// A record after the plugin: who it is, where that is known, and what to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluated {
    /// Absent only where extract-keys said skip or reject, or the record never reached it.
    pub identity: Option<Identity>,
    /// What the plugin wants.
    pub verdict: Verdict,
}

/// What the store did with a record: exactly one of these. Where the identity is known, the precedence is
/// duplicate > too old > skipped, dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// First time: ledger row and target rows are committed.
    Applied,
    /// The ledger, or an earlier record of the batch, has this id.
    Duplicate,
    /// The plugin said: not for this consumer.
    Skipped,
    /// In the dead letters.
    Dead,
    /// From before the horizon, and no ledger row left to compare with; counted without being applied.
    TooOld,
}

/// Outcomes counted. Invariant 5: the sum is what was consumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// See [`Outcome::Applied`].
    pub applied: u32,
    /// See [`Outcome::Duplicate`].
    pub duplicate: u32,
    /// See [`Outcome::Skipped`].
    pub skipped: u32,
    /// See [`Outcome::Dead`].
    pub dead: u32,
    /// See [`Outcome::TooOld`].
    pub too_old: u32,
}

impl Counts {
    /// All of them.
    #[must_use]
    pub fn consumed(&self) -> u32 {
        self.applied + self.duplicate + self.skipped + self.dead + self.too_old
    }

    /// One more of this outcome.
    pub fn add(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Applied => &mut self.applied,
            Outcome::Duplicate => &mut self.duplicate,
            Outcome::Skipped => &mut self.skipped,
            Outcome::Dead => &mut self.dead,
            Outcome::TooOld => &mut self.too_old,
        } += 1;
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            applied: self.applied + other.applied,
            duplicate: self.duplicate + other.duplicate,
            skipped: self.skipped + other.skipped,
            dead: self.dead + other.dead,
            too_old: self.too_old + other.too_old,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
