//! Applying over a connection that answers by script: which statements, in which order, and what becomes of errors that
//! real databases rarely give.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use async_trait::async_trait;
use uuid::Uuid;

use super::{
    Applied, Applier, ApplyError, Connection, ConsumerState, LedgerRow, Link, Notes, Policy, PrepareContext, Prepared,
    RowKey, Statement, StoreError, StoredLink, Tip, Tips, Written,
};
use crate::{
    class::Class,
    identity::{AggregateId, ConsumerName, Fingerprint, Identity, MessageId},
    merge::{Cell, Column, ColumnSpec, ColumnType, Merge, Operation, TableName, Target, TargetSpec, TypedChange},
    outcome::{Change, Evaluated, Outcome, Verdict},
    record::{Batch, Record, Run, TopicPartition},
    value::Value,
};

/// What a write of these records (indexes in the batch) comes to; the number counts the writes.
type Script = Box<dyn FnMut(usize, &[usize]) -> Option<StoreError> + Send>;

struct Scripted {
    write: Script,
    writes: usize,
    commit: Option<StoreError>,
    rollback: Option<StoreError>,
    /// Commits this id, with another payload, while the insert waits for it.
    rival: Option<MessageId>,
    log: Vec<&'static str>,
    letters: Vec<String>,
}

impl Scripted {
    fn new(write: impl FnMut(usize, &[usize]) -> Option<StoreError> + Send + 'static) -> Self {
        Self {
            write: Box::new(write),
            writes: 0,
            commit: None,
            rollback: None,
            rival: None,
            log: Vec::new(),
            letters: Vec::new(),
        }
    }

    fn count(&self, statement: &str) -> usize {
        self.log.iter().filter(|s| **s == statement).count()
    }
}

#[async_trait]
impl Connection for Scripted {
    async fn begin(&mut self, _: &ConsumerName) -> Result<ConsumerState, StoreError> {
        self.log.push("begin");
        Ok(ConsumerState { key_version: 1, horizon_us: i64::MIN, open_dead_letters: false })
    }

    async fn insert_ledger(&mut self, _: &ConsumerName, rows: &[LedgerRow]) -> Result<Vec<usize>, StoreError> {
        self.log.push("ledger");
        assert!(rows.is_sorted_by(|a, b| a.message_id < b.message_id), "sorted and unique");
        let is_ours = |at: &usize| Some(&rows[*at].message_id) != self.rival.as_ref();
        Ok((0..rows.len()).filter(is_ours).collect())
    }

    async fn lookup(
        &mut self,
        _: &ConsumerName,
        ids: &[MessageId],
    ) -> Result<HashMap<MessageId, Fingerprint>, StoreError> {
        self.log.push("lookup");
        let committed = self.log.contains(&"ledger");
        let found = ids.iter().filter(|id| committed && Some(*id) == self.rival.as_ref());
        Ok(found.map(|id| (id.clone(), Fingerprint([9; 16]))).collect())
    }

    async fn take_back(&mut self, _: &ConsumerName, _: &[MessageId]) -> Result<(), StoreError> {
        self.log.push("take back");
        Ok(())
    }

    async fn lock_states(&mut self, _: &Target, _: &[RowKey]) -> Result<HashMap<RowKey, Cell>, StoreError> {
        Ok(HashMap::new())
    }

    async fn write(&mut self, _: &[Target], changes: &[&TypedChange]) -> Result<Written, StoreError> {
        self.log.push("write");
        let records: Vec<usize> = changes.iter().map(|change| change.record).collect();
        self.writes += 1;
        (self.write)(self.writes, &records).map_or(Ok(Written::default()), Err)
    }

    async fn savepoint(&mut self) -> Result<(), StoreError> {
        self.log.push("savepoint");
        Ok(())
    }

    async fn release(&mut self) -> Result<(), StoreError> {
        self.log.push("release");
        Ok(())
    }

    async fn rollback_to_savepoint(&mut self) -> Result<(), StoreError> {
        self.log.push("back to savepoint");
        Ok(())
    }

    async fn write_notes(&mut self, _: &ConsumerName, notes: &Notes) -> Result<(), StoreError> {
        self.log.push("notes");
        let ids = notes.dead_letters.iter().filter_map(|letter| letter.message_id.as_ref());
        self.letters = ids.map(ToString::to_string).collect();
        Ok(())
    }

    async fn extend_chain(
        &mut self,
        _: &ConsumerName,
        _: &[u8],
        _: ConsumerState,
        links: &[Link],
    ) -> Result<usize, StoreError> {
        self.log.push("checkpoint");
        Ok(links.len())
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        self.log.push("commit");
        match &self.commit {
            Some(error) => Err(copy(error)),
            None => Ok(()),
        }
    }

    async fn rollback(&mut self) -> Result<(), StoreError> {
        self.log.push("rollback");
        self.rollback.take().map_or(Ok(()), Err)
    }

    async fn find_checkpoints(&mut self, _: &[Uuid]) -> Result<HashMap<Uuid, StoredLink>, StoreError> {
        self.log.push("find checkpoints");
        Ok(HashMap::new())
    }

    async fn tips(
        &mut self,
        _: &ConsumerName,
        partitions: &[Arc<TopicPartition>],
    ) -> Result<Vec<Option<Tip>>, StoreError> {
        Ok(vec![None; partitions.len()])
    }

    async fn topic_ids(&mut self, _: &ConsumerName, _: &str, _: &str) -> Result<Vec<Uuid>, StoreError> {
        Ok(Vec::new())
    }

    async fn move_chain(
        &mut self,
        _: &ConsumerName,
        _: &Arc<TopicPartition>,
        _: Option<Tip>,
        _: i64,
    ) -> Result<Option<Tip>, StoreError> {
        Ok(None)
    }
}

fn copy(error: &StoreError) -> StoreError {
    StoreError {
        statement: error.statement,
        context: error.context.clone(),
        message: error.message.clone(),
        sqlstate: error.sqlstate.clone(),
        class: error.class,
        connection_lost: error.connection_lost,
    }
}

fn coded(statement: Statement, class: Class, sqlstate: &str) -> StoreError {
    let sqlstate = Some(sqlstate.to_owned());
    StoreError { class, sqlstate, ..StoreError::fatal(statement, "write to rows", "no") }
}

fn poison(sqlstate: &str) -> StoreError {
    coded(Statement::Write, Class::Poison, sqlstate)
}

fn target() -> Target {
    let table = TableName { schema: None, name: "rows".into() };
    Target {
        spec: TargetSpec {
            name: "rows".into(),
            table: table.clone(),
            columns: vec![ColumnSpec { name: "id".into(), merge: Merge::Replace }],
            key: vec![0],
            guard: None,
            operations: BTreeSet::from([Operation::Upsert]),
            soft_delete: None,
        },
        table,
        columns: vec![Column {
            name: "id".into(),
            column_type: ColumnType::Int(8),
            sql_type: "bigint".into(),
            nullable: false,
            host_compares: true,
        }],
        soft: None,
        references: Vec::new(),
        foldable: true,
    }
}

struct Bench {
    applier: Applier,
    prepared: Prepared,
    tips: Tips,
}

/// A batch of records `r0`, `r1`, … with a row each.
fn bench(records: usize) -> Bench {
    let partition =
        Arc::new(TopicPartition { cluster_id: "c".into(), topic_id: Uuid::nil(), topic: "t".into(), partition: 0 });
    let mut batch = Batch::default();
    let mut evaluated = Vec::new();
    for (i, offset) in (0..records).zip(0..) {
        batch.records.push(Record { offset, timestamp_ms: None, key: None, payload: None, headers: Vec::new() });
        evaluated.push(Evaluated {
            identity: Some(Identity {
                message_id: MessageId::new(format!("r{i}")).expect("an id"),
                aggregate_id: AggregateId::new("a").expect("an id"),
                occurred_at_us: None,
                fingerprint: Fingerprint::of(None),
            }),
            verdict: Verdict::Apply(vec![Change {
                target: 0,
                operation: Operation::Upsert,
                values: vec![Value::Integer(offset)],
            }]),
        });
    }
    let next_offset = i64::try_from(records).expect("few");
    let run = Run { partition: partition.clone(), generation: 1, first_offset: 0, next_offset, records: 0..records };
    batch.runs.push(run);
    let targets: Arc<[Target]> = Arc::new([target()]);
    let context = PrepareContext { targets: &targets, key_version: 1, plugin_digest: [0; 32] };
    let prepared = Prepared::new(batch, evaluated, context);
    let tips = Tips::from([(partition, Tip { id: Uuid::nil(), seq: 0, next_offset: 0 })]);
    Bench { applier: Applier::new(ConsumerName::new("c").expect("a name"), targets, Policy::default()), prepared, tips }
}

async fn apply(bench: &mut Bench, conn: &mut Scripted) -> Result<Applied, ApplyError> {
    bench.applier.apply(conn, &mut bench.prepared, &bench.tips).await
}

#[tokio::test]
async fn a_clean_batch_takes_no_statement_too_many() {
    let mut conn = Scripted::new(|_, _| None);
    let applied = apply(&mut bench(3), &mut conn).await.expect("applied");
    assert_eq!(conn.log, ["begin", "ledger", "write", "checkpoint", "commit"]);
    assert_eq!(applied.report.counts.applied, 3);
    assert_eq!(applied.receipts.len(), 1);
}

#[tokio::test]
async fn what_a_rival_commits_during_the_insert_is_known_by_its_payload() {
    let mut conn = Scripted::new(|_, _| None);
    conn.rival = Some(MessageId::new("r1").expect("an id"));
    let applied = apply(&mut bench(3), &mut conn).await.expect("applied");
    assert_eq!(applied.report.outcomes, [Outcome::Applied, Outcome::Duplicate, Outcome::Applied]);
    // Looked up before the insert, or in one statement with it, the rival's row would not be seen.
    assert_eq!(applied.report.conflicts, 1);
}

#[tokio::test]
async fn a_record_that_passes_alone_the_second_time_is_no_poison() {
    let mut alone = 0;
    let mut conn = Scripted::new(move |_, records| match records {
        [2] => {
            alone += 1;
            (alone == 1).then(|| poison("23514"))
        }
        records => records.contains(&2).then(|| poison("23514")),
    });
    let applied = apply(&mut bench(8), &mut conn).await.expect("applied");
    assert_eq!(applied.report.counts.applied, 8);
    assert!(!conn.log.contains(&"notes"));
}

#[tokio::test]
async fn a_missing_grant_stops_and_a_row_policy_is_one_records_poison() {
    let mut conn = Scripted::new(|_, _| Some(poison("42501")));
    let error = apply(&mut bench(5), &mut conn).await.expect_err("no neighbour passes");
    assert_eq!(error.class(), Class::Fatal, "{error}");
    assert_eq!((conn.count("commit"), conn.count("notes")), (0, 0));

    let mut conn = Scripted::new(|_, records| records.contains(&3).then(|| poison("42501")));
    let applied = apply(&mut bench(5), &mut conn).await.expect("applied");
    assert_eq!(applied.report.outcomes[3], Outcome::Dead);
    assert_eq!((conn.letters, applied.report.unique_conflicts), (vec!["r3".to_owned()], 0));
}

#[tokio::test]
async fn what_a_unique_constraint_refused_is_counted_apart() {
    for code in ["23505", "SQLITE_CONSTRAINT_UNIQUE"] {
        let mut conn = Scripted::new(move |_, records| records.contains(&3).then(|| poison(code)));
        let applied = apply(&mut bench(5), &mut conn).await.expect("applied");
        assert_eq!((applied.report.counts.dead, applied.report.unique_conflicts), (1, 1));
    }
}

#[tokio::test]
async fn two_changes_of_one_row_unseen_by_the_host_go_one_by_one() {
    let cardinality = || coded(Statement::Write, Class::Fatal, "21000");
    let mut conn = Scripted::new(move |_, records| (records.len() > 1).then(cardinality));
    let applied = apply(&mut bench(4), &mut conn).await.expect("applied");
    assert_eq!(applied.report.counts.applied, 4);
    assert_eq!(conn.count("savepoint"), 4, "each record alone");

    let mut conn = Scripted::new(move |_, records| records.contains(&1).then(cardinality));
    let error = apply(&mut bench(4), &mut conn).await.expect_err("one record cannot be divided");
    assert_eq!(error.class(), Class::Fatal, "{error}");
}

#[tokio::test]
async fn the_search_for_poison_ends_at_the_seventeenth() {
    let mut conn = Scripted::new(|_, _| Some(poison("23514")));
    let error = apply(&mut bench(1_000), &mut conn).await.expect_err("tripped");
    let ApplyError::BreakerOpen { first: Some(first), .. } = &error else { unreachable!("{error}") };
    assert_eq!(first.sqlstate.as_deref(), Some("23514"));
    assert!(error.to_string().contains(&format!("(the first: {}: {})", first.code, first.message)), "{error}");
    assert!(conn.count("write") < 100, "{} writes", conn.count("write"));
    assert_eq!((conn.count("commit"), conn.count("notes")), (0, 0));
}

#[tokio::test]
async fn a_commit_that_raises_is_tried_with_care_and_then_stops() {
    let mut conn = Scripted::new(|_, _| None);
    conn.commit = Some(coded(Statement::Commit, Class::Poison, "23503"));
    let mut bench = bench(4);
    let error = apply(&mut bench, &mut conn).await.expect_err("nobody to blame");
    assert_eq!(error.class(), Class::Fatal, "{error}");
    assert!(!error.connection_lost());
    assert_eq!((conn.count("commit"), conn.count("rollback")), (2, 2));
    conn.commit = None;
    let applied = apply(&mut bench, &mut conn).await.expect("applied");
    assert!(!conn.log.contains(&"find checkpoints"), "its outcome was known");
    assert!(!applied.recovered);
}

#[tokio::test]
async fn infrastructure_is_never_a_records_fault() {
    let mut conn = Scripted::new(|_, _| Some(coded(Statement::Write, Class::Transient, "40P01")));
    let error = apply(&mut bench(4), &mut conn).await.expect_err("later");
    assert_eq!(error.class(), Class::Transient);
    assert_eq!((conn.count("write"), conn.count("rollback")), (1, 1), "no search");

    // A transient error in the middle of the search ends it, too.
    let mut conn = Scripted::new(|number, _| match number {
        1 | 2 => Some(poison("23514")),
        _ => Some(coded(Statement::Write, Class::Transient, "40P01")),
    });
    let error = apply(&mut bench(4), &mut conn).await.expect_err("later");
    assert_eq!(error.class(), Class::Transient);
}

#[tokio::test]
async fn a_connection_that_cannot_roll_back_is_lost() {
    let mut conn = Scripted::new(|_, _| Some(poison("23514")));
    conn.rollback = Some(StoreError::transient(Statement::Rollback, "roll back", "closed"));
    let error = apply(&mut bench(4), &mut conn).await.expect_err("later");
    assert!(error.connection_lost());
    assert_eq!(error.class(), Class::Transient, "careful mode has not spoken yet");
}
