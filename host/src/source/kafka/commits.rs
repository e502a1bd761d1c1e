//! Offset commits: at most one request under way; what comes meanwhile goes together in the next.

use std::collections::HashMap;

use rdkafka::{TopicPartitionList, error::KafkaResult};
use tokio::sync::watch;

use super::{
    super::{PartitionName, Positions},
    context::offsets_of,
};
use crate::store::Receipt;

/// By partition: where the group is to go on.
pub(super) type Offsets = HashMap<PartitionName, i64>;

/// What the group was told, and what it is still to be told. Offsets come from receipts only (Invariant 1).
#[derive(Debug, Default)]
pub(super) struct Commits {
    due: Offsets,
    sent: Option<Offsets>,
    /// How often receipts were spent: the newest of them is in `due`, unless all were sent.
    spent: u64,
    /// Up to which of them the request under way goes.
    sent_up_to: u64,
    confirmed: watch::Sender<u64>,
}

/// As the client takes them.
///
/// # Errors
/// For offsets that no log has.
pub(super) fn list_of(offsets: &Offsets) -> KafkaResult<TopicPartitionList> {
    offsets_of(offsets.iter().map(|(name, offset)| (name, *offset)))
}

impl Commits {
    /// Spends receipts, and numbers that. Those of an assignment that is over are dropped: the next owner's offset must
    /// not be overwritten.
    pub(super) fn spend(&mut self, receipts: Vec<Receipt>, positions: &Positions) -> u64 {
        self.spent += 1;
        for receipt in receipts {
            let name = PartitionName::from(receipt.partition().as_ref());
            if positions.is_current(&name, receipt.generation()) {
                self.due.insert(name, receipt.next_offset());
            }
        }
        self.settle();
        self.spent
    }

    /// See [`Source::confirmed`](super::super::Source::confirmed).
    pub(super) fn confirmed(&self) -> watch::Receiver<u64> {
        self.confirmed.subscribe()
    }

    /// Where there is nothing to be told or answered, all is settled.
    fn settle(&self) {
        if self.due.is_empty() && self.sent.as_ref().is_none_or(HashMap::is_empty) {
            self.confirm(self.spent);
        }
    }

    fn confirm(&self, up_to: u64) {
        self.confirmed.send_if_modified(|confirmed| {
            let more = up_to > *confirmed;
            *confirmed = up_to.max(*confirmed);
            more
        });
    }

    /// What to send now, if nothing is under way.
    pub(super) fn next(&mut self) -> Option<Offsets> {
        if self.sent.is_some() || self.due.is_empty() {
            return None;
        }
        let next = std::mem::take(&mut self.due);
        self.sent = Some(next.clone());
        self.sent_up_to = self.spent;
        Some(next)
    }

    /// The request under way was answered. What failed is due again, unless something newer is.
    pub(super) fn answered(&mut self, success: bool) {
        if let Some(sent) = self.sent.take() {
            if success {
                self.confirm(self.sent_up_to);
            } else {
                for (name, offset) in sent {
                    self.due.entry(name).or_insert(offset);
                }
            }
        }
        self.settle();
    }

    /// What these partitions' offsets should be, for a commit that waits; under way or not. They are forgotten.
    pub(super) fn take(&mut self, names: &[PartitionName]) -> Offsets {
        let mut taken = HashMap::new();
        for name in names {
            let under_way = self.sent.as_mut().and_then(|sent| sent.remove(name));
            if let Some(offset) = self.due.remove(name).or(under_way) {
                taken.insert(name.clone(), offset);
            }
        }
        self.settle();
        taken
    }

    /// The partitions of which something is due or under way.
    pub(super) fn names(&self) -> Vec<PartitionName> {
        self.due.keys().chain(self.sent.iter().flat_map(HashMap::keys)).cloned().collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;

    use uuid::Uuid;

    use super::*;
    use crate::record::TopicPartition;

    fn name(partition: i32) -> PartitionName {
        PartitionName { topic: "t".into(), partition }
    }

    #[test]
    fn receipts_of_an_assignment_that_is_over_are_dropped() {
        let place =
            Arc::new(TopicPartition { cluster_id: "c".into(), topic_id: Uuid::nil(), topic: "t".into(), partition: 0 });
        let positions = Positions::new(1);
        let assign = || positions.install(&positions.hold(|| ()), Arc::clone(&place), 0, 0);
        let (first, second) = (assign(), assign());
        let mut commits = Commits::default();
        commits.spend(vec![Receipt::forged(Arc::clone(&place), first, 8)], &positions);
        assert_eq!(commits.next(), None, "another host may be further by now");
        commits.spend(vec![Receipt::forged(Arc::clone(&place), second, 3)], &positions);
        assert_eq!(commits.next().unwrap()[&name(0)], 3);
    }

    #[test]
    fn one_request_at_a_time_and_the_newest_offset_wins() {
        let mut commits = Commits::default();
        commits.due.insert(name(0), 5);
        assert_eq!(commits.next().unwrap()[&name(0)], 5);
        commits.due.insert(name(0), 7);
        assert_eq!(commits.next(), None);
        commits.answered(true);
        assert_eq!(commits.next().unwrap()[&name(0)], 7);
        commits.due.insert(name(0), 9);
        commits.answered(false);
        assert_eq!(commits.next().unwrap()[&name(0)], 9, "a failed older offset does not come back over a newer one");
    }

    #[test]
    fn a_revoke_takes_what_is_under_way_too() {
        let mut commits = Commits::default();
        commits.due.insert(name(0), 5);
        commits.due.insert(name(1), 6);
        commits.next().unwrap();
        let taken = commits.take(&[name(0)]);
        assert_eq!(taken, HashMap::from([(name(0), 5)]));
        commits.answered(false);
        assert_eq!(commits.next().unwrap(), HashMap::from([(name(1), 6)]), "what was taken does not come back");
    }

    #[test]
    fn confirmed_is_what_was_answered_and_what_needs_no_answer() {
        let place =
            Arc::new(TopicPartition { cluster_id: "c".into(), topic_id: Uuid::nil(), topic: "t".into(), partition: 0 });
        let positions = Positions::new(1);
        let generation = positions.install(&positions.hold(|| ()), Arc::clone(&place), 0, 0);
        let receipt = |generation, next| vec![Receipt::forged(Arc::clone(&place), generation, next)];
        let mut commits = Commits::default();
        let confirmed = commits.confirmed();
        let now = || *confirmed.borrow();

        let over = commits.spend(receipt(generation + 1, 3), &positions);
        assert_eq!(now(), over, "of an assignment that is over");
        let one = commits.spend(receipt(generation, 5), &positions);
        commits.next().unwrap();
        let two = commits.spend(receipt(generation, 7), &positions);
        assert_eq!(now(), over, "under way");
        commits.answered(true);
        assert_eq!(now(), one, "the second is still to be told");
        commits.next().unwrap();
        commits.answered(false);
        assert_eq!(now(), one, "it goes again");
        commits.next().unwrap();
        commits.answered(true);
        assert_eq!(now(), two);
        let three = commits.spend(receipt(generation, 9), &positions);
        assert_ne!(now(), three);
        commits.take(&[name(0)]);
        assert_eq!(now(), three, "a revoke commits by itself");
    }
}
