//! What only PostgreSQL has: its catalog, its session settings, its deferred constraints, its words on a failed commit.

mod chain;
mod columns;
mod race;
mod rows;
mod session;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tidegate::{
    class::Class,
    config::{Database as DatabaseConfig, Dialect, Secret},
    identity::{AggregateId, ConsumerName, Fingerprint, MessageId},
    merge::{
        Cell, ColumnSpec, ColumnType, FaultKind, Guard, Merge, Operation, SoftKind, TableName, Target, TargetSpec,
        TypedChange, resolve, type_change,
    },
    outcome::{Change, Counts},
    record::TopicPartition,
    store::{
        Connection, ConsumerState, LedgerRow, Link, Registration, SchemaState, Statement, Store, Tip,
        postgres::{PostgresStore, Timeouts},
    },
    value::Value,
};
use tidegate_tests::{Database, postgres};
use uuid::Uuid;

struct Fixture {
    database: Database,
    store: PostgresStore,
    consumer: ConsumerName,
}

impl Fixture {
    async fn new(tables: &str) -> Self {
        Self::with(tables, Timeouts { lock: Duration::from_millis(300), ..Timeouts::default() }).await
    }

    async fn with(tables: &str, timeouts: Timeouts) -> Self {
        let database = postgres().await;
        let url = DatabaseConfig::new(Secret::new(database.url()), Dialect::Postgres);
        let store = PostgresStore::open(&url, timeouts).unwrap();
        assert_eq!(store.schema_state().await.unwrap(), SchemaState::Missing);
        assert!(matches!(store.migrate().await.unwrap(), SchemaState::Current { .. }));
        let consumer = ConsumerName::new("c").unwrap();
        let registration = Registration {
            name: consumer.clone(),
            group: "g".into(),
            key_version: 1,
            declared: 1,
            plugin_digest: [7; 32],
            started_from: serde_json::json!({"start": "earliest"}),
        };
        store.register_consumer(&registration).await.unwrap();
        if !tables.is_empty() {
            database.execute(tables).await;
        }
        Self { database, store, consumer }
    }

    async fn lane(&self) -> Box<dyn Connection> {
        self.store.connect().await.unwrap()
    }

    async fn target(&self, spec: &TargetSpec) -> Result<Target, Vec<FaultKind>> {
        let info = self.store.table_info(&spec.table).await.unwrap();
        resolve(spec, &info).map_err(|faults| faults.into_iter().map(|f| f.kind).collect())
    }

    async fn strings(&self, sql: &'static str) -> Vec<String> {
        sqlx::query_scalar(sql).fetch_all(self.database.pool()).await.unwrap()
    }

    async fn genesis(&self, lane: &mut Box<dyn Connection>) -> (Arc<TopicPartition>, Tip) {
        let partition = Arc::new(TopicPartition {
            cluster_id: "cluster".into(),
            topic_id: Uuid::from_u128(1),
            topic: "orders".into(),
            partition: 3,
        });
        let tip = lane.move_chain(&self.consumer, &partition, None, 10).await.unwrap().unwrap();
        (partition, tip)
    }
}

fn spec(table: &str, columns: &[&str], key: &[usize]) -> TargetSpec {
    TargetSpec {
        name: table.into(),
        table: TableName { schema: None, name: table.into() },
        columns: columns.iter().map(|&c| ColumnSpec { name: c.into(), merge: Merge::Replace }).collect(),
        key: key.to_vec(),
        guard: None,
        operations: BTreeSet::from([Operation::Upsert]),
        soft_delete: None,
    }
}

fn upsert(target: &Target, values: Vec<Value>) -> TypedChange {
    type_change(target, 0, 0, Change { target: 0, operation: Operation::Upsert, values }).unwrap()
}

fn text(t: &str) -> Value {
    Value::Text(t.into())
}

fn link(partition: &Arc<TopicPartition>, tip: Tip, next: i64) -> Link {
    let counts = Counts { skipped: 1, ..Counts::default() };
    Link {
        id: Uuid::now_v7(),
        prev: tip.id,
        partition: Arc::clone(partition),
        first_offset: tip.next_offset,
        next_offset: next,
        counts,
    }
}
