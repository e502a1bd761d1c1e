//! A target's `guard`: which changes a row lets through.

use std::collections::BTreeSet;

use super::{
    document::{Entry, Value},
    schema,
    section::{Placed, Section},
    target::suggest_column,
};
use crate::merge::{ColumnSpec, Guard, Merge, OnRefused, Operation};

/// Reads a target's guard. What is wrong was reported.
pub(super) fn read(
    target: &Section<'_>,
    columns: &[ColumnSpec],
    key: &[usize],
    operations: &BTreeSet<Operation>,
) -> Option<Guard> {
    let section = target.section("guard", &schema::GUARD)?;
    match (section.has("newer_by"), section.has("transition")) {
        (true, true) => {
            let help = "keep one of them: a state machine already says which change is older";
            section.error("both-given", &section.place, "newer_by", "both `newer_by` and `transition` are given", help);
            None
        }
        (false, false) => {
            let help = "newer_by = \"COLUMN\" or transition = { column, initial, allow }";
            section.error("missing-key", &section.place, "newer_by", "the guard is empty", help);
            None
        }
        (true, false) => newer_by(&section, columns, key),
        (false, true) => transition(&section, columns, key, operations),
    }
}

/// The guard's column: granted, not of the key, replaced by the new value.
fn column(
    section: &Section<'_>,
    at: &'static str,
    name: &Placed,
    columns: &[ColumnSpec],
    key: &[usize],
) -> Option<usize> {
    let Some(index) = columns.iter().position(|column| column.name == name.value) else {
        if columns.is_empty() {
            // That was told already.
            return None;
        }
        let message = format!("{} is not among this target's columns", name.shown());
        let names = columns.iter().map(|column| column.name.as_str());
        section.error("unknown-column", &name.place, at, message, suggest_column(&name.value, names));
        return None;
    };
    if key.contains(&index) {
        let message = format!("{} belongs to the key: it is equal whenever two rows meet", name.shown());
        section.error(
            "guard-on-key",
            &name.place,
            at,
            message,
            "name a column that changes with every version of the row",
        );
        return None;
    }
    if columns[index].merge != Merge::Replace {
        let message = format!("{} guards the row, so it must take the new value", name.shown());
        section.error("merge-on-guard", &name.place, at, message, "take it out of `merge`");
        return None;
    }
    Some(index)
}

fn newer_by(section: &Section<'_>, columns: &[ColumnSpec], key: &[usize]) -> Option<Guard> {
    let name = section.required_text("newer_by", "the column that holds the row's version")?;
    let index = column(section, "newer_by", &name, columns, key)?;
    if let Some(adding) = columns.iter().find(|column| column.merge == Merge::Add) {
        section.error(
            "add-under-guard",
            &name.place,
            "newer_by",
            format!("`newer_by` with an adding column (\"{}\")", adding.name),
            "an amount that arrives late would be refused and the sum would miss it; take the guard or the `add` out, or split the target",
        );
        return None;
    }
    Some(Guard::NewerBy(index))
}

fn transition(
    target: &Section<'_>,
    columns: &[ColumnSpec],
    key: &[usize],
    operations: &BTreeSet<Operation>,
) -> Option<Guard> {
    let section = target.section("transition", &schema::TRANSITION)?;
    let name = section.required_text("column", "the column that holds the row's state");
    let index = name.and_then(|name| column(&section, "column", &name, columns, key));
    let initial = section.texts("initial");
    if initial.is_empty() && operations.contains(&Operation::Upsert) && !broken(&section, "initial") {
        let help = "name the states in which a row may begin: initial = [\"created\"]";
        section.error(
            "no-initial-state",
            &section.place_of("initial"),
            "initial",
            "no row could ever be inserted",
            help,
        );
    }
    let allow = allow(&section);
    unreachable(&section, &initial, &allow, operations);
    let refused = [("dead-letter", OnRefused::DeadLetter), ("ignore", OnRefused::Ignore)];
    let on_refused = section.choice("on_refused", OnRefused::DeadLetter, &refused);
    Some(Guard::Transition {
        column: index?,
        initial: initial.into_iter().map(|state| state.value).collect(),
        allow: allow.into_iter().map(|(from, to)| (from.value, to.value)).collect(),
        on_refused,
    })
}

/// Whether a key stands there but was reported already.
fn broken(section: &Section<'_>, key: &'static str) -> bool {
    section.has(key)
        && !section.node(key).is_some_and(|node| matches!(&node.value, Value::Array(list) if list.is_empty()))
}

/// `allow = { from = ["to", …] }` as steps.
fn allow(section: &Section<'_>) -> Vec<(Placed, Placed)> {
    let help = "write the allowed steps: allow = { created = [\"paid\", \"cancelled\"], paid = [\"refunded\"] }";
    section.missing("allow", help);
    let Some((table, place)) = section.table("allow") else { return vec![] };
    if table.is_empty() {
        section.error("empty", place, "allow", "no step is allowed", help);
    }
    table.iter().flat_map(|(from, entry)| steps(section, from, entry, help)).collect()
}

fn steps(section: &Section<'_>, from: &str, entry: &Entry, help: &str) -> Vec<(Placed, Placed)> {
    let path = format!("allow.{from}");
    let Value::Array(nodes) = &entry.node.value else {
        section.bad_type::<()>(&path, &entry.node, &format!("a list of states; {help}"));
        return vec![];
    };
    let mut steps: Vec<(Placed, Placed)> = vec![];
    for node in nodes {
        let to = match &node.value {
            Value::Text(text) => section.open_text(&path, text, &node.place),
            Value::Broken => None,
            _ => section.bad_type(&path, node, "a state in quotes"),
        };
        let Some(to) = to else { continue };
        if steps.iter().any(|(_, there)| there.value == to.value) {
            section.error("defined-twice", &to.place, &path, "this step is listed twice", "keep it once");
        } else {
            steps.push((Placed { value: from.to_owned(), place: entry.key.clone() }, to));
        }
    }
    steps
}

/// A state that steps lead out of but that no row can get into is most likely misspelt. (Rows that were there before
/// tidegate, or that other programs write, may be in any state: only a warning, and none for update-only targets.)
fn unreachable(
    section: &Section<'_>,
    initial: &[Placed],
    allow: &[(Placed, Placed)],
    operations: &BTreeSet<Operation>,
) {
    if !operations.contains(&Operation::Upsert) || initial.is_empty() {
        return;
    }
    let mut reached: BTreeSet<&str> = initial.iter().map(|state| state.value.as_str()).collect();
    while let Some((_, to)) =
        allow.iter().find(|(from, to)| reached.contains(from.value.as_str()) && !reached.contains(to.value.as_str()))
    {
        reached.insert(&to.value);
    }
    let mut told = BTreeSet::new();
    for (from, _) in allow.iter().filter(|(from, _)| !reached.contains(from.value.as_str())) {
        if told.insert(&from.value) {
            let message = format!("no row ever gets into the state {}", from.shown());
            let help = "add it to `initial`, or a step that leads to it; or it is misspelt";
            section.reading.warning("unreachable-state", &from.place, &section.at("allow"), &message, Some(help));
        }
    }
}
