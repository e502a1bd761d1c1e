//! `[[consumer.target]]`: what the plugin may write, and how it merges.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    document::{Place, Table, Value},
    guard, schema,
    section::{Placed, Section},
    suggest::nearest,
};
use crate::merge::{ColumnSpec, Guard, Merge, Operation, TableName, TargetSpec, is_own_table};

const MERGES: [(&str, Merge); 5] = [
    ("replace", Merge::Replace),
    ("keep", Merge::Keep),
    ("greatest", Merge::Greatest),
    ("least", Merge::Least),
    ("add", Merge::Add),
];

/// A target, and what the cross checks need to know of where it stands.
pub(super) struct PlacedTarget {
    /// The target; where something was reported, with a stand-in.
    pub(super) spec: TargetSpec,
    /// Its path.
    pub(super) path: String,
    /// Where it stands.
    pub(super) name: Place,
    /// Where its guard stands.
    pub(super) guard: Place,
}

/// Reads one target, the `number`th of its consumer. What is wrong was reported.
pub(super) fn read(consumer: &Section<'_>, number: usize, table: &Table, place: &Place) -> PlacedTarget {
    let called = table.get("name").and_then(|entry| match &entry.node.value {
        Value::Text(text) if !text.text.is_empty() && !text.secret => Some(text.text.clone()),
        _ => None,
    });
    let path = format!("{}.target[{}]", consumer.path, called.unwrap_or_else(|| format!("#{number}")));
    let section = Section::open(consumer.reading, &schema::TARGET, table, place, path.clone());

    let name =
        section.required_text("name", "what the plugin calls this target").map(|name| name.value).unwrap_or_default();
    let table = table_name(&section);
    let names = columns(&section);
    let index: BTreeMap<&str, usize> = names.iter().enumerate().map(|(i, name)| (name.value.as_str(), i)).collect();
    let key = key(&section, &index);
    let merges = merges(&section, &index, &key);
    let columns: Vec<ColumnSpec> = names
        .iter()
        .enumerate()
        .map(|(i, name)| ColumnSpec {
            name: name.value.clone(),
            merge: merges.get(&i).copied().unwrap_or(Merge::Replace),
        })
        .collect();
    let operations = operations(&section);
    let guard = guard::read(&section, &columns, &key, &operations);
    let soft_delete = soft_delete(&section, &columns, guard.as_ref(), &operations);
    PlacedTarget {
        spec: TargetSpec { name, table, columns, key, guard, operations, soft_delete },
        path,
        name: section.place_of("name"),
        guard: section.place_of("guard"),
    }
}

fn table_name(section: &Section<'_>) -> TableName {
    let help = "the table's name, with its schema where needed: \"settlements\" or \"shop.settlements\"";
    let Some(text) = section.required_text("table", help) else {
        return TableName { schema: None, name: String::new() };
    };
    let (schema, name) = match text.value.split_once('.') {
        Some((schema, name)) => (Some(schema.to_owned()), name.to_owned()),
        None => (None, text.value.clone()),
    };
    if name.is_empty()
        || name.contains('.')
        || schema.as_ref().is_some_and(String::is_empty)
        || text.value.contains('\0')
    {
        section.error("bad-value", &text.place, "table", format!("{} is no table's name", text.shown()), help);
    } else if is_own_table(&name) {
        let message = format!("{} is tidegate's own table", text.shown());
        section.error(
            "own-table",
            &text.place,
            "table",
            message,
            "a target is a table of your business: the ledger is written by the host alone",
        );
    }
    TableName { schema, name }
}

fn columns(section: &Section<'_>) -> Vec<Placed> {
    let help = "columns = [\"…\"]: every column that the plugin may write, those of the key too";
    section.missing("columns", help);
    if section.has("columns")
        && section.node("columns").is_some_and(|n| matches!(&n.value, Value::Array(nodes) if nodes.is_empty()))
    {
        section.error("empty", &section.place_of("columns"), "columns", "`columns` is empty", help);
    }
    distinct(section, "columns")
}

fn key(section: &Section<'_>, index: &BTreeMap<&str, usize>) -> Vec<usize> {
    let help = "key = [\"…\"]: the columns of the table's unique index, which keep the result free of duplicates";
    section.missing("key", help);
    let names = distinct(section, "key");
    if section.node("key").is_some_and(|n| matches!(&n.value, Value::Array(nodes) if nodes.is_empty())) {
        section.error("empty", &section.place_of("key"), "key", "`key` is empty", help);
    }
    names.iter().filter_map(|name| column(section, "key", name, index)).collect()
}

/// A list of names without repetitions.
fn distinct(section: &Section<'_>, key: &'static str) -> Vec<Placed> {
    let mut seen = BTreeSet::new();
    let mut names = section.texts(key);
    names.retain(|name| {
        let fresh = seen.insert(name.value.clone());
        if name.value.is_empty() || name.value.contains('\0') {
            section.error(
                "bad-value",
                &name.place,
                key,
                format!("{} is no column's name", name.shown()),
                "name a column",
            );
        } else if !fresh {
            section.error(
                "defined-twice",
                &name.place,
                key,
                format!("{} is listed twice", name.shown()),
                "keep it once",
            );
        }
        fresh
    });
    names
}

/// A column's index; reported where it is not among `columns`. Where there are none at all, that was told already.
fn column(section: &Section<'_>, key: &str, name: &Placed, index: &BTreeMap<&str, usize>) -> Option<usize> {
    let found = index.get(name.value.as_str()).copied();
    if found.is_none() && !index.is_empty() {
        section.error(
            "unknown-column",
            &name.place,
            key,
            format!("{} is not among this target's columns", name.shown()),
            suggest_column(&name.value, index.keys().copied()),
        );
    }
    found
}

/// The way out for a column that is not there.
pub(super) fn suggest_column<'a>(name: &str, columns: impl Iterator<Item = &'a str> + Clone) -> String {
    match nearest(name, columns.clone()) {
        Some(known) => format!("did you mean \"{known}\"?"),
        None => format!("add it to `columns`, or use one of: {}", columns.collect::<Vec<_>>().join(", ")),
    }
}

fn merges(section: &Section<'_>, index: &BTreeMap<&str, usize>, key: &[usize]) -> BTreeMap<usize, Merge> {
    let Some((table, _)) = section.table("merge") else { return BTreeMap::new() };
    let mut merges = BTreeMap::new();
    for (name, entry) in table {
        let path = format!("merge.{name}");
        let Some(column) = index.get(name.as_str()).copied() else {
            // Without columns that was told already.
            if !index.is_empty() {
                let message = format!("\"{name}\" is not among this target's columns");
                section.error(
                    "unknown-column",
                    &entry.key,
                    &path,
                    message,
                    suggest_column(name, index.keys().copied()),
                );
            }
            continue;
        };
        if key.contains(&column) {
            let message = format!("\"{name}\" belongs to the key, which never changes");
            section.error(
                "merge-on-key",
                &entry.key,
                &path,
                message,
                "take it out of `merge`: rows merge where their keys are equal",
            );
            continue;
        }
        match &entry.node.value {
            Value::Text(text) => match MERGES.iter().find(|(word, _)| *word == text.text) {
                Some((_, merge)) => {
                    merges.insert(column, *merge);
                }
                None => {
                    let words = MERGES.map(|(word, _)| word);
                    let hint = nearest(&text.text, words).map(|word| format!("did you mean \"{word}\"? "));
                    let help = format!("{}it is one of \"{}\"", hint.unwrap_or_default(), words.join("\", \""));
                    let message = format!("{} is no way to merge", section.shown(&path, &entry.node));
                    section.error("bad-value", &entry.node.place, &path, message, help);
                }
            },
            _ => {
                section.bad_type::<()>(&path, &entry.node, "a word in quotes, such as \"keep\"");
            }
        }
    }
    merges
}

fn operations(section: &Section<'_>) -> BTreeSet<Operation> {
    let words = [("upsert", Operation::Upsert), ("update", Operation::Update), ("delete", Operation::Delete)];
    if !section.has("operations") {
        return BTreeSet::from([Operation::Upsert]);
    }
    let mut operations = BTreeSet::new();
    let help = "operations = [\"upsert\"], with \"update\" and \"delete\" where the plugin asks for them";
    for text in section.texts("operations") {
        match words.iter().find(|(word, _)| *word == text.value) {
            Some((_, operation)) => {
                operations.insert(*operation);
            }
            None => {
                section.error("bad-value", &text.place, "operations", format!("{} is no operation", text.shown()), help)
            }
        }
    }
    if section.node("operations").is_some_and(|n| matches!(&n.value, Value::Array(nodes) if nodes.is_empty())) {
        section.error("empty", &section.place_of("operations"), "operations", "`operations` is empty", help);
    }
    operations
}

fn soft_delete(
    section: &Section<'_>,
    columns: &[ColumnSpec],
    guard: Option<&Guard>,
    operations: &BTreeSet<Operation>,
) -> Option<String> {
    let soft = section.text("soft_delete");
    let deletes = operations.contains(&Operation::Delete);
    if let Some(soft) = &soft {
        if !deletes {
            let message = "`soft_delete` without the operation \"delete\"";
            let help = "add \"delete\" to `operations`, or take `soft_delete` out";
            section.error("soft-without-delete", &soft.place, "soft_delete", message, help);
        }
        if soft.value.is_empty() || soft.value.contains('\0') {
            section.error(
                "bad-value",
                &soft.place,
                "soft_delete",
                "this is no column's name",
                "a boolean or timestamp column",
            );
        }
        if columns.iter().any(|column| column.name == soft.value) {
            let message = format!("{} is among `columns`", soft.shown());
            let help = "take it out of `columns`: the host sets it at a delete and clears it at an upsert";
            section.error("soft-is-granted", &soft.place, "soft_delete", message, help);
        }
    } else if deletes && guard.is_some() && !section.has("soft_delete") {
        section.error(
            "hard-delete-under-guard",
            &section.place_of("operations"),
            "operations",
            "a hard delete forgets what the guard needs to know: a late upsert would bring the row back",
            "name a boolean or timestamp column of the table: soft_delete = \"deleted_at\"",
        );
    }
    soft.map(|soft| soft.value)
}
