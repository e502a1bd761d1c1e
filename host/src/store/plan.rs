//! Who may insert into the ledger, and who only asks it. Pure.

use std::collections::HashMap;

use super::prepared::{Intent, Item};
use crate::identity::MessageId;

/// A record's part in its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The earliest record of its id that wants to be applied and is not older than the horizon: it inserts.
    Insert,
    /// Another record of the id whose inserter has this index.
    Follow(usize),
    /// Nobody of its id inserts; the ledger may know the id all the same, and a duplicate it is then.
    Ask,
    /// Has no id.
    Nameless,
}

/// The parts of a batch, and the order in which locks are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// One per record.
    pub(super) roles: Vec<Role>,
    /// Indexes of the inserters, sorted by message id: one order of ledger locks for all hosts.
    pub(super) inserters: Vec<usize>,
    /// Indexes of one record per id that is only asked for.
    pub(super) asked: Vec<usize>,
}

impl Plan {
    /// `old_before_us`: an event from before then may have been forgotten by the ledger, so it is never an inserter
    /// (Invariant 8). `i64::MIN` = the ledger forgot nothing.
    pub(super) fn new(items: &[Item], old_before_us: i64) -> Self {
        let mut inserter: HashMap<&MessageId, usize> = HashMap::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            if let Some(identity) = &item.identity
                && matches!(item.intent, Intent::Apply(_))
                && !item.is_older_than(old_before_us)
            {
                inserter.entry(&identity.message_id).or_insert(i);
            }
        }
        let mut plan = Self { roles: Vec::with_capacity(items.len()), ..Self::default() };
        let mut asked: HashMap<&MessageId, ()> = HashMap::new();
        for (i, item) in items.iter().enumerate() {
            let role = match &item.identity {
                None => Role::Nameless,
                Some(identity) => match inserter.get(&identity.message_id) {
                    Some(&first) if first == i => Role::Insert,
                    Some(&first) => Role::Follow(first),
                    None => {
                        if asked.insert(&identity.message_id, ()).is_none() {
                            plan.asked.push(i);
                        }
                        Role::Ask
                    }
                },
            };
            plan.roles.push(role);
        }
        plan.inserters = inserter.values().copied().collect();
        plan.inserters.sort_unstable_by(|&a, &b| items[a].message_id().cmp(&items[b].message_id()));
        plan
    }

    /// The next record of the id whose inserter is `dead`: it may be the correction, so the batch ends before it.
    pub(super) fn next_of_same_id(&self, dead: usize) -> Option<usize> {
        (dead + 1..self.roles.len()).find(|&i| self.roles[i] == Role::Follow(dead))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::prepared::testing::*, *};

    #[test]
    fn the_earliest_apply_of_an_id_inserts_and_the_others_follow() {
        let items = [skip("a"), apply("b"), apply("a"), reject("a"), apply("b"), nameless(), skip("c"), reject("c")];
        let plan = Plan::new(&items, i64::MIN);
        use Role::*;
        assert_eq!(plan.roles, [Follow(2), Insert, Insert, Follow(2), Follow(1), Nameless, Ask, Ask]);
        assert_eq!(plan.inserters, [2, 1], "sorted by id");
        assert_eq!(plan.asked, [6], "each id once");
        assert_eq!(plan.next_of_same_id(2), Some(3));
        assert_eq!(plan.next_of_same_id(1), Some(4));
    }

    #[test]
    fn an_event_from_before_the_horizon_never_inserts() {
        let items = [apply_at("a", 10), apply_at("a", 30), apply_at("b", 10)];
        let plan = Plan::new(&items, 20);
        assert_eq!(plan.roles, [Role::Follow(1), Role::Insert, Role::Ask]);
        let nothing_forgotten = Plan::new(&items, i64::MIN);
        assert_eq!(nothing_forgotten.roles, [Role::Insert, Role::Follow(0), Role::Insert]);
    }
}
