//! Partitions that have something to read and do not move: whatever it is that keeps them, it is no progress. Pure; the
//! clock comes in.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::source::PartitionName;

#[derive(Debug)]
struct Place {
    next: i64,
    lag: i64,
    /// When it last moved, or was not behind.
    since: Instant,
}

/// Where partitions stand.
#[derive(Debug, Default)]
pub(super) struct Behind(BTreeMap<PartitionName, Place>);

impl Behind {
    /// A partition's next offset, and how many offsets lie before the end of its log.
    pub(super) fn look(&mut self, name: &PartitionName, next: i64, lag: i64, now: Instant) {
        let stood = self.0.get(name).filter(|place| place.next == next && place.lag > 0);
        let since = stood.map_or(now, |place| place.since);
        self.0.insert(name.clone(), Place { next, lag, since });
    }

    /// It is another's, or begins anew.
    pub(super) fn forget(&mut self, name: &PartitionName) {
        self.0.remove(name);
    }

    /// None is this consumer's any more.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether this one has stood still for longer than this, in words.
    pub(super) fn reason(&self, name: &PartitionName, now: Instant, tolerated: Duration) -> Option<String> {
        let place = self.0.get(name)?;
        let stands = now.saturating_duration_since(place.since);
        let text = || format!("is {} offsets behind and has not moved for {} s", place.lag, stands.as_secs());
        (place.lag > 0 && stands >= tolerated).then(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERATED: Duration = Duration::from_secs(25);

    #[test]
    fn only_who_is_behind_and_does_not_move_is_stuck() {
        let (start, name) = (Instant::now(), PartitionName { topic: "t".into(), partition: 3 });
        let mut behind = Behind::default();
        let later = start + TOLERATED;
        behind.look(&name, 7, 0, start);
        assert_eq!(behind.reason(&name, later, TOLERATED), None, "at the end");
        behind.look(&name, 7, 5, start);
        assert_eq!(behind.reason(&name, start, TOLERATED), None, "something has just come");
        behind.look(&name, 7, 9, later);
        assert_eq!(
            behind.reason(&name, later, TOLERATED).as_deref(),
            Some("is 9 offsets behind and has not moved for 25 s")
        );
        behind.look(&name, 8, 8, later);
        assert_eq!(behind.reason(&name, later, TOLERATED), None, "it moves");
        behind.look(&name, 8, 8, later + TOLERATED);
        behind.forget(&name);
        assert_eq!(behind.reason(&name, later + TOLERATED, TOLERATED), None);
    }
}
