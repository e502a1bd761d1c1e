//! Names and values that would be SQL if anybody took them for it. Names come from the catalog and are quoted, values are
//! bound; nothing here may reach a parser.

use std::collections::BTreeSet;

use tidegate::{
    identity::{AggregateId, ConsumerName, Fingerprint, Identity, MessageId},
    merge::{ColumnSpec, Guard, Merge, OnRefused, Operation, TableName, TargetSpec},
    outcome::{Evaluated, Outcome, Rejection, Verdict},
    record::Header,
    store::{Applier, Policy, PrepareContext, Prepared},
    value::Value,
};

use super::fixture::{Consumer, Fixture, event, table, text};

/// Each would end a literal, a name or a statement, be a parameter, a format or a comment, or look like another.
const HOSTILE: [&str; 18] = [
    "'); DROP TABLE victims; --",
    "\"; DROP TABLE victims; --",
    "\\'; DROP TABLE victims; --",
    "victims; DELETE FROM victims",
    "$1",
    "?1",
    ":id",
    "%s%n%1$s",
    "{0}",
    "/*",
    "--",
    "$$; DROP TABLE victims; $$",
    "' || (SELECT pg_sleep(10)) || '",
    "E'\\x27'",
    "v\u{456}ctims",
    "\u{202e}smitciv",
    "NULL",
    "a\r\n\u{1}\u{feff}\u{1f980}",
];

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A table of this name whose columns are named as badly, with every kind of merge and guard over them.
fn target(name: &str, greatest_merge: Merge) -> (String, TargetSpec) {
    let [key, version, kept, added, greatest, mark] =
        ["k", "v", "k\u{435}pt", "a", "g", "d"].map(|c| format!("{c} {name}"));
    let sql = format!(
        "CREATE TABLE {} ({} TEXT NOT NULL PRIMARY KEY, {} BIGINT, {} TEXT, {} BIGINT, {} TEXT, {} TIMESTAMPTZ)",
        quoted(name),
        quoted(&key),
        quoted(&version),
        quoted(&kept),
        quoted(&added),
        quoted(&greatest),
        quoted(&mark),
    );
    let column = |name: String, merge| ColumnSpec { name, merge };
    let spec = TargetSpec {
        name: name.into(),
        table: table(name),
        columns: vec![
            column(key, Merge::Replace),
            column(version, Merge::Replace),
            column(kept, Merge::Keep),
            column(added, Merge::Add),
            column(greatest, greatest_merge),
        ],
        key: vec![0],
        guard: Some(Guard::NewerBy(1)),
        operations: BTreeSet::from([Operation::Upsert, Operation::Update, Operation::Delete]),
        soft_delete: Some(mark),
    };
    (sql, spec)
}

/// What all this must leave alone.
async fn alive(f: &Fixture) {
    assert_eq!(f.texts("SELECT id FROM victims ORDER BY id").await, ["alive"]);
    assert_eq!(f.number("SELECT count(*) FROM consumers").await, 1);
}

pub(super) async fn no_name_and_no_value_is_ever_sql(f: &Fixture) {
    f.create("CREATE TABLE victims (id TEXT NOT NULL PRIMARY KEY)").await;
    f.execute("INSERT INTO victims VALUES ('alive')").await;
    let mut specs = Vec::new();
    // SQLite's texts are not compared.
    let greatest = if f.is_sqlite() { Merge::Keep } else { Merge::Greatest };
    for name in HOSTILE {
        let (sql, spec) = target(name, greatest);
        f.create(&sql).await;
        specs.push(spec);
    }
    // One more, whose states are as bad: they are compared by the database.
    let set = |states: &[&str]| states.iter().map(|&s| s.to_owned()).collect::<BTreeSet<_>>();
    f.create("CREATE TABLE steps (id TEXT NOT NULL PRIMARY KEY, \"st'\"\"ate; --\" TEXT)").await;
    specs.push(TargetSpec {
        guard: Some(Guard::Transition {
            column: 1,
            initial: set(&HOSTILE[..1]),
            allow: [(HOSTILE[0].to_owned(), HOSTILE[1].to_owned())].into(),
            on_refused: OnRefused::DeadLetter,
        }),
        columns: ["id", "st'\"ate; --"].map(|name| ColumnSpec { name: name.into(), merge: Merge::Replace }).to_vec(),
        operations: BTreeSet::from([Operation::Upsert]),
        soft_delete: None,
        ..target("steps", greatest).1
    });
    let targets = f.resolve(&specs).await;
    let name = f.register(HOSTILE[0]).await.name;
    let applier = Applier::new(name.clone(), targets.clone(), Policy::default());
    let consumer = Consumer { store: f.store.clone(), applier: applier.into() };
    let mut lane = consumer.lane(&[0]).await;

    let upsert = |id: String, target: usize, key: &str, version: i64| {
        let values = vec![text(key), Value::Integer(version), text(key), Value::Integer(1), text(key)];
        event(&id).change(target, Operation::Upsert, values)
    };
    let mut events = Vec::new();
    for target in 0..HOSTILE.len() {
        for value in HOSTILE {
            // As an id too, and twice, so that the merge has a row to meet.
            events.push(upsert(format!("{target} {value}"), target, value, 1));
            events.push(upsert(format!("{target} {value} again"), target, value, 2));
        }
    }
    let all = events.len();
    let applied = lane.feed(0, events).await;
    assert_eq!(usize::try_from(applied.report.counts.applied).unwrap(), all);
    let mut expected = HOSTILE.map(str::to_owned);
    expected.sort_unstable();
    for name in HOSTILE {
        let columns = target(name, greatest).1.columns;
        let sql =
            format!("SELECT {} FROM {} WHERE {} = 2", quoted(&columns[0].name), quoted(name), quoted(&columns[3].name));
        let mut found = f.texts(&sql).await;
        found.sort_unstable();
        assert_eq!(found, expected, "in {name}");
        let key = [columns[0].name.clone()];
        assert_eq!(f.store.target_duplicates(&table(name), &key).await.unwrap().keys, 0);
        assert_eq!(f.store.target_total(&table(name), Some(&columns[3].name)).await.unwrap().rows, 18);
    }

    // Updates, deletes and steps, on one of the tables.
    let update = vec![text(HOSTILE[0]), Value::Integer(3), text("x"), Value::Integer(1), text("~")];
    let events = vec![
        event("update").change(3, Operation::Update, update),
        event("delete").change(3, Operation::Delete, vec![text(HOSTILE[1]), Value::Integer(3)]),
        event("first").change(18, Operation::Upsert, vec![text("s"), text(HOSTILE[0])]),
        event("step").change(18, Operation::Upsert, vec![text("s"), text(HOSTILE[1])]),
        event("refused").change(18, Operation::Upsert, vec![text("s"), text(HOSTILE[2])]),
    ];
    use Outcome::{Applied, Dead};
    assert_eq!(lane.feed(0, events).await.report.outcomes, [Applied, Applied, Applied, Applied, Dead]);
    assert_eq!(f.texts("SELECT \"st'\"\"ate; --\" FROM steps").await, [HOSTILE[1]]);

    messages_are_never_sql(&mut lane, &consumer).await;
    let ids = f.number("SELECT count(DISTINCT message_id) FROM processed_messages").await;
    assert_eq!(usize::try_from(ids).unwrap(), all + 4 + HOSTILE.len());
    assert_eq!(f.texts("SELECT consumer_name FROM consumers").await, [HOSTILE[0]]);
    let status = f.store.status(Some(&name)).await.unwrap();
    assert_eq!((status.len(), status[0].ledger_rows), (1, u64::try_from(ids).unwrap()));
    alive(f).await;
    names_that_are_not_there_are_only_looked_up(f).await;
    alive(f).await;
}

/// Ids, headers, keys, payloads, and what a plugin says of them, in each table that keeps them.
async fn messages_are_never_sql(lane: &mut super::fixture::Lane, consumer: &Consumer) {
    let evaluated = |id: &str, verdict| Evaluated {
        identity: Some(Identity {
            message_id: MessageId::new(id).unwrap(),
            aggregate_id: AggregateId::new(id).unwrap(),
            occurred_at_us: None,
            fingerprint: Fingerprint::of(Some(id.as_bytes())),
        }),
        verdict,
    };
    for round in 0..3 {
        let sample = lane.prepare(&[(0, HOSTILE.iter().map(|_| event("any")).collect())]);
        let mut batch = sample.batch().clone();
        let mut verdicts = Vec::new();
        for (record, hostile) in batch.records.iter_mut().zip(HOSTILE) {
            record.key = Some(hostile.as_bytes().to_vec().into());
            record.payload = Some(format!("{hostile}{round}").into_bytes().into());
            record.headers =
                vec![Header { name: hostile.into(), value: Some([hostile.as_bytes(), &[0, 255]].concat().into()) }];
            verdicts.push(match round {
                0 => evaluated(hostile, Verdict::Apply(Vec::new())),
                // A duplicate with another payload: an attempt and a conflict.
                1 => Evaluated {
                    identity: evaluated(hostile, Verdict::Skip(String::new()))
                        .identity
                        .map(|identity| Identity { fingerprint: Fingerprint::of(Some(b"other")), ..identity }),
                    verdict: Verdict::Skip(hostile.into()),
                },
                _ => evaluated(&format!("{hostile} new"), Verdict::Reject(Rejection::new(hostile, hostile))),
            });
        }
        let context = PrepareContext { targets: consumer.applier.targets(), key_version: 1, plugin_digest: [7; 32] };
        let mut prepared = Prepared::new(batch, verdicts, context);
        let applied = lane.apply(&mut prepared).await.unwrap();
        let expected = [Outcome::Applied, Outcome::Duplicate, Outcome::Dead][round];
        assert_eq!(applied.report.outcomes, [expected; HOSTILE.len()]);
    }
}

/// What a configuration may name.
async fn names_that_are_not_there_are_only_looked_up(f: &Fixture) {
    for name in
        ["victims; DROP TABLE victims", "victims\"", "victims\" --", "v\u{456}ctims ", "VICTIMS\u{0}", "main.victims"]
    {
        for schema in [None, Some("public\"; DROP TABLE victims; --")] {
            let name = TableName { schema: schema.map(Into::into), name: name.into() };
            assert!(f.store.table_info(&name).await.is_err(), "{name}");
        }
    }
    let strange = ConsumerName::new("c' OR '1'='1").unwrap();
    assert_eq!(f.store.status(Some(&strange)).await.unwrap().len(), 0);
    let info = f.store.table_info(&table("victims")).await.unwrap();
    for column in ["id\"; DROP TABLE victims; --", "\u{456}d", "ID", "id\0", "ctid", "rowid", "1", "*"] {
        let spec = TargetSpec {
            columns: vec![ColumnSpec { name: column.into(), merge: Merge::Replace }],
            guard: None,
            operations: BTreeSet::from([Operation::Upsert]),
            soft_delete: None,
            ..target("victims", Merge::Replace).1
        };
        let faults = tidegate::merge::resolve(&spec, &info).unwrap_err();
        assert!(faults.iter().any(|fault| fault.to_string().contains("has no column")), "{column}: {faults:?}");
    }
}

/// A plugin that could write the ledger could forge it, however its table's name is spelled.
pub(super) async fn the_host_s_own_tables_are_no_targets(f: &Fixture) {
    let spellings: &[&str] =
        if f.is_sqlite() { &["processed_messages", "Processed_Messages"] } else { &["processed_messages"] };
    for name in spellings {
        let info = f.store.table_info(&table(name)).await.unwrap();
        let spec = TargetSpec {
            columns: ["consumer_name", "message_id"]
                .map(|c| ColumnSpec { name: c.into(), merge: Merge::Replace })
                .to_vec(),
            key: vec![0, 1],
            guard: None,
            operations: BTreeSet::from([Operation::Delete]),
            soft_delete: None,
            ..target(name, Merge::Replace).1
        };
        let faults = tidegate::merge::resolve(&spec, &info).unwrap_err();
        assert!(
            faults.iter().any(|fault| fault.to_string().contains("written by the host alone")),
            "{name}: {faults:?}"
        );
    }
}
