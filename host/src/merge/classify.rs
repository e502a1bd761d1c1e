//! How strong a target's idempotency is, from its declaration alone (R2.6).

use std::fmt;

use super::{Guard, Merge, Operation, TargetSpec};

/// Weakest first: what needs a class accepts a stronger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TargetClass {
    /// Not idempotent without the ledger: a column adds up.
    Accumulating,
    /// The same change twice in a row is the same as once.
    Idempotent,
    /// A late duplicate changes nothing, whatever was applied in between.
    ReplaySafe,
    /// Any order of the same changes ends the same (under a version: where versions are unique per key).
    OrderFree,
}

impl TargetClass {
    /// The word for it in configuration, metrics and documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Accumulating => "accumulating",
            Self::Idempotent => "idempotent",
            Self::ReplaySafe => "replay-safe",
            Self::OrderFree => "order-free",
        }
    }
}

impl fmt::Display for TargetClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The strongest class that the declaration warrants.
#[must_use]
pub fn classify(spec: &TargetSpec) -> TargetClass {
    let merges =
        || spec.columns.iter().enumerate().filter(|(i, _)| !spec.key.contains(i)).map(|(_, column)| column.merge);
    if merges().any(|merge| merge == Merge::Add) {
        return TargetClass::Accumulating;
    }
    let only_upserts = spec.operations.iter().all(|&op| op == Operation::Upsert);
    let deletes = spec.operations.contains(&Operation::Delete);
    let updates = spec.operations.contains(&Operation::Update);
    match &spec.guard {
        // A late upsert brings an unguarded delete's row back, a late delete takes a newer row away.
        None if deletes => TargetClass::Idempotent,
        None if only_upserts && merges().all(|m| matches!(m, Merge::Greatest | Merge::Least)) => TargetClass::OrderFree,
        None if merges().all(|m| matches!(m, Merge::Keep | Merge::Greatest | Merge::Least)) => TargetClass::ReplaySafe,
        None => TargetClass::Idempotent,
        // Hard deletes forget the version.
        Some(_) if deletes && spec.soft_delete.is_none() => TargetClass::Idempotent,
        // The newest change must carry the whole row, and must not be lost for want of a row.
        Some(Guard::NewerBy(_)) if !updates && merges().all(|m| m == Merge::Replace) => TargetClass::OrderFree,
        Some(Guard::NewerBy(_)) => TargetClass::ReplaySafe,
        Some(Guard::Transition { allow, .. }) if is_acyclic(allow.iter().map(|(a, b)| (a.as_str(), b.as_str()))) => {
            TargetClass::ReplaySafe
        }
        Some(Guard::Transition { .. }) => TargetClass::Idempotent,
    }
}

/// Whether no state can be reached again once left: take away states without a way in until none is left.
fn is_acyclic<'a>(steps: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
    let mut steps: Vec<(&str, &str)> = steps.collect();
    loop {
        let before = steps.len();
        let entered: Vec<&str> = steps.iter().map(|&(_, to)| to).collect();
        steps.retain(|(from, _)| entered.contains(from));
        if steps.is_empty() {
            return true;
        }
        if steps.len() == before {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{super::testing::*, *};

    #[test]
    fn merges_decide_where_there_is_no_guard() {
        assert_eq!(classify(&spec(&[Merge::Add], None)), TargetClass::Accumulating);
        assert_eq!(classify(&spec(&[Merge::Replace, Merge::Greatest], None)), TargetClass::Idempotent);
        assert_eq!(classify(&spec(&[Merge::Keep, Merge::Greatest], None)), TargetClass::ReplaySafe);
        assert_eq!(classify(&spec(&[Merge::Least, Merge::Greatest], None)), TargetClass::OrderFree);
    }

    #[test]
    fn a_version_makes_replays_safe_and_full_rows_order_free() {
        let guard = Some(Guard::NewerBy(1));
        assert_eq!(classify(&spec(&[Merge::Replace, Merge::Replace], guard.clone())), TargetClass::OrderFree);
        assert_eq!(classify(&spec(&[Merge::Replace, Merge::Keep], guard.clone())), TargetClass::ReplaySafe);
        assert_eq!(classify(&spec(&[Merge::Replace, Merge::Add], guard.clone())), TargetClass::Accumulating);
        let mut updating = spec(&[Merge::Replace], guard.clone());
        updating.operations.insert(Operation::Update);
        assert_eq!(classify(&updating), TargetClass::ReplaySafe);
        let mut deleting = spec(&[Merge::Replace], guard);
        deleting.operations.insert(Operation::Delete);
        assert_eq!(classify(&deleting), TargetClass::Idempotent);
        deleting.soft_delete = Some("deleted_at".into());
        assert_eq!(classify(&deleting), TargetClass::OrderFree);
    }

    #[test]
    fn deletes_without_a_guard_weaken() {
        let mut deleting = spec(&[Merge::Greatest], None);
        deleting.operations.insert(Operation::Delete);
        assert_eq!(classify(&deleting), TargetClass::Idempotent);
    }

    #[test]
    fn transitions_are_replay_safe_only_without_a_way_back() {
        let class = |steps: &[(&str, &str)]| {
            let allow: BTreeSet<_> = steps.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect();
            classify(&spec(&[Merge::Replace], Some(transition(1, &["new"], allow))))
        };
        assert_eq!(class(&[("new", "paid"), ("paid", "sent"), ("new", "sent")]), TargetClass::ReplaySafe);
        assert_eq!(class(&[("new", "paid"), ("paid", "new")]), TargetClass::Idempotent);
        assert_eq!(class(&[("new", "new")]), TargetClass::Idempotent);
    }
}
