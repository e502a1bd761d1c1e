//! Notices that nothing moves any more. A bound, not a measurement: it must never cut off a slow machine that works.

use std::time::{Duration, Instant};

/// How long nothing may move.
pub(super) const BOUND: Duration = Duration::from_secs(60);

/// Watches a figure that only grows while things go on.
#[derive(Debug)]
pub(super) struct Stall<T> {
    seen: Option<T>,
    since: Instant,
}

impl<T: PartialEq> Stall<T> {
    pub(super) fn new(now: Instant) -> Self {
        Self { seen: None, since: now }
    }

    /// Whether `figure` has been the same for longer than [`BOUND`].
    pub(super) fn watch(&mut self, figure: T, now: Instant) -> bool {
        if self.seen.as_ref() != Some(&figure) {
            self.seen = Some(figure);
            self.since = now;
        }
        now.duration_since(self.since) > BOUND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn movement_resets_the_bound() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut stall = Stall::new(begun);
        assert!(!stall.watch(1, at(59)));
        assert!(!stall.watch(2, at(118)));
        assert!(!stall.watch(2, at(178)));
        assert!(stall.watch(2, at(179)));
        assert!(!stall.watch(3, at(300)));
    }
}
