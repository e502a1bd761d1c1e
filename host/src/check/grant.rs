//! What a plugin says that it writes, against what the configuration grants it (Invariant 7). Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::{config::Consumer, merge::TargetSpec, plugin::Description};

/// What a plugin describes against what a consumer grants: each difference in words, and whether it could not run so.
pub(crate) fn mismatches(description: &Description, consumer: &Consumer) -> Vec<(String, bool)> {
    let found = compare(&description.targets, &consumer.targets);
    found.iter().map(|mismatch| (mismatch.text().0, mismatch.stops())).collect()
}

/// Where they do not agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// The plugin writes a target that is not granted: every batch with it would stop the consumer.
    NotGranted {
        /// What the plugin calls it.
        target: String,
        /// What is granted.
        granted: Vec<String>,
    },
    /// A shape must name exactly the columns of its grant.
    Columns {
        /// Which target.
        target: String,
        /// Granted, but not among the plugin's.
        missing: Vec<String>,
        /// The plugin's, but not granted.
        extra: Vec<String>,
    },
    /// Granted, but the plugin does not know it: more than it needs, or misspelt.
    Unused {
        /// Which target.
        target: String,
    },
}

impl Mismatch {
    /// Whether the consumer could not run.
    #[must_use]
    pub(super) fn stops(&self) -> bool {
        !matches!(self, Self::Unused { .. })
    }

    /// What is wrong, and the way out.
    #[must_use]
    pub(super) fn text(&self) -> (String, String) {
        match self {
            Self::NotGranted { target, granted } => (
                format!("the plugin writes \"{target}\", which is not granted"),
                format!("add a [[consumer.target]] of that name; granted are: {}", granted.join(", ")),
            ),
            Self::Columns { target, missing, extra } => {
                let mut said = vec![];
                if !extra.is_empty() {
                    said.push(format!("the plugin also writes {}", extra.join(", ")));
                }
                if !missing.is_empty() {
                    said.push(format!("the plugin does not write {}", missing.join(", ")));
                }
                let help = "make `columns` of the target exactly those that the plugin writes";
                (format!("the columns of \"{target}\" differ: {}", said.join("; ")), help.to_owned())
            }
            Self::Unused { target } => (
                format!("the plugin says nothing of the target \"{target}\""),
                "take the target out, or correct its name".to_owned(),
            ),
        }
    }
}

/// Compares a plugin's own description with the grants. A plugin that says nothing of its targets agrees with all.
#[must_use]
pub(super) fn compare(described: &BTreeMap<String, Vec<String>>, granted: &[TargetSpec]) -> Vec<Mismatch> {
    if described.is_empty() {
        return vec![];
    }
    let mut found = vec![];
    for (target, columns) in described {
        let Some(spec) = granted.iter().find(|spec| spec.name == *target) else {
            let granted = granted.iter().map(|spec| spec.name.clone()).collect();
            found.push(Mismatch::NotGranted { target: target.clone(), granted });
            continue;
        };
        let written: BTreeSet<&String> = columns.iter().collect();
        let allowed: BTreeSet<&String> = spec.columns.iter().map(|column| &column.name).collect();
        if written != allowed {
            let names = |set: BTreeSet<&&String>| set.into_iter().map(|name| (*name).clone()).collect();
            found.push(Mismatch::Columns {
                target: target.clone(),
                missing: names(allowed.difference(&written).collect()),
                extra: names(written.difference(&allowed).collect()),
            });
        }
    }
    for spec in granted.iter().filter(|spec| !described.contains_key(&spec.name)) {
        found.push(Mismatch::Unused { target: spec.name.clone() });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::{ColumnSpec, Merge, TableName};

    fn spec(name: &str, columns: &[&str]) -> TargetSpec {
        let column = |name: &&str| ColumnSpec { name: (*name).to_owned(), merge: Merge::Replace };
        TargetSpec {
            name: name.to_owned(),
            table: TableName { schema: None, name: name.to_owned() },
            columns: columns.iter().map(column).collect(),
            key: vec![0],
            guard: None,
            operations: BTreeSet::new(),
            soft_delete: None,
        }
    }

    fn described(targets: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        let columns = |columns: &[&str]| columns.iter().map(|&column| column.to_owned()).collect();
        targets.iter().map(|(name, names)| ((*name).to_owned(), columns(names))).collect()
    }

    #[test]
    fn the_same_columns_in_any_order_agree() {
        let granted = [spec("orders", &["id", "state"])];
        assert_eq!(compare(&described(&[("orders", &["state", "id"])]), &granted), []);
        assert_eq!(compare(&BTreeMap::new(), &granted), [], "nothing said, nothing to compare");
    }

    #[test]
    fn what_differs_is_told_with_the_way_out() {
        let granted = [spec("orders", &["id", "state"]), spec("extra", &["id"])];
        let found = compare(&described(&[("orders", &["id", "amount"]), ("order", &["id"])]), &granted);
        let texts: Vec<_> = found.iter().map(|mismatch| mismatch.text().0).collect();
        assert_eq!(
            texts,
            [
                "the plugin writes \"order\", which is not granted",
                "the columns of \"orders\" differ: the plugin also writes amount; the plugin does not write state",
                "the plugin says nothing of the target \"extra\"",
            ]
        );
        assert_eq!(found.iter().map(Mismatch::stops).collect::<Vec<_>>(), [true, true, false]);
    }
}
