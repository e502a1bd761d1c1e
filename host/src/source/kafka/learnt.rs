//! What brokers have said of partitions that wait for their start point. A try that runs out of time leaves it to the next
//! one, which otherwise would begin anew, and never end where brokers or the machine are slow. Pure; the caller has the clock.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use uuid::Uuid;

use super::super::PartitionName;

/// How long a topic's id is taken for granted. (Every batch's are asked for again before it is committed.)
const FRESH: Duration = Duration::from_secs(10);

/// Answers, as long as their partitions wait.
#[derive(Debug, Default)]
pub(super) struct Learnt {
    topic_ids: HashMap<Arc<str>, (Uuid, Instant)>,
    /// `None` = the group has no offset there. Only a member can change it, so it holds while the partition is ours.
    offsets: HashMap<PartitionName, Option<i64>>,
}

impl Learnt {
    /// A topic has this id.
    pub(super) fn topic_is(&mut self, topic: &Arc<str>, id: Uuid, now: Instant) {
        self.topic_ids.insert(Arc::clone(topic), (id, now));
    }

    /// The id of a topic, as far as it is known.
    pub(super) fn topic_id(&self, topic: &str) -> Option<Uuid> {
        self.topic_ids.get(topic).map(|(id, _)| *id)
    }

    /// Lets go of what was said too long ago.
    pub(super) fn grow_old(&mut self, now: Instant) {
        self.topic_ids.retain(|_, (_, said)| now.saturating_duration_since(*said) < FRESH);
    }

    /// The group's offset of a partition that this member holds.
    pub(super) fn offset_is(&mut self, name: PartitionName, offset: Option<i64>) {
        self.offsets.insert(name, offset);
    }

    /// What is known of the group's offset of this partition.
    pub(super) fn offset(&self, name: &PartitionName) -> Option<Option<i64>> {
        self.offsets.get(name).copied()
    }

    /// These are read from now on, and their offsets change.
    pub(super) fn begun(&mut self, names: &[PartitionName]) {
        for name in names {
            self.offsets.remove(name);
        }
    }

    /// These are taken, given anew, or have lost their place: nothing of before holds.
    pub(super) fn forget(&mut self, names: &[PartitionName]) {
        for name in names {
            self.offsets.remove(name);
            self.topic_ids.remove(&name.topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_as_long_as_it_can_be_true() {
        let (mut learnt, start, topic) = (Learnt::default(), Instant::now(), Arc::from("orders"));
        let name = |partition| PartitionName { topic: Arc::clone(&topic), partition };
        learnt.topic_is(&topic, Uuid::from_u128(1), start);
        learnt.grow_old(start + FRESH / 2);
        assert_eq!((learnt.topic_id("orders"), learnt.topic_id("payments")), (Some(Uuid::from_u128(1)), None));
        learnt.grow_old(start + FRESH);
        assert_eq!(learnt.topic_id("orders"), None, "it may have been made again");

        learnt.topic_is(&topic, Uuid::from_u128(1), start);
        learnt.offset_is(name(0), Some(7));
        learnt.offset_is(name(1), None);
        let known = |learnt: &Learnt| [0, 1, 2].map(|partition| learnt.offset(&name(partition)));
        assert_eq!(known(&learnt), [Some(Some(7)), Some(None), None]);
        learnt.begun(&[name(0)]);
        assert_eq!(known(&learnt), [None, Some(None), None], "it changes from now on");
        assert!(learnt.topic_id("orders").is_some(), "for those that still wait");
        learnt.forget(&[name(1)]);
        assert_eq!((known(&learnt), learnt.topic_id("orders")), ([None; 3], None), "another may have had it");
    }
}
