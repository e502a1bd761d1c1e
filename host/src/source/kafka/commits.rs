//! Offset commits: at most one request under way; what comes meanwhile goes together in the next.

use std::collections::HashMap;

use rdkafka::{Offset, TopicPartitionList, error::KafkaResult};
use uuid::Uuid;

use super::{
    super::{PartitionName, Positions},
    mark::mark,
};
use crate::store::Receipt;

/// What one receipt says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    offset: i64,
    checkpoint: Uuid,
}

/// By partition.
pub(super) type Offsets = HashMap<PartitionName, Told>;

/// What the group was told, and what it is still to be told. Offsets come from receipts only (Invariant 1).
#[derive(Debug, Default)]
pub(super) struct Commits {
    due: Offsets,
    sent: Option<Offsets>,
}

/// As the client takes them, each with its mark.
///
/// # Errors
/// For offsets that no log has.
pub(super) fn list_of(offsets: &Offsets) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::with_capacity(offsets.len());
    for (name, told) in offsets {
        let mut element = list.add_partition(&name.topic, name.partition);
        element.set_offset(Offset::Offset(told.offset))?;
        element.set_metadata(mark(told.offset, told.checkpoint));
    }
    Ok(list)
}

impl Commits {
    /// Spends receipts. Those of an assignment that is over are dropped: the next owner's offset must not be
    /// overwritten.
    pub(super) fn spend(&mut self, receipts: Vec<Receipt>, positions: &Positions) {
        for receipt in receipts {
            let name = PartitionName::from(receipt.partition().as_ref());
            if positions.is_current(&name, receipt.generation()) {
                let told = Told { offset: receipt.next_offset(), checkpoint: receipt.checkpoint() };
                self.due.insert(name, told);
            }
        }
    }

    /// What to send now, if nothing is under way.
    pub(super) fn next(&mut self) -> Option<Offsets> {
        if self.sent.is_some() || self.due.is_empty() {
            return None;
        }
        let next = std::mem::take(&mut self.due);
        self.sent = Some(next.clone());
        Some(next)
    }

    /// The request under way was answered. What failed is due again, unless something newer is.
    pub(super) fn answered(&mut self, success: bool) {
        if let Some(sent) = self.sent.take()
            && !success
        {
            for (name, offset) in sent {
                self.due.entry(name).or_insert(offset);
            }
        }
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

    fn told(offset: i64) -> Told {
        Told { offset, checkpoint: Uuid::nil() }
    }

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
        assert_eq!(commits.next().unwrap()[&name(0)].offset, 3);
    }

    #[test]
    fn one_request_at_a_time_and_the_newest_offset_wins() {
        let mut commits = Commits::default();
        commits.due.insert(name(0), told(5));
        assert_eq!(commits.next().unwrap()[&name(0)], told(5));
        commits.due.insert(name(0), told(7));
        assert_eq!(commits.next(), None);
        commits.answered(true);
        assert_eq!(commits.next().unwrap()[&name(0)], told(7));
        commits.due.insert(name(0), told(9));
        commits.answered(false);
        assert_eq!(
            commits.next().unwrap()[&name(0)],
            told(9),
            "a failed older offset does not come back over a newer one"
        );
    }

    #[test]
    fn a_revoke_takes_what_is_under_way_too() {
        let mut commits = Commits::default();
        commits.due.insert(name(0), told(5));
        commits.due.insert(name(1), told(6));
        commits.next().unwrap();
        let taken = commits.take(&[name(0)]);
        assert_eq!(taken, HashMap::from([(name(0), told(5))]));
        commits.answered(false);
        assert_eq!(commits.next().unwrap(), HashMap::from([(name(1), told(6))]), "what was taken does not come back");
    }
}
