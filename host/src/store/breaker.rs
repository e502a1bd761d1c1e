//! The circuit breaker (Invariant 6): a new constraint or a bad plugin must not move a topic into the dead letters in
//! good order. Pure; the clock comes in.
//!
//! Three kinds of refusal are counted apart:
//! - *poison*, what the database refused, or the host in its stead because a value did not fit its column, and what
//!   broke the plugin (a trap, a limit): more than 16 in one batch, or more than 1 % of at least 1,000 records within a
//!   minute;
//! - *rejects*, the plugin's own verdicts, and *refused transitions*: each is a considered answer about one input, and a
//!   producer may well send a series of broken ones. Only where more than half of at least 1,000 records within a
//!   minute end so is the plugin (or the list of allowed steps) taken for broken.

use std::{
    collections::VecDeque,
    fmt,
    time::{Duration, Instant},
};

use super::{TOO_OLD, write::REFUSED_BY_DATABASE};
use crate::{
    merge::{BAD_VALUE, TRANSITION_REFUSED},
    outcome::{POISON_PER_BATCH, Rejection},
};

const WINDOW: Duration = Duration::from_secs(60);
const ENOUGH: u64 = 1_000;

/// A batch as the breaker sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Records in the batch.
    pub records: u32,
    /// Refused by the database or by a column's type, or breaking the plugin.
    pub poison: u32,
    /// Refused by the plugin.
    pub rejects: u32,
    /// Refused by a transition guard.
    pub transitions: u32,
}

/// Why the breaker opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tripped {
    /// Too many in one batch.
    PoisonInBatch {
        /// How many were found; the search ends there.
        found: u32,
    },
    /// Too large a share of the last minute.
    Share {
        /// What they were: [`POISON`], [`REJECTED`] or [`REFUSED`].
        what: &'static str,
        /// How many.
        refused: u64,
        /// Of how many records.
        records: u64,
    },
}

const POISON: &str = "refused by the database or a column's type, or broke the plugin";
const REJECTED: &str = "rejected by the plugin";
const REFUSED: &str = "refused by a transition guard";

impl Tripped {
    /// Whether a refusal is of the kind that tripped it.
    pub(super) fn is_about(&self, refusal: &Rejection) -> bool {
        let code = refusal.code.as_str();
        let poison = code == BAD_VALUE || code == REFUSED_BY_DATABASE || refusal.is_by_host();
        match self {
            Self::PoisonInBatch { .. } | Self::Share { what: POISON, .. } => poison,
            Self::Share { what: REFUSED, .. } => code == TRANSITION_REFUSED,
            Self::Share { .. } => !poison && code != TRANSITION_REFUSED && code != TOO_OLD,
        }
    }
}

impl fmt::Display for Tripped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PoisonInBatch { found } => {
                write!(
                    f,
                    "{found} or more records of one batch were refused by the database or a column's type, or broke the plugin"
                )
            }
            Self::Share { what, refused, records } => {
                write!(f, "{refused} of the last minute's {records} records were {what}")
            }
        }
    }
}

/// Records and refusals of several batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    records: u64,
    poison: u64,
    rejects: u64,
    transitions: u64,
}

impl Sums {
    fn add(&mut self, batch: Refusals) {
        self.records += u64::from(batch.records);
        self.poison += u64::from(batch.poison);
        self.rejects += u64::from(batch.rejects);
        self.transitions += u64::from(batch.transitions);
    }

    /// Takes away what was added before.
    fn take(&mut self, batch: Refusals) {
        self.records -= u64::from(batch.records);
        self.poison -= u64::from(batch.poison);
        self.rejects -= u64::from(batch.rejects);
        self.transitions -= u64::from(batch.transitions);
    }
}

/// Remembers a minute of committed batches.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    window: VecDeque<(Instant, Refusals)>,
    /// Of all batches in the window: a minute may hold many thousands of them, and each new one asks.
    sums: Sums,
}

impl Breaker {
    /// Whether so much poison in one batch is too much: asked while it is still being counted.
    ///
    /// # Errors
    /// Where it is.
    pub(super) fn check_batch(poison: u32) -> Result<(), Tripped> {
        if poison > u32::from(POISON_PER_BATCH) { Err(Tripped::PoisonInBatch { found: poison }) } else { Ok(()) }
    }

    /// Whether the batch may commit its dead letters.
    ///
    /// # Errors
    /// Where it may not.
    pub(super) fn check(&mut self, now: Instant, batch: Refusals) -> Result<(), Tripped> {
        Self::check_batch(batch.poison)?;
        self.forget(now);
        let mut sums = self.sums;
        sums.add(batch);
        let Sums { records, poison, rejects, transitions } = sums;
        if records < ENOUGH {
            return Ok(());
        }
        let trip = |what, refused| Err(Tripped::Share { what, refused, records });
        // A batch that adds nothing of a kind is not held back for what earlier ones had of it.
        if batch.poison > 0 && poison * 100 > records {
            return trip(POISON, poison);
        }
        if batch.rejects > 0 && rejects * 2 > records {
            return trip(REJECTED, rejects);
        }
        if batch.transitions > 0 && transitions * 2 > records {
            return trip(REFUSED, transitions);
        }
        Ok(())
    }

    /// Remembers a batch that was committed.
    pub(super) fn record(&mut self, now: Instant, batch: Refusals) {
        self.forget(now);
        self.window.push_back((now, batch));
        self.sums.add(batch);
    }

    /// Lets go of what is older than the window.
    fn forget(&mut self, now: Instant) {
        while let Some(&(at, batch)) = self.window.front()
            && now.saturating_duration_since(at) >= WINDOW
        {
            self.window.pop_front();
            self.sums.take(batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(records: u32, poison: u32) -> Refusals {
        Refusals { records, poison, ..Refusals::default() }
    }

    #[test]
    fn the_sums_are_those_of_the_window() {
        let mut breaker = Breaker::default();
        let start = Instant::now();
        // Several batches at one time, gaps longer than the window, every kind of refusal.
        for i in 0..200_u32 {
            let now = start + Duration::from_secs(u64::from(i / 3 * 7 + i / 60 * 90));
            let batch = Refusals { records: 50, poison: i % 3, rejects: i % 5, transitions: i % 7 };
            if i % 4 == 0 {
                let _ = breaker.check(now, batch);
            } else {
                breaker.record(now, batch);
            }
            let mut walked = Sums::default();
            for (at, batch) in &breaker.window {
                assert!(now - *at < WINDOW);
                walked.add(*batch);
            }
            assert_eq!(breaker.sums, walked);
        }
    }

    #[test]
    fn sixteen_in_a_batch_pass_and_the_seventeenth_trips() {
        let mut breaker = Breaker::default();
        let now = Instant::now();
        assert_eq!(breaker.check(now, batch(10, 10)), Ok(()));
        assert_eq!(breaker.check(now, batch(2_000, 16)), Ok(()));
        assert_eq!(breaker.check(now, batch(100_000, 17)), Err(Tripped::PoisonInBatch { found: 17 }));
    }

    #[test]
    fn one_percent_of_a_minute_trips_once_there_is_enough() {
        let mut breaker = Breaker::default();
        let start = Instant::now();
        for second in 0..9 {
            let now = start + Duration::from_secs(second);
            assert_eq!(breaker.check(now, batch(100, 2)), Ok(()), "fewer than 1,000 records so far");
            breaker.record(now, batch(100, 2));
        }
        let now = start + Duration::from_secs(9);
        assert!(matches!(breaker.check(now, batch(100, 2)), Err(Tripped::Share { refused: 20, records: 1000, .. })));
        assert_eq!(breaker.check(now, batch(100, 0)), Ok(()), "a clean batch is never held back");
        let a_minute_later = start + Duration::from_secs(75);
        assert_eq!(breaker.check(a_minute_later, batch(100, 2)), Ok(()), "the window has moved on");
    }

    #[test]
    fn each_trip_is_about_refusals_of_its_own_kind() {
        let about = |tripped: Tripped| {
            [BAD_VALUE, REFUSED_BY_DATABASE, "plugin-trap", "no-amount", TRANSITION_REFUSED, TOO_OLD]
                .map(|code| tripped.is_about(&Rejection::new(code, "")))
        };
        let share = |what| Tripped::Share { what, refused: 1, records: 1 };
        assert_eq!(about(Tripped::PoisonInBatch { found: 17 }), [true, true, true, false, false, false]);
        assert_eq!(about(share(POISON)), [true, true, true, false, false, false]);
        assert_eq!(about(share(REJECTED)), [false, false, false, true, false, false]);
        assert_eq!(about(share(REFUSED)), [false, false, false, false, true, false]);
    }

    #[test]
    fn the_plugins_own_rejects_trip_only_as_a_majority() {
        let mut breaker = Breaker::default();
        let now = Instant::now();
        let rejects = |rejects| Refusals { records: 1_000, rejects, ..Refusals::default() };
        assert_eq!(breaker.check(now, rejects(500)), Ok(()));
        assert!(matches!(breaker.check(now, rejects(501)), Err(Tripped::Share { .. })));
        let refused = Refusals { records: 1_000, transitions: 17, ..Refusals::default() };
        assert_eq!(breaker.check(now, refused), Ok(()), "late events do not stop a consumer");
    }
}
