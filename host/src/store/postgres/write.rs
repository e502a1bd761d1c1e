//! Target rows: waves, folds, locks. What goes together and in which order is decided in [`crate::merge`]; this sends it.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use sqlx::{SqlStr, postgres::PgRow};

use super::{
    super::{RowKey, Statement, StoreError, Written},
    array::{PgQuery, bind},
    fold,
    lane::Lane,
    sql::{TargetSql, inserts},
};
use crate::{
    fail_point::{FailPoint, reach},
    merge::{
        Cell, Combined, Guard, KeyChanges, Layout, Operation, Plan, Statement as Group, TableChanges, Target,
        TypedChange, combine, wave,
    },
};

/// A key with more changes than this is folded, where that is allowed; fewer are as cheap in waves.
const FOLD_FROM: usize = 5;

/// A consumer's targets with all that is worked out of them once.
#[derive(Debug)]
pub(super) struct TargetSet {
    pub(super) targets: Vec<Target>,
    pub(super) layout: Layout,
    pub(super) sql: Vec<TargetSql>,
}

impl Lane {
    /// The statements for these targets: kept while the targets stay the same.
    fn target_set(&mut self, targets: &[Target]) -> Arc<TargetSet> {
        match &self.targets {
            Some(set) if set.targets == targets => Arc::clone(set),
            _ => {
                let set = Arc::new(TargetSet {
                    targets: targets.to_vec(),
                    layout: Layout::new(targets),
                    sql: targets.iter().map(TargetSql::new).collect(),
                });
                self.targets = Some(Arc::clone(&set));
                self.definition = None;
                set
            }
        }
    }

    /// See [`super::super::Connection::write`].
    pub(super) async fn write(&mut self, targets: &[Target], changes: &[&TypedChange]) -> Result<Written, StoreError> {
        let set = self.target_set(targets);
        let mut written = Written::default();
        match set.layout.plan(targets, changes.iter().copied()) {
            Plan::InOrder(runs) => {
                for run in &runs {
                    self.write_group(&set, run, true, &mut written).await?;
                }
            }
            Plan::Tables(tables) => {
                for table in &tables {
                    self.write_table(&set, table, &mut written).await?;
                }
            }
        }
        self.assert_unchanged(&set).await?;
        Ok(written)
    }

    /// Invariant 9, 12: wave by wave, but changes of one key that may be combined go as one, and what is hot and may be
    /// folded as one write over the row that wave 1 has locked.
    async fn write_table(
        &mut self,
        set: &TargetSet,
        table: &TableChanges<'_>,
        written: &mut Written,
    ) -> Result<(), StoreError> {
        let combined = self.combine_keys(set, &table.keys).await?;
        written.stale += combined.iter().flatten().map(|c| c.stale).sum::<u64>();
        let keys = fewer_changes(&table.keys, &combined);
        let first = wave(&keys, 0);
        let several = first.len() > 1;
        if several {
            // Each statement locks its own keys: all of the table's are locked before, in one order.
            self.lock_keys(set, &keys).await?;
        }
        for group in &first {
            self.write_group(set, group, !several, written).await?;
        }
        let longest = keys.iter().map(|key| key.changes.len()).max().unwrap_or(0);
        if longest < 2 {
            return Ok(());
        }
        let (hot, mut rest): (Vec<KeyChanges<'_>>, Vec<KeyChanges<'_>>) = keys
            .iter()
            .filter(|key| key.changes.len() > 1)
            .cloned()
            .partition(|key| key.changes.len() >= FOLD_FROM && fold::may_fold(&set.targets, key));
        if !hot.is_empty() {
            // In the order of the keys still: what was not folded joins the waves.
            rest.extend(self.fold_keys(set, hot, written).await?);
        }
        for number in 1..longest {
            let groups = wave(&rest, number);
            if groups.is_empty() {
                break;
            }
            for group in &groups {
                self.write_group(set, group, false, written).await?;
            }
        }
        Ok(())
    }

    /// Combines the changes of each key that has several. `None` where there is one, or where the row has a say.
    async fn combine_keys(
        &mut self,
        set: &TargetSet,
        keys: &[KeyChanges<'_>],
    ) -> Result<Vec<Option<Combined>>, StoreError> {
        let several = |key: &KeyChanges<'_>| key.changes.len() > 1;
        if !keys.iter().any(several) {
            return Ok(Vec::new());
        }
        let mut combined: Vec<Option<Combined>> = keys
            .iter()
            .map(|key| if several(key) { combine(&set.targets[key.changes[0].target], &key.changes) } else { None })
            .collect();
        // The row of such a key may refuse some of its changes and take others. Rows end right in either case; this look,
        // without a lock, is so that what is refused is counted.
        for (index, (target, sql)) in set.targets.iter().zip(&set.sql).enumerate() {
            let (Some(not_older), Some(Guard::NewerBy(version))) = (&sql.not_older, &target.spec.guard) else {
                continue;
            };
            let asked: Vec<(usize, &TypedChange, &Cell)> = combined
                .iter()
                .enumerate()
                .filter_map(|(at, c)| c.as_ref().map(|c| (at, c)))
                .filter(|(_, c)| c.change.target == index)
                .filter_map(|(at, c)| Some((at, &c.change, c.oldest.as_ref()?)))
                .collect();
            if asked.is_empty() {
                continue;
            }
            let mut query = sqlx::query(not_older.clone());
            for &column in &target.spec.key {
                query = bind(query, target, column, asked.iter().map(|(_, change, _)| &change.cells[column]))?;
            }
            query = bind(query, target, *version, asked.iter().map(|(.., oldest)| *oldest))?;
            let context = context("look at versions of", target);
            let rows = self.rows(Statement::Lock, &context, query).await?;
            let asked: Vec<usize> = asked.iter().map(|(at, ..)| *at).collect();
            for row in &rows {
                let ord: i64 = Self::get(row, 0, Statement::Lock, &context)?;
                if let Some(&at) = usize::try_from(ord - 1).ok().and_then(|ord| asked.get(ord)) {
                    combined[at] = None;
                }
            }
        }
        Ok(combined)
    }

    /// Locks the rows of a table's keys in their order, through the target of the first.
    async fn lock_keys(&mut self, set: &TargetSet, keys: &[KeyChanges<'_>]) -> Result<(), StoreError> {
        let Some(first) = keys.first().map(|key| key.changes[0]) else { return Ok(()) };
        let (target, sql) = (&set.targets[first.target], &set.sql[first.target]);
        // Keys in this target's order, whichever target a change is of.
        let names = target.key_columns();
        let place = |at: usize| names.iter().position(|n| *n == target.columns[target.spec.key[at]].name).unwrap_or(at);
        let mut query = sqlx::query(sql.lock.clone());
        for at in 0..target.spec.key.len() {
            let place = place(at);
            let cells = keys.iter().map(|key| set.layout.key_of(key.changes[0]).nth(place).unwrap_or(&Cell::Null));
            query = bind(query, target, target.spec.key[at], cells)?;
        }
        self.rows(Statement::Lock, &context("lock rows of", target), query).await.map(drop)
    }

    /// One statement over distinct, sorted keys. `lock`: where it would lock in plan order, lock in key order before.
    async fn write_group(
        &mut self,
        set: &TargetSet,
        group: &Group<'_>,
        lock: bool,
        written: &mut Written,
    ) -> Result<(), StoreError> {
        let (target, sql) = (&set.targets[group.target], &set.sql[group.target]);
        let sent = count(group.changes.len());
        let hard = group.operation == Operation::Delete && target.soft.is_none();
        let found = if inserts(target, group.operation) || (hard && !lock) {
            sent
        } else {
            let at = if group.operation == Operation::Delete { |n, _: usize| n } else { |_: usize, column| column };
            let mut query = sqlx::query(sql.lock.clone());
            for (n, &column) in target.spec.key.iter().enumerate() {
                let at = at(n, column);
                query = bind(query, target, column, group.changes.iter().map(|c| &c.cells[at]))?;
            }
            let context = context("lock rows of", target);
            let rows = self.rows(Statement::Lock, &context, query).await?;
            let found: i64 = rows.first().map_or(Ok(0), |row| Self::get(row, 0, Statement::Lock, &context))?;
            found.try_into().unwrap_or(0)
        };
        let statement = match group.operation {
            Operation::Upsert => Some(&sql.upsert),
            Operation::Update => sql.update.as_ref(),
            Operation::Delete => Some(&sql.delete),
        };
        let touched = match statement {
            Some(statement) if found > 0 => {
                let query = changes_query(statement, target, sql, group)?;
                let touched = self.run(Statement::Write, &context("write", target), query).await?;
                reach(FailPoint::TargetWritten);
                touched
            }
            _ => 0,
        };
        if hard {
            written.missing += sent.saturating_sub(touched);
            return Ok(());
        }
        written.missing += sent.saturating_sub(found);
        match target.spec.guard {
            // The version of a change that is let through is newer, so its row is rewritten: what was not touched was
            // refused.
            Some(Guard::NewerBy(_)) => written.stale += found.saturating_sub(touched),
            // All of these steps were found allowed before. A row that was not there then may be there now.
            Some(Guard::Transition { .. }) if touched < found => {
                let text = "a row's state is not what it was when its changes were judged: somebody else has just \
                            inserted or changed it";
                return Err(StoreError::transient(Statement::Write, context("write", target), text));
            }
            _ => {}
        }
        Ok(())
    }

    /// Folds what can be folded; gives back what cannot.
    async fn fold_keys<'a>(
        &mut self,
        set: &TargetSet,
        hot: Vec<KeyChanges<'a>>,
        written: &mut Written,
    ) -> Result<Vec<KeyChanges<'a>>, StoreError> {
        let mut left = Vec::new();
        let mut by_target: Vec<(usize, Vec<KeyChanges<'a>>)> = Vec::new();
        for key in hot {
            let target = key.changes[0].target;
            match by_target.iter_mut().find(|(t, _)| *t == target) {
                Some((_, keys)) => keys.push(key),
                None => by_target.push((target, vec![key])),
            }
        }
        for (index, keys) in by_target {
            let (target, sql) = (&set.targets[index], &set.sql[index]);
            let mut query = sqlx::query(sql.read.clone());
            for (n, &column) in target.spec.key.iter().enumerate() {
                let cells = keys.iter().map(|key| {
                    let change = key.changes[0];
                    &change.cells[if change.operation == Operation::Delete { n } else { column }]
                });
                query = bind(query, target, column, cells)?;
            }
            let read = self.rows(Statement::Lock, &context("read rows of", target), query).await?;
            let mut rows: Vec<Option<crate::merge::Row>> = vec![None; keys.len()];
            for row in &read {
                let ord: i64 = Self::get(row, 0, Statement::Lock, "read rows")?;
                if let Some(place) = usize::try_from(ord - 1).ok().and_then(|at| rows.get_mut(at)) {
                    *place = fold::read_row(target, sql, row);
                }
            }
            let mut folded = Vec::new();
            for (key, row) in keys.into_iter().zip(rows) {
                match row.and_then(|row| crate::merge::fold(target, row, key.changes[1..].iter().copied())) {
                    Some(result) => folded.push(result),
                    None => left.push(key),
                }
            }
            written.stale += folded.iter().map(|f| f.stale).sum::<u64>();
            folded.retain(|f| f.changed);
            if folded.is_empty() {
                continue;
            }
            let Some(replace) = &sql.replace else { continue };
            let query = fold::replace_query(replace, target, &folded)?;
            let touched = self.run(Statement::Write, &context("write", target), query).await?;
            reach(FailPoint::TargetWritten);
            if touched != count(folded.len()) {
                let text = "a locked row was not written; is there a rule or policy on the table?";
                return Err(StoreError::fatal(Statement::Write, context("write", target), text));
            }
        }
        Ok(left)
    }

    /// See [`super::super::Connection::lock_states`].
    pub(super) async fn lock_states(
        &mut self,
        target: &Target,
        keys: &[RowKey],
    ) -> Result<HashMap<RowKey, Cell>, StoreError> {
        let context = context("read states of", target);
        let sql = match &self.targets {
            Some(set) => set.targets.iter().position(|t| t == target).map(|at| (Arc::clone(set), at)),
            None => None,
        };
        let (set, at) = match sql {
            Some(found) => found,
            // Not kept: the next write brings all targets.
            None => (
                Arc::new(TargetSet {
                    targets: vec![target.clone()],
                    layout: Layout::new(std::slice::from_ref(target)),
                    sql: vec![TargetSql::new(target)],
                }),
                0,
            ),
        };
        let sql = &set.sql[at];
        let Some(states) = &sql.states else {
            return Err(StoreError::fatal(Statement::Lock, context, "the target has no transition guard"));
        };
        // In the order in which the write would lock them: by the key's columns sorted by name.
        let mut order: Vec<usize> = (0..target.spec.key.len()).collect();
        order.sort_unstable_by_key(|&n| target.columns[target.spec.key[n]].name.as_str());
        let mut sorted: Vec<&RowKey> = keys.iter().collect();
        sorted.sort_unstable_by(|a, b| order.iter().map(|&n| &a[n]).cmp(order.iter().map(|&n| &b[n])));
        let mut query = sqlx::query(states.clone());
        for (n, &column) in target.spec.key.iter().enumerate() {
            query = bind(query, target, column, sorted.iter().map(|key| &key[n]))?;
        }
        let rows: Vec<PgRow> = self.rows(Statement::Lock, &context, query).await?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in &rows {
            let ord: i64 = Self::get(row, 0, Statement::Lock, &context)?;
            let state: Option<String> = Self::get(row, 1, Statement::Lock, &context)?;
            if let Some(key) = usize::try_from(ord - 1).ok().and_then(|at| sorted.get(at)) {
                found.insert((*key).clone(), state.map_or(Cell::Null, Cell::Text));
            }
        }
        Ok(found)
    }
}

/// The keys with one change each where theirs were combined.
fn fewer_changes<'a>(keys: &'a [KeyChanges<'a>], combined: &'a [Option<Combined>]) -> Cow<'a, [KeyChanges<'a>]> {
    if combined.iter().all(Option::is_none) {
        return Cow::Borrowed(keys);
    }
    let one = |(key, combined): (&'a KeyChanges<'a>, &'a Option<Combined>)| match combined {
        Some(combined) => KeyChanges { changes: vec![&combined.change] },
        None => key.clone(),
    };
    keys.iter().zip(combined).map(one).collect()
}

/// Binds the cells of a group, one array per column, and the steps that the guard allows.
fn changes_query<'q>(
    statement: &SqlStr,
    target: &Target,
    sql: &TargetSql,
    group: &Group<'_>,
) -> Result<PgQuery<'q>, StoreError> {
    let mut query = sqlx::query(statement.clone());
    let columns: Vec<usize> = if group.operation == Operation::Delete {
        let guard = match target.spec.guard {
            Some(Guard::NewerBy(column) | Guard::Transition { column, .. }) => Some(column),
            None => None,
        };
        target.spec.key.iter().copied().chain(guard).collect()
    } else {
        (0..target.columns.len()).collect()
    };
    for (at, column) in columns.into_iter().enumerate() {
        query = bind(query, target, column, group.changes.iter().map(|c| &c.cells[at]))?;
    }
    Ok(match &sql.steps {
        Some((allow, initial)) => query.bind(allow.clone()).bind(initial.clone()),
        None => query,
    })
}

fn context(what: &str, target: &Target) -> String {
    format!("{what} target {}", target.spec.name)
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
