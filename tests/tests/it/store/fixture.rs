//! A store with targets in it, consumers, and lanes that apply events: the same for both dialects.

use std::{collections::BTreeSet, sync::Arc};

use tidegate::{
    config::{Database, Dialect, OlderThanRetention, Secret},
    identity::{AggregateId, ConsumerName, Fingerprint, Identity, MessageId},
    merge::{self, ColumnSpec, Guard, Merge, OnRefused, Operation, TableName, Target, TargetSpec},
    outcome::{Change, Evaluated, Rejection, Verdict},
    record::{Batch, Record, Run, TopicPartition},
    store::{
        self, Applied, Applier, ApplyError, Connection, ConsumerRow, Policy, PrepareContext, Prepared, Registration,
        Store, Tips,
    },
    value::Value,
};
use tidegate_tests::{self as harness, Sql};
use uuid::Uuid;

/// The targets, by their index.
pub(super) const PAYMENTS: usize = 0;
/// `total` is added up: it shows whatever is applied twice.
pub(super) const TALLY: usize = 1;
/// Guarded by a transition.
pub(super) const ORDERS: usize = 2;
/// Guarded by a version.
pub(super) const STOCK: usize = 3;

const TABLES: [&str; 4] = [
    "CREATE TABLE payments (payment_id TEXT NOT NULL PRIMARY KEY, amount BIGINT NOT NULL CHECK (amount >= 0), \
     reference TEXT UNIQUE)",
    "CREATE TABLE tally (account TEXT NOT NULL PRIMARY KEY, total BIGINT)",
    "CREATE TABLE orders (order_id TEXT NOT NULL PRIMARY KEY, status TEXT NOT NULL)",
    "CREATE TABLE stock (item TEXT NOT NULL PRIMARY KEY, version BIGINT, level BIGINT, deleted_at TIMESTAMPTZ)",
];

/// A store, migrated, with its targets.
pub(super) struct Fixture {
    pub(super) store: Arc<dyn Store>,
    pub(super) targets: Arc<[Target]>,
    place: Box<dyn Sql>,
}

/// A store in a file of its own.
pub(super) async fn sqlite() -> Fixture {
    Fixture::new(Box::new(harness::sqlite())).await
}

/// A store in a database of its own.
pub(super) async fn postgres() -> Fixture {
    Fixture::new(Box::new(harness::postgres().await)).await
}

pub(super) fn table(name: &str) -> TableName {
    TableName { schema: None, name: name.into() }
}

pub(super) fn spec(
    name: &str,
    columns: &[(&str, Merge)],
    guard: Option<Guard>,
    operations: &[Operation],
) -> TargetSpec {
    TargetSpec {
        name: name.into(),
        table: table(name),
        columns: columns.iter().map(|&(name, merge)| ColumnSpec { name: name.into(), merge }).collect(),
        key: vec![0],
        guard,
        operations: operations.iter().copied().collect(),
        soft_delete: None,
    }
}

fn specs() -> Vec<TargetSpec> {
    let set = |states: &[&str]| states.iter().map(|&s| s.to_owned()).collect::<BTreeSet<_>>();
    let transition = Guard::Transition {
        column: 1,
        initial: set(&["new"]),
        allow: [("new", "paid"), ("paid", "sent")].map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
        on_refused: OnRefused::DeadLetter,
    };
    let all = [Operation::Upsert, Operation::Update, Operation::Delete];
    let mut stock = spec(
        "stock",
        &[("item", Merge::Replace), ("version", Merge::Replace), ("level", Merge::Replace)],
        Some(Guard::NewerBy(1)),
        &all,
    );
    stock.soft_delete = Some("deleted_at".into());
    vec![
        spec(
            "payments",
            &[("payment_id", Merge::Replace), ("amount", Merge::Replace), ("reference", Merge::Replace)],
            None,
            &all,
        ),
        spec("tally", &[("account", Merge::Replace), ("total", Merge::Add)], None, &[Operation::Upsert]),
        spec(
            "orders",
            &[("order_id", Merge::Replace), ("status", Merge::Replace)],
            Some(transition),
            &[Operation::Upsert, Operation::Update],
        ),
        stock,
    ]
}

impl Fixture {
    async fn new(place: Box<dyn Sql>) -> Self {
        let database = Database::new(Secret::new(place.url()), place.dialect());
        // Migrated by a store of its own: a SQLite file stays locked as long as the store that wrote to it.
        store::open(&database).unwrap().migrate().await.unwrap();
        let store = store::open(&database).unwrap();
        let mut fixture = Self { store, targets: Arc::new([]), place };
        for table in TABLES {
            fixture.create(table).await;
        }
        fixture.targets = fixture.resolve(&specs()).await;
        fixture
    }

    pub(super) async fn resolve(&self, specs: &[TargetSpec]) -> Arc<[Target]> {
        let mut targets = Vec::new();
        for spec in specs {
            let info = self.store.table_info(&spec.table).await.unwrap();
            targets.push(merge::resolve(spec, &info).unwrap());
        }
        targets.into()
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.store.dialect()
    }

    pub(super) fn url(&self) -> &str {
        self.place.url()
    }

    pub(super) fn is_sqlite(&self) -> bool {
        self.dialect() == Dialect::Sqlite
    }

    /// Makes a table, its statement in PostgreSQL's words.
    pub(super) async fn create(&self, sql: &str) {
        if self.is_sqlite() {
            let sql = sql.replace("BIGINT", "INTEGER").replace("TIMESTAMPTZ", "INTEGER");
            self.execute(&format!("{sql} STRICT")).await;
        } else {
            self.execute(&sql.replace("TEXT", "TEXT COLLATE \"C\"")).await;
        }
    }

    pub(super) async fn execute(&self, sql: &str) {
        self.place.execute(sql).await;
    }

    pub(super) async fn number(&self, sql: &str) -> i64 {
        self.place.number(sql).await
    }

    /// The only column as text, NULL as `NULL`.
    pub(super) async fn texts(&self, sql: &str) -> Vec<String> {
        self.place.texts(sql).await
    }

    pub(super) async fn ledger(&self) -> i64 {
        self.number("SELECT count(*) FROM processed_messages").await
    }

    pub(super) async fn total(&self, account: &str) -> i64 {
        self.number(&format!("SELECT total FROM tally WHERE account = '{account}'")).await
    }

    /// Status and code of the dead letters, by offset.
    pub(super) async fn dead_letters(&self) -> Vec<String> {
        self.texts("SELECT status || ' ' || code FROM dead_letters ORDER BY partition, \"offset\"").await
    }

    pub(super) async fn register(&self, name: &str) -> ConsumerRow {
        let registration = Registration {
            name: ConsumerName::new(name).unwrap(),
            group: name.into(),
            key_version: 1,
            declared: 1,
            plugin_digest: [7; 32],
            started_from: serde_json::json!({ "start": "earliest" }),
        };
        self.store.register_consumer(&registration).await.unwrap()
    }

    pub(super) async fn consumer(&self, name: &str) -> Consumer {
        self.consumer_under(name, Policy::default()).await
    }

    pub(super) async fn consumer_under(&self, name: &str, policy: Policy) -> Consumer {
        let row = self.register(name).await;
        let applier = Arc::new(Applier::new(row.name, self.targets.clone(), policy));
        Consumer { store: self.store.clone(), applier }
    }

    /// What must hold after everything: chains tile, no business key twice (R3, Invariant 5).
    pub(super) async fn prove(&self) {
        for consumer in self.store.status(None).await.unwrap() {
            let faults = self.store.chain_faults(&consumer.consumer.name).await.unwrap();
            assert_eq!(faults, [], "the chain of {}", consumer.consumer.name);
            assert_eq!(consumer.totals().applied, consumer.ledger_rows, "applied = ledger rows");
        }
        for target in &*self.targets {
            let key: Vec<String> = target.spec.key.iter().map(|&i| target.columns[i].name.clone()).collect();
            let found = self.store.target_duplicates(&target.table, &key).await.unwrap();
            assert_eq!(found.keys, 0, "{}", found.query);
        }
    }
}

pub(super) fn too_old_is_only_counted() -> Policy {
    Policy { older_than_retention: OlderThanRetention::Skip, ..Policy::default() }
}

/// A consumer of the fixture.
#[derive(Clone)]
pub(super) struct Consumer {
    pub(super) store: Arc<dyn Store>,
    pub(super) applier: Arc<Applier>,
}

impl Consumer {
    /// A lane that has these partitions, each with a genesis at 0 where it has no chain yet.
    pub(super) async fn lane(&self, partitions: &[i32]) -> Lane {
        let mut conn = self.store.connect().await.unwrap();
        let mut tips = Tips::new();
        for partition in partitions.iter().map(|&number| partition(number)) {
            let name = self.applier.consumer();
            let tip = conn.tips(name, std::slice::from_ref(&partition)).await.unwrap()[0];
            let tip = match tip {
                Some(tip) => tip,
                None => conn.move_chain(name, &partition, None, 0).await.unwrap().unwrap(),
            };
            tips.insert(partition, tip);
        }
        Lane { consumer: self.clone(), conn, tips }
    }

    pub(super) fn prepare(&self, batch: Batch, evaluated: Vec<Evaluated>) -> Prepared {
        let context = PrepareContext { targets: self.applier.targets(), key_version: 1, plugin_digest: [7; 32] };
        Prepared::new(batch, evaluated, context)
    }
}

pub(super) fn partition(number: i32) -> Arc<TopicPartition> {
    Arc::new(TopicPartition {
        cluster_id: "cluster".into(),
        topic_id: Uuid::from_u128(1),
        topic: "events".into(),
        partition: number,
    })
}

/// A connection with what its chains end in.
pub(super) struct Lane {
    pub(super) consumer: Consumer,
    pub(super) conn: Box<dyn Connection>,
    pub(super) tips: Tips,
}

impl Lane {
    /// The next batch of these partitions, events given by partition.
    pub(super) fn prepare(&self, events: &[(i32, Vec<Event>)]) -> Prepared {
        let mut batch = Batch::default();
        let mut evaluated = Vec::new();
        for (number, events) in events {
            let partition = partition(*number);
            let first_offset = self.tips[&partition].next_offset;
            let start = batch.records.len();
            let mut next_offset = first_offset;
            for event in events {
                batch.records.push(Record {
                    offset: next_offset,
                    timestamp_ms: None,
                    key: None,
                    payload: Some(event.payload.clone().into()),
                    headers: Vec::new(),
                });
                evaluated.push(event.evaluated());
                next_offset += 1;
            }
            let records = start..batch.records.len();
            batch.runs.push(Run { partition, generation: 1, first_offset, next_offset, records });
        }
        self.consumer.prepare(batch, evaluated)
    }

    /// Applies, and takes the new tips.
    pub(super) async fn apply(&mut self, prepared: &mut Prepared) -> Result<Applied, ApplyError> {
        let applier = self.consumer.applier.clone();
        let applied = applier.apply(&mut *self.conn, prepared, &self.tips).await?;
        self.tips.extend(applied.tips.iter().cloned());
        Ok(applied)
    }

    /// Applies events of one partition, whole.
    pub(super) async fn feed(&mut self, number: i32, events: Vec<Event>) -> Applied {
        let mut prepared = self.prepare(&[(number, events)]);
        let applied = self.apply(&mut prepared).await.unwrap();
        assert!(applied.rest.is_none(), "the batch was cut");
        applied
    }
}

/// An input and the plugin's word on it.
#[derive(Clone, Debug)]
pub(super) struct Event {
    id: Option<String>,
    payload: Vec<u8>,
    occurred_at_us: Option<i64>,
    verdict: Verdict,
}

/// An event that applies no change yet.
pub(super) fn event(id: &str) -> Event {
    Event {
        id: Some(id.into()),
        payload: format!("payload of {id}").into_bytes(),
        occurred_at_us: None,
        verdict: Verdict::Apply(Vec::new()),
    }
}

impl Event {
    pub(super) fn change(mut self, target: usize, operation: Operation, values: Vec<Value>) -> Self {
        if let Verdict::Apply(changes) = &mut self.verdict {
            changes.push(Change { target, operation, values });
        }
        self
    }

    pub(super) fn pay(self, payment: &str, amount: i64) -> Self {
        self.change(PAYMENTS, Operation::Upsert, vec![text(payment), Value::Integer(amount), Value::Null])
    }

    pub(super) fn pay_by(self, payment: &str, amount: i64, reference: &str) -> Self {
        self.change(PAYMENTS, Operation::Upsert, vec![text(payment), Value::Integer(amount), text(reference)])
    }

    pub(super) fn tally(self, account: &str, by: i64) -> Self {
        self.change(TALLY, Operation::Upsert, vec![text(account), Value::Integer(by)])
    }

    pub(super) fn order(self, order: &str, status: &str) -> Self {
        self.change(ORDERS, Operation::Upsert, vec![text(order), text(status)])
    }

    pub(super) fn stock(self, item: &str, version: i64, level: i64) -> Self {
        let values = vec![text(item), Value::Integer(version), Value::Integer(level)];
        self.change(STOCK, Operation::Upsert, values)
    }

    pub(super) fn stock_gone(self, item: &str, version: i64) -> Self {
        self.change(STOCK, Operation::Delete, vec![text(item), Value::Integer(version)])
    }

    pub(super) fn payload(mut self, payload: &str) -> Self {
        self.payload = payload.into();
        self
    }

    pub(super) fn at(mut self, occurred_at_us: i64) -> Self {
        self.occurred_at_us = Some(occurred_at_us);
        self
    }

    pub(super) fn skip(mut self) -> Self {
        self.verdict = Verdict::Skip("not ours".into());
        self
    }

    pub(super) fn reject(mut self, code: &str) -> Self {
        self.verdict = Verdict::Reject(Rejection::new(code, "broken"));
        self
    }

    pub(super) fn nameless(mut self) -> Self {
        self.id = None;
        self
    }

    pub(super) fn evaluated(&self) -> Evaluated {
        let identity = self.id.as_ref().map(|id| Identity {
            message_id: MessageId::new(id.as_str()).unwrap(),
            aggregate_id: AggregateId::new("aggregate").unwrap(),
            occurred_at_us: self.occurred_at_us,
            fingerprint: Fingerprint::of(Some(&self.payload)),
        });
        Evaluated { identity, verdict: self.verdict.clone() }
    }
}

pub(super) fn text(text: &str) -> Value {
    Value::Text(text.into())
}
