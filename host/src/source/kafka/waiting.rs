//! Who waits for its start point, and whose turn it is. Pure.

use std::{collections::HashMap, time::Instant};

use super::super::PartitionName;

/// Partitions of this member's that are not read until their start point is known.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// With whether they were fenced.
    pub(super) names: HashMap<PartitionName, bool>,
    pub(super) not_before: Option<Instant>,
    /// How often they were asked for.
    rounds: usize,
}

impl Waiting {
    /// Takes all, each time beginning with another one: where time is too short for all, each is the first some time.
    pub(super) fn take(&mut self) -> Vec<(PartitionName, bool)> {
        let mut names: Vec<_> = self.names.drain().collect();
        names.sort();
        self.rounds = self.rounds.wrapping_add(1);
        let first = self.rounds.checked_rem(names.len()).unwrap_or(0);
        names.rotate_left(first);
        names
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_that_waits_is_the_first_some_time() {
        let name = |partition| PartitionName { topic: "orders".into(), partition };
        let mut waiting = Waiting::default();
        let mut first = HashSet::new();
        for _ in 0..3 {
            waiting.names.extend((0..3).map(|partition| (name(partition), false)));
            let taken = waiting.take();
            assert_eq!(taken.len(), 3);
            first.insert(taken[0].0.partition);
        }
        assert_eq!(first, HashSet::from([0, 1, 2]));
        assert_eq!(waiting.take(), []);
    }
}
