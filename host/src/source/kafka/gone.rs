//! Partitions that are stopped because their topic is gone. Should it be there again, they begin anew: if it is the same
//! topic, they go on; if another one has its name, they stop with that as the reason, and with its way out. Pure.

use std::collections::HashMap;

use super::super::PartitionName;

#[derive(Clone, Copy, Debug)]
struct Place {
    /// The client has the partition.
    held: bool,
    /// The topic is there again.
    back: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Gone(HashMap<PartitionName, Place>);

impl Gone {
    /// This one is stopped. `held` = the client has it.
    pub(super) fn stopped(&mut self, name: PartitionName, held: bool) {
        self.0.insert(name, Place { held, back: false });
    }

    /// A topic is there.
    pub(super) fn is_there(&mut self, topic: &str) {
        self.0.iter_mut().filter(|(name, _)| *name.topic == *topic).for_each(|(_, place)| place.back = true);
    }

    /// These are another's.
    pub(super) fn forget(&mut self, names: &[PartitionName]) {
        for name in names {
            self.0.remove(name);
        }
    }

    /// Those that may begin anew, each with whether the client has it.
    pub(super) fn take(&mut self) -> Vec<(PartitionName, bool)> {
        let back = self.0.extract_if(|_, place| place.back);
        back.map(|(name, place)| (name, place.held)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_stopped_begins_anew_once_its_topic_is_there_and_it_is_not_another_s() {
        let name = |topic: &str, partition| PartitionName { topic: topic.into(), partition };
        let mut gone = Gone::default();
        gone.is_there("orders");
        for partition in 0..3 {
            gone.stopped(name("orders", partition), partition == 0);
        }
        gone.stopped(name("payments", 0), true);
        assert_eq!(gone.take(), [], "what was said before it was stopped does not count");
        gone.forget(&[name("orders", 1)]);
        gone.is_there("orders");
        let mut taken = gone.take();
        taken.sort();
        assert_eq!(taken, [(name("orders", 0), true), (name("orders", 2), false)]);
        assert_eq!(gone.take(), []);
    }
}
