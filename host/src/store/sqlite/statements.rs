//! The SQL that writes a target's rows. Names come from the catalog and are quoted; values are always bound.

use std::sync::Arc;

use crate::merge::{Guard, Merge, SoftKind, Target};

/// A target's statements, made once per connection.
#[derive(Debug)]
pub(super) struct TargetSql {
    /// `INSERT INTO … (columns) VALUES`: rows follow, then [`Self::on_conflict`].
    pub(super) insert: String,
    /// A row's place-holders.
    pub(super) row: String,
    /// What an upsert does with a row that is there.
    pub(super) on_conflict: String,
    /// Parameters: the granted columns.
    pub(super) update: String,
    /// Parameters: the key, then the guard's column where there is a guard, then now where [`Self::delete_binds_now`].
    pub(super) delete: String,
    pub(super) delete_binds_now: bool,
    /// Whether a row is there; parameters: the key.
    pub(super) exists: String,
    /// The state column; parameters: the key.
    pub(super) state: Option<Arc<str>>,
    /// Whether a row that is there and stays unwritten was refused by its guard, being newer.
    pub(super) versioned: bool,
}

/// Quotes a name.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl TargetSql {
    pub(super) fn new(target: &Target) -> Self {
        let spec = &target.spec;
        let table = quoted(&target.table.name);
        let names: Vec<String> = target.columns.iter().map(|column| quoted(&column.name)).collect();
        let is_key = |i: usize| spec.key.contains(&i);
        let key_names: Vec<&str> = spec.key.iter().map(|&i| names[i].as_str()).collect();
        let soft = target.soft.as_ref().map(|soft| (quoted(&soft.column), soft.kind));
        let there = |kind: SoftKind| if kind == SoftKind::Boolean { "0" } else { "NULL" };

        // Upsert: `new` is excluded's column; update: the numbered parameter.
        let sets = |new: &dyn Fn(usize) -> String| -> Vec<(String, String)> {
            let mut sets: Vec<(String, String)> = (0..names.len())
                .filter(|&i| !is_key(i))
                .map(|i| (names[i].clone(), merged(spec.columns[i].merge, &names[i], &new(i))))
                .collect();
            sets.extend(soft.iter().map(|(column, kind)| (column.clone(), there(*kind).to_owned())));
            sets
        };
        let version = match spec.guard {
            Some(Guard::NewerBy(column)) => Some(column),
            _ => None,
        };
        let conditions = |new: &dyn Fn(usize) -> String, sets: &[(String, String)]| {
            let mut all = Vec::new();
            if let Some(i) = version {
                all.push(format!("(t.{0} IS NULL OR {1} > t.{0})", names[i], new(i)));
            }
            // An unchanged row is not rewritten.
            let changed: Vec<String> =
                sets.iter().map(|(column, value)| format!("t.{column} IS NOT {value}")).collect();
            all.push(format!("({})", changed.join(" OR ")));
            all.join(" AND ")
        };
        let assignments = |sets: &[(String, String)]| {
            sets.iter().map(|(column, value)| format!("{column} = {value}")).collect::<Vec<_>>().join(", ")
        };

        let excluded = |i: usize| format!("excluded.{}", names[i]);
        let upsert_sets = sets(&excluded);
        let key_list = key_names.join(", ");
        let on_conflict = if upsert_sets.is_empty() {
            format!(" ON CONFLICT ({key_list}) DO NOTHING")
        } else {
            format!(
                " ON CONFLICT ({key_list}) DO UPDATE SET {} WHERE {}",
                assignments(&upsert_sets),
                conditions(&excluded, &upsert_sets)
            )
        };
        let mut inserted = names.clone();
        let mut places = vec!["?"; names.len()];
        if let Some((column, kind)) = &soft {
            inserted.push(column.clone());
            places.push(there(*kind));
        }

        let parameter = |i: usize| format!("?{}", i + 1);
        let update_sets = sets(&parameter);
        let by_key = |at: &dyn Fn(usize, usize) -> String| {
            let terms = spec.key.iter().enumerate().map(|(place, &i)| format!("t.{} = {}", names[i], at(place, i)));
            terms.collect::<Vec<_>>().join(" AND ")
        };
        let by_column = by_key(&|_, i| parameter(i));
        let by_place = by_key(&|place, _| parameter(place));
        let update = if update_sets.is_empty() {
            // Nothing but the key: the update only asks for the row.
            format!("UPDATE {table} AS t SET {0} = t.{0} WHERE {by_column}", key_names[0])
        } else {
            format!(
                "UPDATE {table} AS t SET {} WHERE {by_column} AND {}",
                assignments(&update_sets),
                conditions(&parameter, &update_sets)
            )
        };
        let (delete, delete_binds_now) = delete_sql(target, &table, &names, &by_place);
        let state = match &spec.guard {
            Some(Guard::Transition { column, .. }) => {
                Some(format!("SELECT t.{} FROM {table} AS t WHERE {by_place}", names[*column]).into())
            }
            _ => None,
        };
        Self {
            insert: format!("INSERT INTO {table} AS t ({}) VALUES ", inserted.join(", ")),
            row: format!("({})", places.join(", ")),
            on_conflict,
            update,
            delete,
            delete_binds_now,
            exists: format!("SELECT 1 FROM {table} AS t WHERE {by_place}"),
            state,
            versioned: version.is_some(),
        }
    }
}

/// The right-hand side of an assignment. Scalar `min` and `max` are NULL where one side is, hence the coalesce.
fn merged(merge: Merge, column: &str, new: &str) -> String {
    match merge {
        Merge::Replace => new.to_owned(),
        Merge::Keep => format!("coalesce(t.{column}, {new})"),
        Merge::Greatest => format!("max(coalesce(t.{column}, {new}), coalesce({new}, t.{column}))"),
        Merge::Least => format!("min(coalesce(t.{column}, {new}), coalesce({new}, t.{column}))"),
        Merge::Add => format!("(coalesce(t.{column}, 0) + coalesce({new}, 0))"),
    }
}

fn delete_sql(target: &Target, table: &str, names: &[String], by_key: &str) -> (String, bool) {
    let spec = &target.spec;
    let Some(soft) = &target.soft else {
        return (format!("DELETE FROM {table} AS t WHERE {by_key}"), false);
    };
    let soft_column = quoted(&soft.column);
    let guard = match &spec.guard {
        Some(Guard::NewerBy(column)) => Some((*column, true)),
        Some(Guard::Transition { column, .. }) => Some((*column, false)),
        None => None,
    };
    let guard_place = spec.key.len() + 1;
    let now_place = guard_place + usize::from(guard.is_some());
    // When a row was deleted first is kept.
    let mark = match soft.kind {
        SoftKind::Boolean => "1".to_owned(),
        SoftKind::Timestamp => format!("coalesce(t.{soft_column}, ?{now_place})"),
    };
    let now = if soft.kind == SoftKind::Timestamp { format!("?{now_place}") } else { "1".to_owned() };
    let binds_now = soft.kind == SoftKind::Timestamp;
    let mut sets = vec![format!("{soft_column} = {mark}")];
    let mut condition = format!("t.{soft_column} IS NOT {mark}");
    if let Some((column, versioned)) = guard {
        let name = &names[column];
        sets.push(format!("{name} = ?{guard_place}"));
        condition = if versioned {
            format!("(t.{name} IS NULL OR ?{guard_place} > t.{name})")
        } else {
            format!("({condition} OR t.{name} IS NOT ?{guard_place})")
        };
    }
    let sets = sets.join(", ");
    if target.leaves_tombstones()
        && let Some((column, _)) = guard
    {
        let keys: Vec<&str> = spec.key.iter().map(|&i| names[i].as_str()).collect();
        let places: Vec<String> = (1..=guard_place).map(|i| format!("?{i}")).collect();
        let sql = format!(
            "INSERT INTO {table} AS t ({keys}, {guard}, {soft_column}) VALUES ({places}, {now}) ON CONFLICT ({keys}) DO \
             UPDATE SET {sets} WHERE {condition}",
            keys = keys.join(", "),
            guard = names[column],
            places = places.join(", "),
        );
        return (sql, binds_now);
    }
    (format!("UPDATE {table} AS t SET {sets} WHERE {by_key} AND {condition}"), binds_now)
}
