//! Any batches, any repeats, any split, any break at any call: the rows, the ledger and the open dead letters are those
//! of a naive reading, one record after the other.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, TestRunner},
};
use tidegate::{
    merge::{
        Cell, TableName, Target,
        model::{Effect, Model, ModelRow},
        type_change,
    },
    outcome::Verdict,
};

use tidegate_tests::faulty::Break;

use super::{
    fixture::{Event, Fixture, event, postgres, sqlite},
    lost_commit::apply_through,
};

/// What an input asks for, small enough to meet its likes often.
#[derive(Clone, Debug)]
enum Ask {
    Pay(u8, i64),
    Tally(u8, i64),
    Order(u8, u8),
    Stock(u8, i64, i64),
    StockGone(u8, i64),
}

#[derive(Clone, Debug)]
enum Word {
    Apply(Vec<Ask>),
    Skip,
    Reject,
    Nameless,
}

/// An input: its id, its payload, the plugin's word.
type Input = (u8, u8, Word);

/// A batch: inputs by partition, and how its first attempt breaks.
type Delivery = (Vec<(i32, Vec<Input>)>, Option<Break>);

fn ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        // One in twelve is poison.
        3 => (0..4u8, -1..11i64).prop_map(|(p, amount)| Ask::Pay(p, amount)),
        3 => (0..2u8, 1..4i64).prop_map(|(a, by)| Ask::Tally(a, by)),
        3 => (0..3u8, 0..3u8).prop_map(|(o, state)| Ask::Order(o, state)),
        2 => (0..3u8, 0..6i64, 0..9i64).prop_map(|(i, version, level)| Ask::Stock(i, version, level)),
        1 => (0..3u8, 0..6i64).prop_map(|(i, version)| Ask::StockGone(i, version)),
    ]
}

fn word() -> impl Strategy<Value = Word> {
    prop_oneof![
        8 => vec(ask(), 0..4).prop_map(Word::Apply),
        1 => Just(Word::Skip),
        1 => Just(Word::Reject),
        1 => Just(Word::Nameless),
    ]
}

fn delivery() -> impl Strategy<Value = Delivery> {
    let runs = proptest::sample::subsequence(vec![0, 1, 2], 1..=3).prop_flat_map(|numbers| {
        numbers.into_iter().map(|n| (Just(n), vec((0..14u8, 0..2u8, word()), 0..6))).collect::<Vec<_>>()
    });
    let breaks = prop_oneof![
        2 => Just(None),
        2 => (0..16usize).prop_map(|n| Some(Break::Before(n))),
        2 => (0..16usize).prop_map(|n| Some(Break::After(n))),
        1 => Just(Some(Break::CommitUnsent)),
        1 => Just(Some(Break::CommitUnanswered)),
    ];
    (runs, breaks)
}

fn to_event((id, payload, word): &Input) -> Event {
    let named = event(&format!("id{id}")).payload(&format!("payload {payload}"));
    match word {
        Word::Skip => named.skip(),
        Word::Reject => named.reject("broken"),
        Word::Nameless => named.nameless().reject("no-id"),
        Word::Apply(asks) => asks.iter().fold(named, |event, ask| match ask {
            Ask::Pay(p, amount) => event.pay(&format!("p{p}"), *amount),
            Ask::Tally(a, by) => event.tally(&format!("a{a}"), *by),
            Ask::Order(o, state) => event.order(&format!("o{o}"), ["new", "paid", "sent"][usize::from(*state)]),
            Ask::Stock(i, version, level) => event.stock(&format!("i{i}"), *version, *level),
            Ask::StockGone(i, version) => event.stock_gone(&format!("i{i}"), *version),
        }),
    }
}

/// Reads one record after the other and knows of no batch.
#[derive(Default)]
struct Naive {
    tables: Model,
    ledger: BTreeSet<String>,
    /// Position and id of what could not be applied.
    dead: Vec<(i32, i64, Option<String>)>,
}

impl Naive {
    fn take(&mut self, targets: &[Target], partition: i32, offset: i64, input: &Input) {
        let id = format!("id{}", input.0);
        let evaluated = to_event(input).evaluated();
        match evaluated.verdict {
            _ if evaluated.identity.is_none() => self.dead.push((partition, offset, None)),
            _ if self.ledger.contains(&id) => {}
            Verdict::Skip(_) => {}
            Verdict::Reject(_) => self.dead.push((partition, offset, Some(id))),
            Verdict::Apply(changes) => {
                let mut after = self.tables.clone();
                let mut refused = false;
                for change in &changes {
                    let target = &targets[change.target];
                    let typed = type_change(target, change.target, 0, change.clone()).unwrap();
                    refused |= after.apply(target, &typed) == Effect::Refused;
                    // The CHECK of payments.
                    refused |=
                        target.spec.name == "payments" && matches!(typed.cells[1], Cell::Int(amount) if amount < 0);
                }
                if refused {
                    self.dead.push((partition, offset, Some(id)));
                } else {
                    self.tables = after;
                    self.ledger.insert(id);
                }
            }
        }
    }

    /// Dead letters whose id was never applied.
    fn open(&self) -> Vec<String> {
        let open = |(_, _, id): &&(i32, i64, Option<String>)| id.as_ref().is_none_or(|id| !self.ledger.contains(id));
        let mut open: Vec<String> = self.dead.iter().filter(open).map(|(p, o, _)| format!("{p}:{o}")).collect();
        open.sort_unstable();
        open
    }

    fn rows(&self, target: &Target) -> Vec<String> {
        let table: &TableName = &target.table;
        let rows = self.tables.tables.get(table).cloned().unwrap_or_default();
        let mut shown: Vec<String> = rows.values().map(|row| show(target, row)).collect();
        shown.sort_unstable();
        shown
    }
}

fn show(target: &Target, row: &ModelRow) -> String {
    let cell = |name: &str| match row.get(name) {
        None | Some(Cell::Null) => "-".to_owned(),
        Some(Cell::Text(text)) => text.clone(),
        Some(Cell::Int(number)) => number.to_string(),
        Some(other) => format!("{other:?}"),
    };
    let mut parts: Vec<String> = target.columns.iter().map(|column| cell(&column.name)).collect();
    if let Some(soft) = &target.soft {
        parts.push(if row.get(&soft.column) == Some(&Cell::Bool(true)) { "gone" } else { "there" }.into());
    }
    parts.join(" ")
}

/// The same form, by the database.
async fn stored(f: &Fixture, target: &Target) -> Vec<String> {
    let mut parts: Vec<String> =
        target.columns.iter().map(|column| format!("coalesce(CAST({} AS TEXT), '-')", column.name)).collect();
    if let Some(soft) = &target.soft {
        parts.push(format!("CASE WHEN {} IS NULL THEN 'there' ELSE 'gone' END", soft.column));
    }
    let mut rows = f.texts(&format!("SELECT {} FROM {}", parts.join(" || ' ' || "), target.table)).await;
    rows.sort_unstable();
    rows
}

async fn wipe(f: &Fixture) {
    let tables = [
        "processed_messages",
        "checkpoints",
        "dead_letters",
        "duplicate_attempts",
        "payload_conflicts",
        "consumers",
        "payments",
        "tally",
        "orders",
        "stock",
    ];
    f.execute(&tables.map(|table| format!("DELETE FROM {table}")).join("; ")).await;
}

async fn check(f: &Fixture, deliveries: &[Delivery]) {
    wipe(f).await;
    let mut lane = f.consumer("c").await.lane(&[0, 1, 2]).await;
    let mut naive = Naive::default();
    let mut offsets: BTreeMap<i32, i64> = BTreeMap::new();
    let mut consumed = 0;
    for (runs, breaks) in deliveries {
        let runs: Vec<&(i32, Vec<Input>)> = runs.iter().filter(|(_, inputs)| !inputs.is_empty()).collect();
        if runs.is_empty() {
            continue;
        }
        for (number, inputs) in &runs {
            for input in inputs {
                let offset = offsets.entry(*number).or_default();
                naive.take(&f.targets, *number, *offset, input);
                *offset += 1;
                consumed += 1;
            }
        }
        let events: Vec<_> = runs.iter().map(|(n, inputs)| (*n, inputs.iter().map(to_event).collect())).collect();
        let mut prepared = lane.prepare(&events);
        let (_, applied) = apply_through(&mut lane, &mut prepared, breaks.unwrap_or(Break::Before(usize::MAX))).await;
        let mut rest = applied.rest;
        while let Some(mut prepared) = rest {
            rest = lane.apply(&mut prepared).await.unwrap().rest;
        }
    }
    drop(lane);
    for target in &*f.targets {
        assert_eq!(stored(f, target).await, naive.rows(target), "rows of {}", target.spec.name);
    }
    let ledger = f.texts("SELECT message_id FROM processed_messages ORDER BY 1").await;
    assert_eq!(ledger.into_iter().collect::<BTreeSet<_>>(), naive.ledger, "the ledger");
    let open = "SELECT partition || ':' || \"offset\" FROM dead_letters WHERE status = 'open'";
    let mut open = f.texts(open).await;
    open.sort_unstable();
    assert_eq!(open, naive.open(), "open dead letters");
    assert_eq!(f.number("SELECT sum(consumed) FROM checkpoints").await, consumed, "every record once");
    f.prove().await;
}

fn run(cases: u32, fixture: impl Future<Output = Fixture>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let fixture = runtime.block_on(fixture);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 300, ..Config::default() };
    let outcome = TestRunner::new(config).run(&vec(delivery(), 1..8), |deliveries| {
        runtime.block_on(check(&fixture, &deliveries));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn any_deliveries_end_as_read_one_by_one_on_sqlite() {
    run(150, sqlite());
}

#[test]
fn any_deliveries_end_as_read_one_by_one_on_postgres() {
    run(40, postgres());
}
