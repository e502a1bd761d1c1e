//! Guards: steps between states, versions, tombstones.

use tidegate::{
    identity::ConsumerName,
    merge::{Guard, Merge, OnRefused, Operation, TRANSITION_REFUSED},
    outcome::Outcome::{Applied, Dead},
    store::Applier,
    value::Value,
};

use super::fixture::{Consumer, Fixture, event, spec, text};

pub(super) async fn refused_steps_are_dead_letters_of_their_own_kind(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    let events = vec![
        event("a").order("o", "new").tally("x", 1),
        event("b").order("o", "paid").tally("x", 1),
        event("c").order("o", "new").tally("x", 1),
        event("d").order("p", "paid").tally("x", 1),
        event("e").order("o", "paid").tally("x", 1),
    ];
    let applied = lane.feed(0, events).await;
    assert_eq!(applied.report.outcomes, [Applied, Applied, Dead, Dead, Applied]);
    assert_eq!((applied.report.refusals.transitions, applied.report.refusals.poison), (2, 0));
    assert!(!applied.report.careful, "decided before anything is written");
    assert_eq!(f.total("x").await, 3, "a refused record changes nothing else either");
    assert_eq!(f.dead_letters().await, [format!("open {TRANSITION_REFUSED}"), format!("open {TRANSITION_REFUSED}")]);
    let applied = lane.feed(0, vec![event("f").order("o", "sent"), event("g").order("o", "paid")]).await;
    assert_eq!(applied.report.outcomes, [Applied, Dead], "over the row that is there");
    assert_eq!(f.texts("SELECT order_id || ' ' || status FROM orders").await, ["o sent"]);
}

pub(super) async fn a_state_follows_itself_only_where_that_is_allowed(f: &Fixture) {
    f.create("CREATE TABLE bills (bill TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL, amount BIGINT)").await;
    let guard = Guard::Transition {
        column: 1,
        initial: ["new".to_owned()].into(),
        allow: [("new", "paid"), ("paid", "paid")].map(|(from, to)| (from.to_owned(), to.to_owned())).into(),
        on_refused: OnRefused::DeadLetter,
    };
    let columns = [("bill", Merge::Replace), ("state", Merge::Replace), ("amount", Merge::Replace)];
    let targets = f.resolve(&[spec("bills", &columns, Some(guard), &[Operation::Upsert, Operation::Update])]).await;
    f.register("c").await;
    let applier = Applier::new(ConsumerName::new("c").unwrap(), targets, Default::default());
    let mut lane = Consumer { store: f.store.clone(), applier: applier.into() }.lane(&[0]).await;
    let bill = |id: &str, operation, state: &str, amount| {
        event(id).change(0, operation, vec![text("b"), text(state), Value::Integer(amount)])
    };
    let amounts = "SELECT state || ' ' || amount FROM bills";

    let news = vec![bill("a", Operation::Upsert, "new", 10), bill("b", Operation::Upsert, "new", 11)];
    let applied = lane.feed(0, news).await;
    assert_eq!((applied.report.counts.applied, applied.report.same_state), (2, 1), "left out, and it shows");
    assert_eq!(f.texts(amounts).await, ["new 10"]);

    // Within a batch, and over the row that is there; by upsert and by update; where nothing changes, too.
    let paid = |id: &str, operation, amount| bill(id, operation, "paid", amount);
    let applied = lane.feed(0, vec![paid("c", Operation::Upsert, 12), paid("d", Operation::Update, 13)]).await;
    assert_eq!((applied.report.counts.applied, applied.report.same_state), (2, 0));
    assert_eq!(f.texts(amounts).await, ["paid 13"]);
    for (id, operation, amount) in
        [("e", Operation::Upsert, 14), ("f", Operation::Update, 15), ("g", Operation::Upsert, 15)]
    {
        let applied = lane.feed(0, vec![paid(id, operation, amount)]).await;
        assert_eq!((applied.report.counts.applied, applied.report.same_state), (1, 0));
        assert_eq!(f.texts(amounts).await, [format!("paid {amount}")]);
    }
}

pub(super) async fn late_events_do_not_trip_the_breaker(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    let events = (0..60)
        .map(|i| event(&format!("e{i}")).order(&format!("o{i}"), if i % 2 == 0 { "new" } else { "sent" }))
        .collect();
    let applied = lane.feed(0, events).await;
    assert_eq!((applied.report.counts.applied, applied.report.counts.dead), (30, 30));
}

pub(super) async fn a_refused_inserter_cuts_the_batch(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    let events = vec![
        event("a").order("o", "paid"),
        event("b").order("o", "new"),
        event("a").order("o", "paid"),
        event("c").order("o", "sent"),
    ];
    let mut batch = lane.prepare(&[(0, events)]);
    let applied = lane.apply(&mut batch).await.unwrap();
    assert_eq!(applied.report.outcomes, [Dead, Applied]);
    let applied = lane.apply(&mut applied.rest.unwrap()).await.unwrap();
    assert_eq!(applied.report.outcomes, [Applied, Applied]);
    assert_eq!(f.texts("SELECT status FROM orders").await, ["sent"]);
    assert_eq!(f.dead_letters().await, [format!("superseded {TRANSITION_REFUSED}")]);
}

pub(super) async fn poison_takes_its_step_back(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    let events = vec![
        event("a").order("o", "new"),
        event("b").order("o", "paid").pay("p", -1),
        // Would be allowed after "b", which is poison.
        event("c").order("o", "sent").tally("x", 1),
        event("d").order("o", "paid").tally("x", 10),
    ];
    let applied = lane.feed(0, events).await;
    assert_eq!(applied.report.outcomes, [Applied, Dead, Dead, Applied]);
    assert_eq!((applied.report.refusals.poison, applied.report.refusals.transitions), (1, 1));
    assert_eq!(f.texts("SELECT status FROM orders").await, ["paid"]);
    assert_eq!(f.total("x").await, 10);
}

pub(super) async fn stale_versions_are_counted_and_deletes_stay(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    let applied = lane
        .feed(0, vec![event("a").stock("i", 5, 50), event("b").stock("i", 3, 30), event("c").stock("j", 1, 1)])
        .await;
    assert_eq!(applied.report.counts.applied, 3, "a stale version is no failure");
    assert_eq!(applied.report.written.stale, 1);
    let applied = lane
        .feed(0, vec![event("d").stock_gone("i", 7), event("e").stock("i", 6, 60), event("f").stock_gone("k", 4)])
        .await;
    assert_eq!(applied.report.written.stale, 1, "older than the delete");
    let applied = lane.feed(0, vec![event("g").stock("k", 2, 20), event("h").stock("j", 2, 2)]).await;
    assert_eq!(applied.report.written.stale, 1, "the delete came before its row");
    let there = "SELECT item || ' ' || version || ' ' || level FROM stock WHERE deleted_at IS NULL ORDER BY item";
    assert_eq!(f.texts(there).await, ["j 2 2"]);
    lane.feed(0, vec![event("i").stock("i", 8, 80)]).await;
    assert_eq!(f.texts(there).await, ["i 8 80", "j 2 2"], "a newer upsert revives it");
}
