//! What the database refuses: one dead letter per culprit, none for its neighbours.

use tidegate::{
    class::Class,
    merge::{Merge, Operation, TableKind},
    outcome::Outcome::{Applied, Dead, Duplicate},
    store::{ApplyError, REFUSED_BY_DATABASE},
    value::Value,
};

use super::fixture::{Consumer, Fixture, event, spec, table, text};

pub(super) async fn one_poison_row_amid_a_thousand(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    let events = (0..1_000)
        .map(|i| {
            let amount = if i == 617 { -1 } else { i };
            event(&format!("e{i}")).pay(&format!("p{i}"), amount).tally("x", 1)
        })
        .collect();
    let applied = lane.feed(0, events).await;
    assert!(applied.report.careful);
    assert_eq!((applied.report.counts.applied, applied.report.counts.dead), (999, 1));
    assert_eq!(applied.report.outcomes[617], Dead);
    assert_eq!(applied.receipts.len(), 1);
    let letter =
        "SELECT message_id || ' ' || topic || ' ' || partition || ' ' || \"offset\" || ' ' || code FROM dead_letters";
    assert_eq!(f.texts(letter).await, [format!("e617 events 0 617 {REFUSED_BY_DATABASE}")]);
    let state = f.texts("SELECT sqlstate FROM dead_letters").await;
    assert_eq!(state, [if f.is_sqlite() { "SQLITE_CONSTRAINT_CHECK" } else { "23514" }]);
    assert_eq!(f.number("SELECT count(*) FROM payments").await, 999);
    assert_eq!(f.total("x").await, 999, "the poison record's other change is taken back");
    assert_eq!(f.ledger().await, 999);
    assert_eq!(f.number("SELECT count(*) FROM checkpoints WHERE consumed = 1000").await, 1, "one transaction");
}

pub(super) async fn of_two_rows_that_fail_together_the_second_is_poison(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    // `reference` is unique: each row alone passes.
    let mut events: Vec<_> = (0..50).map(|i| event(&format!("e{i}")).pay(&format!("p{i}"), 1)).collect();
    events[12] = event("first").pay_by("z", 1, "same");
    events[37] = event("second").pay_by("a", 1, "same");
    let applied = lane.feed(0, events).await;
    assert_eq!(applied.report.counts.dead, 1);
    assert_eq!(applied.report.outcomes[12], Applied);
    assert_eq!(applied.report.outcomes[37], Dead);
    assert_eq!(f.texts("SELECT payment_id FROM payments WHERE reference = 'same'").await, ["z"]);
}

/// Many changes of one row are no excuse: a constraint sees each of them, or it would depend on the company that a record came
/// in whether it is refused.
pub(super) async fn a_row_in_between_that_is_refused_is_its_record_s_fault(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    let amounts = [1, 2, -1, 3, 4, 5, 6, 7];
    let events =
        amounts.iter().enumerate().map(|(at, &amount)| event(&format!("e{at}")).pay("p", amount).tally("x", 1));
    let applied = lane.feed(0, events.collect()).await;
    assert_eq!((applied.report.counts.applied, applied.report.counts.dead), (7, 1));
    assert_eq!(applied.report.outcomes[2], Dead);
    assert_eq!(f.number("SELECT amount FROM payments").await, 7);
    assert_eq!(f.total("x").await, 7);
}

pub(super) async fn a_new_constraint_trips_the_breaker(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    lane.feed(0, vec![event("before").pay("p", 1)]).await;
    let (add, remove) = if f.is_sqlite() {
        (
            "CREATE TRIGGER strict BEFORE INSERT ON payments WHEN NEW.amount < 1000 BEGIN SELECT RAISE(ABORT, 'no'); END",
            "DROP TRIGGER strict",
        )
    } else {
        (
            "ALTER TABLE payments ADD CONSTRAINT strict CHECK (amount >= 1000) NOT VALID",
            "ALTER TABLE payments DROP CONSTRAINT strict",
        )
    };
    f.execute(add).await;
    let events = (0..200).map(|i| event(&format!("e{i}")).pay(&format!("p{i}"), i).tally("x", 1)).collect();
    let mut batch = lane.prepare(&[(0, events)]);
    let error = lane.apply(&mut batch).await.unwrap_err();
    assert!(matches!(error, ApplyError::BreakerOpen { .. }), "{error}");
    let reason = if f.is_sqlite() { "no" } else { "\"strict\"" };
    assert!(
        error.to_string().contains("the first: refused-by-database: ") && error.to_string().contains(reason),
        "{error}"
    );
    assert_eq!(error.class(), Class::Fatal);
    assert_eq!(f.number("SELECT count(*) FROM dead_letters").await, 0, "nothing is dead-lettered");
    assert_eq!((f.ledger().await, f.total("x").await), (1, 0), "nothing is committed");
    f.execute(remove).await;
    let applied = lane.apply(&mut batch).await.unwrap();
    assert_eq!(applied.report.counts.applied, 200, "put right, the same batch passes");
}

pub(super) async fn a_corrected_republish_supersedes_its_dead_letter(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    let events = vec![event("a").pay("p", -1), event("b").reject("broken"), event("c").reject("broken")];
    assert_eq!(lane.feed(0, events).await.report.outcomes, [Dead, Dead, Dead]);
    assert_eq!(f.ledger().await, 0);
    let applied = lane.feed(0, vec![event("a").pay("p", 1), event("b"), event("d")]).await;
    assert_eq!(applied.report.outcomes, [Applied, Applied, Applied]);
    assert_eq!(
        f.dead_letters().await,
        [format!("superseded {REFUSED_BY_DATABASE}"), "superseded broken".into(), "open broken".into()]
    );
    let resolved = "SELECT count(*) FROM dead_letters d JOIN checkpoints k ON k.checkpoint_id = d.resolved_by";
    assert_eq!(f.number(resolved).await, 2, "each says which checkpoint did it");
}

pub(super) async fn the_correction_in_the_same_batch_is_applied(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0, 1]).await;
    let first = vec![event("a").skip(), event("x").tally("x", 1), event("a").pay("p", -1), event("b").tally("x", 1)];
    let second =
        vec![event("c").tally("x", 1), event("a").pay("p", 7).tally("x", 1), event("b"), event("d").tally("x", 1)];
    let mut batch = lane.prepare(&[(0, first), (1, second)]);
    let applied = lane.apply(&mut batch).await.unwrap();
    use tidegate::outcome::Outcome::Skipped;
    assert_eq!(applied.report.outcomes, [Skipped, Applied, Dead, Applied, Applied], "cut before the correction");
    let mut rest = applied.rest.expect("the tail of the batch");
    assert_eq!(f.texts("SELECT payment_id FROM payments").await, [""; 0]);
    let applied = lane.apply(&mut rest).await.unwrap();
    assert_eq!(applied.report.outcomes, [Applied, Duplicate, Applied]);
    assert!(applied.rest.is_none());
    assert_eq!(f.number("SELECT amount FROM payments WHERE payment_id = 'p'").await, 7);
    assert_eq!(f.total("x").await, 5);
    assert_eq!(f.dead_letters().await, [format!("superseded {REFUSED_BY_DATABASE}")]);
}

pub(super) async fn a_deferred_constraint_blames_its_record(f: &Fixture) {
    f.create("CREATE TABLE parents (parent_id TEXT NOT NULL PRIMARY KEY)").await;
    f.create(
        "CREATE TABLE children (child_id TEXT NOT NULL PRIMARY KEY, parent_id TEXT REFERENCES parents (parent_id) \
         DEFERRABLE INITIALLY DEFERRED)",
    )
    .await;
    let columns = [("child_id", Merge::Replace), ("parent_id", Merge::Replace)];
    let declared = spec("children", &columns, None, &[Operation::Upsert]);
    let info = f.store.table_info(&table("children")).await.unwrap();
    if f.is_sqlite() {
        // SQLite checks at COMMIT only, so such a table is no target.
        assert!(matches!(info.kind, TableKind::Other(_)), "{:?}", info.kind);
        return;
    }
    f.execute("INSERT INTO parents VALUES ('there')").await;
    let targets = f.resolve(&[declared]).await;
    f.register("c").await;
    let name = tidegate::identity::ConsumerName::new("c").unwrap();
    let applier = tidegate::store::Applier::new(name, targets, Default::default());
    let mut lane = Consumer { store: f.store.clone(), applier: applier.into() }.lane(&[0]).await;
    let child = |id: &str, parent: &str| event(id).change(0, Operation::Upsert, vec![text(id), text(parent)]);
    let events = vec![child("a", "there"), child("b", "missing"), child("c", "there")];
    let applied = lane.feed(0, events).await;
    assert_eq!(applied.report.outcomes, [Applied, Dead, Applied]);
    assert_eq!(f.texts("SELECT sqlstate FROM dead_letters").await, ["23503"]);
}

pub(super) async fn values_that_do_not_fit_are_dead_letters(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    let bad = event("a").change(0, Operation::Upsert, vec![text("p"), Value::Bytes(vec![1]), Value::Null]);
    let nul = event("b").tally("x", 1).pay("p\0", 1);
    let applied = lane.feed(0, vec![bad, nul, event("c").tally("x", 10)]).await;
    assert_eq!(applied.report.outcomes, [Dead, Dead, Applied]);
    assert!(!applied.report.careful, "found before any SQL");
    assert_eq!(applied.report.refusals.poison, 2);
    assert_eq!(f.dead_letters().await, ["open bad-value", "open bad-value"]);
    assert_eq!(f.total("x").await, 10);
}
