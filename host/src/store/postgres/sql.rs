//! The statements of a target, written once from its declaration and the catalog. Identifiers come from the catalog and
//! are always quoted; values are always bound, as one array per column.

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use super::array::Wire;
use crate::merge::{ColumnType, Guard, Merge, Operation, SoftKind, TableName, Target};

/// A target's statements. In all of them `u` is the unnested change, its columns `c0`, `c1`, … after the grant's.
#[derive(Debug)]
pub(super) struct TargetSql {
    /// How each granted column travels.
    pub(super) wires: Vec<Wire>,
    /// Insert or merge. Parameters: all columns, then [`TargetSql::steps`].
    pub(super) upsert: SqlStr,
    /// Merge into what is there; `None` where there is nothing but the key to write.
    pub(super) update: Option<SqlStr>,
    /// Remove or mark. Parameters: key, guard's column, steps.
    pub(super) delete: SqlStr,
    /// Locks rows in the order of the keys given and counts them. Parameters: key.
    pub(super) lock: SqlStr,
    /// Reads, without a lock, which keys' rows are not older than a version. Parameters: key, version.
    pub(super) not_older: Option<SqlStr>,
    /// Locks rows and reads the state. Parameters: key.
    pub(super) states: Option<SqlStr>,
    /// Locks rows and reads all columns and whether the row is marked. Parameters: key.
    pub(super) read: SqlStr,
    /// Writes rows as they are given. Parameters: all columns, the mark.
    pub(super) replace: Option<SqlStr>,
    /// Allowed steps and initial states, as the guard's condition compares them.
    pub(super) steps: Option<(Vec<String>, Vec<String>)>,
}

/// Quotes an identifier.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes a table's name.
pub(super) fn table(name: &TableName) -> String {
    match &name.schema {
        Some(schema) => format!("{}.{}", quoted(schema), quoted(&name.name)),
        None => quoted(&name.name),
    }
}

fn safe(sql: String) -> SqlStr {
    AssertSqlSafe(std::sync::Arc::<str>::from(sql)).into_sql_str()
}

impl TargetSql {
    pub(super) fn new(target: &Target) -> Self {
        let w = Writer { target, wires: target.columns.iter().map(|c| Wire::of(&c.column_type)).collect() };
        Self {
            upsert: w.upsert(),
            update: w.update(),
            delete: w.delete(),
            lock: w.lock(),
            not_older: w.not_older(),
            states: w.states(),
            read: w.read(),
            replace: w.replace(),
            steps: steps(target),
            wires: w.wires,
        }
    }
}

/// Both halves of a step in one text, unambiguous whatever the states' names.
fn steps(target: &Target) -> Option<(Vec<String>, Vec<String>)> {
    let Some(Guard::Transition { initial, allow, .. }) = &target.spec.guard else { return None };
    let step = |(from, to): &(String, String)| format!("{}:{from}{to}", from.chars().count());
    Some((allow.iter().map(step).collect(), initial.iter().cloned().collect()))
}

struct Writer<'a> {
    target: &'a Target,
    wires: Vec<Wire>,
}

impl Writer<'_> {
    fn table(&self) -> String {
        table(&self.target.table)
    }

    fn all(&self) -> Vec<usize> {
        (0..self.target.columns.len()).collect()
    }

    fn key(&self) -> &[usize] {
        &self.target.spec.key
    }

    /// What is not the key.
    fn rest(&self) -> Vec<usize> {
        self.all().into_iter().filter(|i| !self.key().contains(i)).collect()
    }

    fn guard_column(&self) -> Option<usize> {
        match self.target.spec.guard {
            Some(Guard::NewerBy(column) | Guard::Transition { column, .. }) => Some(column),
            None => None,
        }
    }

    /// What a delete carries.
    fn delete_columns(&self) -> Vec<usize> {
        self.key().iter().copied().chain(self.guard_column()).collect()
    }

    fn name(&self, column: usize) -> String {
        quoted(&self.target.columns[column].name)
    }

    fn names(&self, columns: &[usize]) -> String {
        columns.iter().map(|&i| self.name(i)).collect::<Vec<_>>().join(", ")
    }

    /// A change's value, as the column's type.
    fn given(&self, column: usize) -> String {
        format!("u.c{column}::{}", self.target.columns[column].sql_type)
    }

    fn givens(&self, columns: &[usize]) -> String {
        columns.iter().map(|&i| self.given(i)).collect::<Vec<_>>().join(", ")
    }

    /// `unnest` over these columns as `u`, and the number of the next parameter. `extra` names one more column.
    fn unnest(&self, columns: &[usize], extra: Option<(&str, &str)>, ordinality: bool) -> (String, usize) {
        let mut arrays: Vec<String> =
            columns.iter().enumerate().map(|(n, &i)| format!("${}::{}[]", n + 1, self.wires[i].sql())).collect();
        let mut names: Vec<String> = columns.iter().map(|i| format!("c{i}")).collect();
        if let Some((name, sql_type)) = extra {
            arrays.push(format!("${}::{sql_type}[]", arrays.len() + 1));
            names.push(name.into());
        }
        let next = arrays.len() + 1;
        let with = if ordinality {
            names.push("ord".into());
            " WITH ORDINALITY"
        } else {
            ""
        };
        (format!("unnest({}){with} AS u({})", arrays.join(", "), names.join(", ")), next)
    }

    fn same_key(&self) -> String {
        let equal = |&i: &usize| format!("t.{} = {}", self.name(i), self.given(i));
        self.key().iter().map(equal).collect::<Vec<_>>().join(" AND ")
    }

    /// What a column becomes when `new` meets the row. NULL-safe; greatest and least leave NULL out by themselves.
    fn merged(&self, column: usize, new: &str) -> String {
        let old = format!("t.{}", self.name(column));
        match self.target.spec.columns[column].merge {
            Merge::Replace => new.into(),
            Merge::Keep => format!("coalesce({old}, {new})"),
            Merge::Greatest => format!("greatest({old}, {new})"),
            Merge::Least => format!("least({old}, {new})"),
            Merge::Add => format!("coalesce({old}, 0) + coalesce({new}, 0)"),
        }
    }

    /// The condition under which the row takes the change; `next` is the number of the first parameter for steps.
    fn guard(&self, new: &str, next: usize) -> Option<String> {
        let column = self.guard_column()?;
        let old = format!("t.{}", self.name(column));
        Some(match self.target.spec.guard {
            Some(Guard::NewerBy(_)) => format!("({old} IS NULL OR {new} > {old})"),
            _ => format!(
                "(coalesce(length({old}::text) || ':' || {old}::text || {new}::text = ANY (${next}::text[]), false) \
                 OR ({old} IS NULL AND {new}::text = ANY (${}::text[])))",
                next + 1
            ),
        })
    }

    /// Assignments, and the condition that they change anything. Rows that stay as they are are not rewritten.
    fn assignments(&self, columns: &[usize], value: impl Fn(usize) -> String, soft: Option<String>) -> Assignments {
        let mut set = Vec::new();
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for &i in columns {
            let value = value(i);
            set.push(format!("{} = {value}", self.name(i)));
            // json has no equality.
            let text =
                if self.target.columns[i].column_type == (ColumnType::Json { binary: false }) { "::text" } else { "" };
            old.push(format!("t.{}{text}", self.name(i)));
            new.push(if text.is_empty() { value } else { format!("({value}){text}") });
        }
        if let (Some(soft), Some(value)) = (&self.target.soft, soft) {
            let name = quoted(&soft.column);
            set.push(format!("{name} = {value}"));
            old.push(format!("t.{name}"));
            new.push(value);
        }
        let changes = format!("ROW({}) IS DISTINCT FROM ROW({})", old.join(", "), new.join(", "));
        Assignments { set: set.join(", "), changes, any: !set.is_empty() }
    }

    /// Guard and change, joined. A refused step must be told from a row that stays as it is: where a state may follow
    /// itself, the row is written even if nothing changes.
    fn conditions(&self, guard: Option<String>, changes: String) -> String {
        let stays = match &self.target.spec.guard {
            Some(Guard::Transition { allow, .. }) => allow.iter().any(|(from, to)| from == to),
            _ => false,
        };
        match guard {
            Some(guard) if stays => guard,
            Some(guard) => format!("{guard} AND {changes}"),
            None => changes,
        }
    }

    /// The soft-delete column's value for a row that is there, and for one that is deleted.
    fn soft_there(&self) -> Option<String> {
        self.target.soft.as_ref().map(|soft| match soft.kind {
            SoftKind::Boolean => "false".into(),
            SoftKind::Timestamp => "NULL".into(),
        })
    }

    fn soft_deleted(&self) -> Option<String> {
        self.target.soft.as_ref().map(|soft| match soft.kind {
            SoftKind::Boolean => "true".into(),
            SoftKind::Timestamp => format!("coalesce(t.{}, now())", quoted(&soft.column)),
        })
    }

    fn insert(
        &self,
        columns: &[usize],
        soft: Option<&str>,
        merge: impl Fn(usize) -> Option<(String, String)>,
    ) -> SqlStr {
        let (unnest, next) = self.unnest(columns, None, false);
        let (mut names, mut values) = (self.names(columns), self.givens(columns));
        if let (Some(column), Some(value)) = (&self.target.soft, soft) {
            names.push_str(&format!(", {}", quoted(&column.column)));
            values.push_str(&format!(", {value}"));
        }
        let conflict = match merge(next) {
            Some((set, conditions)) => format!("DO UPDATE SET {set} WHERE {conditions}"),
            None => "DO NOTHING".into(),
        };
        let (table, key) = (self.table(), self.names(self.key()));
        safe(format!("INSERT INTO {table} AS t ({names}) SELECT {values} FROM {unnest} ON CONFLICT ({key}) {conflict}"))
    }

    fn excluded(&self, column: usize) -> String {
        format!("excluded.{}", self.name(column))
    }

    fn upsert(&self) -> SqlStr {
        let value = |i: usize| self.merged(i, &self.excluded(i));
        let set = self.assignments(&self.rest(), value, self.soft_there());
        let guard = |next| self.guard_column().and_then(|i| self.guard(&self.excluded(i), next));
        let soft = self.soft_there();
        self.insert(&self.all(), soft.as_deref(), |next| {
            set.any.then(|| (set.set.clone(), self.conditions(guard(next), set.changes.clone())))
        })
    }

    fn update_from(&self, columns: &[usize], set: Assignments) -> Option<SqlStr> {
        let (unnest, next) = self.unnest(columns, None, false);
        let guard = self.guard_column().and_then(|i| self.guard(&self.given(i), next));
        set.any.then(|| {
            safe(format!(
                "UPDATE {} AS t SET {} FROM {unnest} WHERE {} AND {}",
                self.table(),
                set.set,
                self.same_key(),
                self.conditions(guard, set.changes)
            ))
        })
    }

    fn update(&self) -> Option<SqlStr> {
        let value = |i: usize| self.merged(i, &self.given(i));
        self.update_from(&self.all(), self.assignments(&self.rest(), value, self.soft_there()))
    }

    fn delete(&self) -> SqlStr {
        let columns = self.delete_columns();
        let guard_column: Vec<usize> = self.guard_column().into_iter().collect();
        if self.target.leaves_tombstones() {
            let set = self.assignments(&guard_column, |i| self.excluded(i), self.soft_deleted());
            let guard = |next| self.guard_column().and_then(|i| self.guard(&self.excluded(i), next));
            let mark = match self.target.soft.as_ref().map(|soft| soft.kind) {
                Some(SoftKind::Timestamp) => "now()",
                _ => "true",
            };
            return self.insert(&columns, Some(mark), |next| {
                Some((set.set.clone(), self.conditions(guard(next), set.changes.clone())))
            });
        }
        if self.target.soft.is_some() {
            let set = self.assignments(&guard_column, |i| self.given(i), self.soft_deleted());
            if let Some(sql) = self.update_from(&columns, set) {
                return sql;
            }
        }
        let (unnest, _) = self.unnest(&columns, None, false);
        safe(format!("DELETE FROM {} AS t USING {unnest} WHERE {}", self.table(), self.same_key()))
    }

    fn lock(&self) -> SqlStr {
        let (unnest, _) = self.unnest(self.key(), None, true);
        // An UPDATE locks in plan order; this locks in the order of `ord`, the same on every host.
        safe(format!(
            "SELECT count(*) FROM (SELECT FROM {unnest} JOIN {} AS t ON {} ORDER BY u.ord FOR NO KEY UPDATE OF t) l",
            self.table(),
            self.same_key()
        ))
    }

    fn not_older(&self) -> Option<SqlStr> {
        let Some(Guard::NewerBy(version)) = self.target.spec.guard else { return None };
        let columns: Vec<usize> = self.key().iter().copied().chain([version]).collect();
        let (unnest, _) = self.unnest(&columns, None, true);
        // A probe of the key each, whatever the planner believes of the table.
        Some(safe(format!(
            "SELECT u.ord FROM {unnest} CROSS JOIN LATERAL (SELECT FROM {} AS t WHERE {} AND t.{} >= {} LIMIT 1) l",
            self.table(),
            self.same_key(),
            self.name(version),
            self.given(version)
        )))
    }

    fn states(&self) -> Option<SqlStr> {
        let Some(Guard::Transition { column, .. }) = self.target.spec.guard else { return None };
        let (unnest, _) = self.unnest(self.key(), None, true);
        Some(safe(format!(
            "SELECT u.ord, t.{}::text FROM {unnest} JOIN {} AS t ON {} ORDER BY u.ord FOR NO KEY UPDATE OF t",
            self.name(column),
            self.table(),
            self.same_key()
        )))
    }

    fn read(&self) -> SqlStr {
        let (unnest, _) = self.unnest(self.key(), None, true);
        let columns: Vec<String> =
            self.all().iter().map(|&i| format!("t.{}::{}", self.name(i), self.wires[i].sql())).collect();
        let mark = match &self.target.soft {
            Some(soft) => match soft.kind {
                SoftKind::Boolean => format!("t.{} IS TRUE", quoted(&soft.column)),
                SoftKind::Timestamp => format!("t.{} IS NOT NULL", quoted(&soft.column)),
            },
            None => "false".into(),
        };
        safe(format!(
            "SELECT u.ord, {mark}, {} FROM {unnest} JOIN {} AS t ON {} ORDER BY u.ord FOR NO KEY UPDATE OF t",
            columns.join(", "),
            self.table(),
            self.same_key()
        ))
    }

    fn replace(&self) -> Option<SqlStr> {
        let (unnest, _) = self.unnest(&self.all(), Some(("mark", "int8")), false);
        // 0 = there, 1 = deleted before, 2 = deleted now.
        let soft = self.target.soft.as_ref().map(|soft| match soft.kind {
            SoftKind::Boolean => "u.mark > 0".into(),
            SoftKind::Timestamp => {
                format!("CASE u.mark WHEN 0 THEN NULL WHEN 1 THEN t.{} ELSE now() END", quoted(&soft.column))
            }
        });
        let set = self.assignments(&self.rest(), |i| self.given(i), soft);
        set.any.then(|| {
            safe(format!("UPDATE {} AS t SET {} FROM {unnest} WHERE {}", self.table(), set.set, self.same_key()))
        })
    }
}

struct Assignments {
    set: String,
    changes: String,
    any: bool,
}

/// Whether a statement of this operation may insert rows.
pub(super) fn inserts(target: &Target, operation: Operation) -> bool {
    match operation {
        Operation::Upsert => true,
        Operation::Update => false,
        Operation::Delete => target.leaves_tombstones(),
    }
}
