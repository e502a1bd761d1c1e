//! How often and how big a batch is tried again. Pure, but for the dice.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// The longest pause between two tries.
const LONGEST: Duration = Duration::from_secs(10);
/// The pause after the first failure, before the dice.
const SHORTEST: Duration = Duration::from_millis(50);
/// So many failures in a row that a smaller batch may cure, and the batch is halved.
const HALVE_AFTER: u32 = 2;

/// What has gone wrong in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    /// Of any kind.
    pub(super) in_a_row: u32,
    of_size: u32,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The same batch, after a pause of at most this.
    Again(Duration),
    /// Half of it first, after a pause of at most this.
    Halved(Duration),
}

impl Failures {
    /// One more. `of_size`: a smaller batch may pass. `records`: how many it has.
    pub(super) fn count(&mut self, of_size: bool, records: usize) -> Next {
        let pause = SHORTEST.saturating_mul(1 << self.in_a_row.min(10)).min(LONGEST);
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.of_size = if of_size { self.of_size + 1 } else { 0 };
        if self.of_size >= HALVE_AFTER && records > 1 {
            self.of_size = 0;
            Next::Halved(pause)
        } else {
            Next::Again(pause)
        }
    }
}

/// Somewhere between half of the pause and all of it, so that many lanes do not come back as one.
pub(super) fn jittered(pause: Duration) -> Duration {
    // A fresh RandomState has fresh keys: that is all the chance needed here.
    let dice = RandomState::new().hash_one(0u8) % 1_000;
    pause / 2 + (pause / 2).saturating_mul(u32::try_from(dice).unwrap_or(0)) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_stay_within_ten_seconds() {
        let mut failures = Failures::default();
        let mut last = Duration::ZERO;
        for _ in 0..40 {
            let Next::Again(pause) = failures.count(false, 100) else { unreachable!("not of size") };
            assert!(pause >= last && pause <= LONGEST);
            let jittered = jittered(pause);
            assert!(jittered <= pause && jittered >= pause / 2);
            last = pause;
        }
        assert_eq!(last, LONGEST);
    }

    #[test]
    fn two_failures_of_size_in_a_row_halve() {
        let mut failures = Failures::default();
        assert!(matches!(failures.count(true, 8), Next::Again(_)));
        assert!(matches!(failures.count(false, 8), Next::Again(_)), "not in a row");
        assert!(matches!(failures.count(true, 8), Next::Again(_)));
        assert!(matches!(failures.count(true, 8), Next::Halved(_)));
        assert!(matches!(failures.count(true, 4), Next::Again(_)), "the half gets its own two tries");
        assert!(matches!(failures.count(true, 1), Next::Again(_)), "one record cannot be halved");
    }
}
