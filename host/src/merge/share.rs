//! Several targets of one consumer: which may share a table, and in which order tables are written.

use std::collections::BTreeMap;

use super::{FaultKind, Guard, Operation, TableName, Target, TargetFault};

/// Holds a consumer's targets against each other. Two targets of one table see the same rows, so they must agree on
/// what a row is, and neither may undo what the other's guard decides by.
#[must_use]
pub fn check_together(targets: &[Target]) -> Vec<TargetFault> {
    let mut faults = Vec::new();
    for (i, target) in targets.iter().enumerate() {
        for (j, other) in targets.iter().enumerate() {
            if i != j && target.table == other.table {
                for what in clashes(target, other, i < j) {
                    let (table, other) = (target.table.to_string(), other.spec.name.clone());
                    let kind = FaultKind::Shared { table, other, what };
                    faults.push(TargetFault { target: target.spec.name.clone(), kind });
                }
            }
        }
    }
    faults
}

/// What does not fit between two targets of one table. What is the same both ways is said once.
fn clashes(target: &Target, other: &Target, first: bool) -> Vec<String> {
    let mut found = Vec::new();
    if first && target.key_columns() != other.key_columns() {
        found.push(
            "their keys differ, so the order of changes to one row would be lost; declare the same key columns in both"
                .into(),
        );
    }
    match &target.spec.guard {
        Some(Guard::NewerBy(column)) => {
            let version = &target.spec.columns[*column].name;
            let theirs = match &other.spec.guard {
                Some(Guard::NewerBy(column)) => Some(&other.spec.columns[*column].name),
                _ => None,
            };
            let names =
                |t: &Target| t.spec.columns.iter().map(|c| c.name.clone()).collect::<std::collections::BTreeSet<_>>();
            if theirs == Some(version) {
                if first && names(target) != names(other) {
                    found.push(format!(
                        "both are guarded by newer_by = \"{version}\" over different columns: the first of two changes with \
                         one version would make the other look stale; give each its own version column, or grant both the same columns"
                    ));
                }
            } else if other.spec.columns.iter().any(|c| c.name == *version) {
                found.push(format!("that target writes the version column {version} unguarded; guard it by the same column, or take it out"));
            }
        }
        Some(Guard::Transition { column, .. }) => {
            let state = &target.spec.columns[*column].name;
            let guarded = matches!(&other.spec.guard, Some(Guard::Transition { column, .. })
                if other.spec.columns[*column].name == *state);
            if !guarded && other.spec.columns.iter().any(|c| c.name == *state) {
                found.push(format!(
                    "that target writes the state column {state} without a transition guard; guard it, or take it out"
                ));
            }
            if other.spec.operations.contains(&Operation::Delete) && other.spec.soft_delete.is_none() {
                found.push("that target deletes rows whose state is guarded here; use a soft delete".into());
            }
        }
        None => {}
    }
    found
}

/// Ranks the targets' tables in the one order in which every host writes them: what rows refer to comes first, then by
/// name. Two targets of one table have one rank.
#[must_use]
pub fn table_ranks(targets: &[Target]) -> Vec<usize> {
    let mut left: BTreeMap<&TableName, Vec<&TableName>> = BTreeMap::new();
    for target in targets {
        left.entry(&target.table).or_default().extend(&target.references);
    }
    let mut ranks: BTreeMap<&TableName, usize> = BTreeMap::new();
    while !left.is_empty() {
        // The first whose parents are all placed; in a circle of references simply the first.
        let free = left.iter().find(|(_, parents)| !parents.iter().any(|p| left.contains_key(*p)));
        let Some(next) = free.or_else(|| left.iter().next()).map(|(table, _)| *table) else { break };
        left.remove(next);
        ranks.insert(next, ranks.len());
    }
    targets.iter().map(|target| ranks.get(&target.table).copied().unwrap_or_default()).collect()
}

impl Target {
    /// The key's columns by name, sorted: the same for all targets of a table.
    #[must_use]
    pub fn key_columns(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.spec.key.iter().map(|&i| self.spec.columns[i].name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// Where the key's cells stand in a change of this operation, in the order of [`Target::key_columns`].
    #[must_use]
    pub fn key_positions(&self, operation: Operation) -> Vec<usize> {
        let mut key: Vec<(usize, usize)> = self.spec.key.iter().copied().enumerate().collect();
        key.sort_unstable_by_key(|&(_, column)| self.spec.columns[column].name.as_str());
        key.into_iter().map(|(at, column)| if operation == Operation::Delete { at } else { column }).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::{super::testing::*, *};
    use crate::merge::{ColumnType, Merge, resolve};

    fn target(name: &str, references: &[&str]) -> Target {
        let mut declared = spec(&[Merge::Replace], None);
        declared.table = table(name);
        let mut found = info(&[ColumnType::Int(8)]);
        found.table = table(name);
        found.references = references.iter().map(|t| table(t)).collect();
        resolve(&declared, &found).unwrap()
    }

    #[test]
    fn parents_come_first_then_names() {
        let targets = [
            target("b", &["z"]),
            target("a", &["b", "elsewhere"]),
            target("z", &["z"]),
            target("c", &[]),
            target("b", &["z"]),
        ];
        // c is free and the lesser name; z frees b, b frees a.
        assert_eq!(table_ranks(&targets), [2, 3, 1, 0, 2]);
        let circle = [target("b", &["a"]), target("a", &["b"])];
        assert_eq!(table_ranks(&circle), [1, 0]);
    }

    #[test]
    fn two_targets_of_a_table_must_agree() {
        let versioned = |columns: &[Merge]| {
            let types = vec![ColumnType::Int(8); columns.len()];
            resolve(&spec(columns, Some(Guard::NewerBy(1))), &info(&types)).unwrap()
        };
        let narrow = versioned(&[Merge::Replace]);
        let wide = versioned(&[Merge::Replace, Merge::Replace]);
        assert_eq!(check_together(&[narrow.clone(), wide]).len(), 1);
        assert!(check_together(&[narrow.clone(), narrow.clone()]).is_empty());
        let plain = resolve(&spec(&[Merge::Replace], None), &info(&[ColumnType::Int(8)])).unwrap();
        let faults = check_together(&[narrow, plain]);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].to_string().contains("unguarded"), "{}", faults[0]);
    }
}
