//! Figures, schema, registration.

use bigdecimal::BigDecimal;
use tidegate::store::{Registration, SchemaState, Totals};

use super::fixture::{Fixture, event, table};

pub(super) async fn figures_add_up(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0, 1]).await;
    let first = vec![event("a"), event("a").payload("other"), event("b").skip(), event("c").reject("broken")];
    let second = vec![event("a"), event("d"), event("e").pay("p", -1)];
    let mut batch = lane.prepare(&[(0, first), (1, second)]);
    lane.apply(&mut batch).await.unwrap();
    lane.feed(0, vec![event("d"), event("c")]).await;
    let status = &f.store.status(Some(lane.consumer.applier.consumer())).await.unwrap()[0];
    let totals = Totals { applied: 3, duplicate: 3, skipped: 1, dead: 2, too_old: 0 };
    assert_eq!(status.totals(), totals);
    assert_eq!(status.totals().consumed(), 9);
    assert_eq!(status.ledger_rows, 3);
    assert_eq!(status.conflicts, 1);
    assert_eq!(status.open_dead_letters(), 1);
    assert_eq!(status.dead_letters.get("superseded"), Some(&1));
    assert_eq!((status.repeats.ids, status.repeats.attempts), (2, 3));
    assert_eq!(status.repeats.examples, [("a".to_owned(), 3), ("d".to_owned(), 2)]);
    let tips: Vec<_> = status.partitions.iter().map(|p| (p.partition.partition, p.tip.next_offset, p.links)).collect();
    assert_eq!(tips, [(0, 6, 3), (1, 3, 2)]);
    assert_eq!(f.store.status(None).await.unwrap().len(), 1);
}

pub(super) async fn the_schema_is_migrated_once(f: &Fixture) {
    let current = f.store.schema_state().await.unwrap();
    assert!(matches!(current, SchemaState::Current { .. }), "{current:?}");
    assert_eq!(f.store.migrate().await.unwrap(), current, "again: nothing to do");
    f.execute("DELETE FROM tidegate_migrations WHERE version > 1; DROP TABLE seeks; DROP TABLE key_changes").await;
    let older = f.store.schema_state().await.unwrap();
    assert!(matches!(older, SchemaState::Older { found: 1, .. }), "{older:?}");
    assert!(older.refusal().unwrap().contains("tidegate migrate"));
    assert_eq!(f.store.migrate().await.unwrap(), current, "only what is missing");
    assert_eq!(f.number("SELECT count(*) FROM seeks").await, 0);
    let newest = "SELECT max(version) FROM tidegate_migrations";
    f.execute(&format!("UPDATE tidegate_migrations SET version = 9000 WHERE version = ({newest})")).await;
    let newer = f.store.schema_state().await.unwrap();
    assert!(matches!(newer, SchemaState::Newer { found: 9000, .. }), "{newer:?}");
    assert!(newer.refusal().unwrap().contains("newer"));
    f.execute("DROP TABLE tidegate_migrations").await;
    assert_eq!(f.store.schema_state().await.unwrap(), SchemaState::Missing);
}

pub(super) async fn registering_again_changes_no_key_version(f: &Fixture) {
    let first = f.register("c").await;
    assert_eq!((first.key_version, first.horizon_us), (1, i64::MIN));
    assert_eq!(first.refusal(1), None);
    let registration = |key_version, digest| Registration {
        name: first.name.clone(),
        group: "other".into(),
        key_version,
        declared: key_version,
        plugin_digest: [digest; 32],
        started_from: serde_json::json!({}),
    };
    let other = f.store.register_consumer(&registration(2, 2)).await.unwrap();
    assert_eq!(other, first, "another key version changes nothing");
    assert!(other.refusal(2).unwrap().contains("key version 1"));
    let same = f.store.register_consumer(&registration(1, 3)).await.unwrap();
    assert_eq!((same.group.as_str(), same.plugin_digest), ("other", vec![3; 32]));
    assert_eq!(same.started_from, first.started_from, "where it began stays");
    let second = f.register("d").await;
    assert!(f.is_sqlite() || second.lock_no != same.lock_no, "a lock of its own");
}

pub(super) async fn totals_are_exact(f: &Fixture) {
    let kind = if f.is_sqlite() { "TEXT" } else { "NUMERIC" };
    f.execute(&format!("CREATE TABLE sums (id INTEGER PRIMARY KEY, amount {kind})")).await;
    f.execute("INSERT INTO sums VALUES (1, '0.1'), (2, '0.2'), (3, NULL), (4, '12345678901234567890.5')").await;
    let total = f.store.target_total(&table("sums"), Some("amount")).await.unwrap();
    assert_eq!((total.rows, total.sum), (4, Some("12345678901234567890.8".parse::<BigDecimal>().unwrap())));
    let rows = f.store.target_total(&table("sums"), None).await.unwrap();
    assert_eq!((rows.rows, rows.sum), (4, None));
    let many = "WITH RECURSIVE n (i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 2009) \
                INSERT INTO sums SELECT i, '0.01' FROM n";
    f.execute(many).await;
    let total = f.store.target_total(&table("sums"), Some("amount")).await.unwrap();
    assert_eq!((total.rows, total.sum), (2004, Some("12345678901234567910.8".parse::<BigDecimal>().unwrap())));
    assert!(f.store.target_total(&table("sums"), Some("missing")).await.is_err());
    assert!(f.store.table_info(&table("missing")).await.is_err());
    f.execute("CREATE TABLE twice (k INTEGER, v INTEGER); INSERT INTO twice VALUES (1, 1), (1, 2), (2, 1)").await;
    let duplicates = f.store.target_duplicates(&table("twice"), &["k".into()]).await.unwrap();
    assert_eq!(duplicates.keys, 1, "{}", duplicates.query);
}
