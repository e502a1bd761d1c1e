//! Records a second: since the beginning, or lately.

use std::{collections::VecDeque, time::Duration};

/// What "lately" means: long enough that a handful of records a second gives a steady figure.
const WINDOW: Duration = Duration::from_secs(10);

/// Follows one count. Times are since the run began.
#[derive(Debug)]
pub(super) struct Rate {
    samples: VecDeque<(Duration, u64)>,
    window: Duration,
}

impl Default for Rate {
    fn default() -> Self {
        Self { samples: VecDeque::from([(Duration::ZERO, 0)]), window: Duration::MAX }
    }
}

impl Rate {
    /// From now on only what comes counts, and of that only the last seconds.
    pub(super) fn lately(&mut self) {
        self.samples.clear();
        self.window = WINDOW;
    }

    /// Takes a look at the count, and says how much it grows in a second.
    pub(super) fn at(&mut self, now: Duration, count: u64) -> u64 {
        self.samples.push_back((now, count));
        // One sample from before the window stays: it is where the window begins.
        while self.samples.get(1).is_some_and(|(at, _)| now.saturating_sub(*at) >= self.window) {
            self.samples.pop_front();
        }
        if self.window == Duration::MAX {
            self.samples.truncate(1);
        }
        let (since, from) = self.samples.front().copied().unwrap_or((now, count));
        // At least a second: the first look after a pause is no burst.
        let millis = u64::try_from(now.saturating_sub(since).as_millis()).unwrap_or(u64::MAX).max(1_000);
        count.saturating_sub(from).saturating_mul(1_000) / millis
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_run_counts_until_only_the_last_seconds_do() {
        let mut rate = Rate::default();
        let at = |rate: &mut Rate, seconds, count| rate.at(Duration::from_secs(seconds), count);
        assert_eq!((at(&mut rate, 2, 6_000), at(&mut rate, 4, 20_000)), (3_000, 5_000));
        rate.lately();
        assert_eq!(at(&mut rate, 60, 20_000), 0, "what came before does not count");
        assert_eq!(at(&mut rate, 62, 20_010), 5);
        let last = (63..100).map(|second| at(&mut rate, second, 20_010 + (second - 62) * 7)).last();
        assert_eq!(last, Some(7), "only the window counts");
        assert!(rate.samples.len() <= 12, "{} samples are kept", rate.samples.len());
    }
}
