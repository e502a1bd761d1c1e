//! The checkpoint chain: fencing, moves, tiling.

use std::time::Duration;

use tidegate::{
    class::Class,
    identity::ConsumerName,
    outcome::Outcome,
    record::{Batch, Record, Run},
    store::ApplyError,
};

use super::fixture::{Fixture, event, partition};

pub(super) async fn one_of_two_sessions_extends_a_link(f: &Fixture) {
    let consumer = f.consumer("c").await;
    let mut one = consumer.lane(&[0]).await;
    let mut two = consumer.lane(&[0]).await;
    let mut batches =
        [one.prepare(&[(0, vec![event("a").tally("x", 1)])]), two.prepare(&[(0, vec![event("a").tally("x", 1)])])];
    let [first, second] = &mut batches;
    let (one_applied, two_applied) = tokio::join!(one.apply(first), two.apply(second));
    let outcomes = [one_applied, two_applied];
    let fenced = outcomes.iter().filter(|r| matches!(r, Err(ApplyError::Fenced { .. }))).count();
    let applied = outcomes.iter().filter(|r| r.is_ok()).count();
    assert_eq!((applied, fenced), (1, 1), "{outcomes:?}");
    assert_eq!(f.total("x").await, 1);
    assert_eq!(f.number("SELECT sum(consumed) FROM checkpoints").await, 1);
}

pub(super) async fn a_move_fences_the_zombie(f: &Fixture) {
    let consumer = f.consumer("c").await;
    let mut zombie = consumer.lane(&[0, 1]).await;
    let mut batch = zombie.prepare(&[(0, vec![event("a").tally("x", 1)]), (1, vec![event("b").tally("x", 1)])]);
    // The new owner moves the chain when it is assigned the partition, to where it is already.
    let mut owner = consumer.lane(&[0]).await;
    let tip = owner.tips[&partition(0)];
    let moved = owner.conn.move_chain(consumer.applier.consumer(), &partition(0), Some(tip), 0).await.unwrap();
    owner.tips.insert(partition(0), moved.unwrap());
    let error = zombie.apply(&mut batch).await.unwrap_err();
    assert!(matches!(error, ApplyError::Fenced { .. }), "{error}");
    assert_eq!((f.ledger().await, f.total("x").await), (0, 0), "nothing of the zombie's is committed");
    let again = owner.conn.move_chain(consumer.applier.consumer(), &partition(0), Some(tip), 0).await.unwrap();
    assert_eq!(again, None, "the old tip is taken");
    owner.feed(0, vec![event("a").tally("x", 1)]).await;
    assert_eq!(f.total("x").await, 1);
}

pub(super) async fn a_link_begins_where_its_predecessor_ends(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    // Nobody else has the tip, but these records do not follow it.
    lane.tips.get_mut(&partition(0)).unwrap().next_offset = 5;
    let mut batch = lane.prepare(&[(0, vec![event("a").tally("x", 1)])]);
    let error = lane.apply(&mut batch).await.unwrap_err();
    assert!(matches!(error, ApplyError::Fenced { .. }), "{error}");
    assert_eq!((f.ledger().await, f.total("x").await), (0, 0));
}

pub(super) async fn a_genesis_is_made_once(f: &Fixture) {
    let consumer = f.consumer("c").await;
    let mut one = consumer.lane(&[]).await;
    let mut two = consumer.lane(&[]).await;
    let name = consumer.applier.consumer().clone();
    let place = partition(0);
    let (a, b) = tokio::join!(one.conn.move_chain(&name, &place, None, 5), two.conn.move_chain(&name, &place, None, 7));
    let made = [a.unwrap(), b.unwrap()];
    assert_eq!(made.iter().flatten().count(), 1, "{made:?}");
    let tips = one.conn.tips(&name, &[place, partition(1)]).await.unwrap();
    assert_eq!(tips, [made.iter().flatten().next().copied(), None]);
}

pub(super) async fn nobody_unregistered_gets_a_chain(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    let stranger = ConsumerName::new("stranger").unwrap();
    let tip = lane.tips[&partition(0)];
    for tip in [None, Some(tip)] {
        let error = lane.conn.move_chain(&stranger, &partition(0), tip, 0).await.unwrap_err();
        assert!(error.is_unregistered() && error.class() == Class::Transient, "{error}");
    }
    let error = lane.conn.begin(&stranger).await.unwrap_err();
    assert!(error.is_unregistered(), "{error}");
    lane.conn.rollback().await.unwrap();
}

pub(super) async fn another_key_version_commits_nothing(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    let mut batch = lane.prepare(&[(0, vec![event("a").tally("x", 1)])]);
    f.execute("UPDATE consumers SET key_version = 2").await;
    let error = lane.apply(&mut batch).await.unwrap_err();
    assert!(matches!(error, ApplyError::KeyVersion { active: 2, computed: 1, .. }), "{error}");
    assert_eq!(error.class(), Class::Fatal);
    assert_eq!((f.ledger().await, f.total("x").await), (0, 0));
    f.execute("UPDATE consumers SET key_version = 1").await;
    lane.apply(&mut batch).await.unwrap();
}

pub(super) async fn gaps_and_empty_runs_tile(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0, 1]).await;
    let record = |offset| Record { offset, timestamp_ms: None, key: None, payload: None, headers: Vec::new() };
    let run = |number, first_offset, next_offset, records| Run {
        partition: partition(number),
        generation: 3,
        first_offset,
        next_offset,
        records,
    };
    let batch = Batch { runs: vec![run(0, 0, 9, 0..2), run(1, 0, 4, 2..2)], records: vec![record(2), record(5)] };
    let events = vec![event("a").evaluated(), event("b").skip().evaluated()];
    let mut prepared = lane.consumer.prepare(batch, events);
    let applied = lane.apply(&mut prepared).await.unwrap();
    let receipts: Vec<_> =
        applied.receipts.iter().map(|r| (r.partition().partition, r.next_offset(), r.generation())).collect();
    assert_eq!(receipts, [(0, 9, 3), (1, 4, 3)]);
    assert_eq!(applied.report.outcomes, [Outcome::Applied, Outcome::Skipped]);
    let status = f.store.status(None).await.unwrap();
    let tips: Vec<_> = status[0].partitions.iter().map(|p| (p.tip.next_offset, p.links, p.totals.consumed())).collect();
    assert_eq!(tips, [(9, 2, 2), (4, 2, 0)]);
}

pub(super) async fn a_hole_is_found(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    for id in ["a", "b", "c"] {
        lane.feed(0, vec![event(id)]).await;
    }
    f.prove().await;
    let name = lane.consumer.applier.consumer().clone();
    f.execute("UPDATE checkpoints SET next_offset = 9 WHERE seq = 3; UPDATE checkpoints SET first_offset = 3, next_offset = 5 WHERE seq = 2").await;
    let faults = f.store.chain_faults(&name).await.unwrap();
    let found: Vec<_> =
        faults.iter().map(|fault| (fault.seq, fault.fault.as_str(), fault.expected, fault.found)).collect();
    assert_eq!(found, [(2, "hole", Some(1), 3), (3, "overlap", Some(5), 2)]);
    f.execute("UPDATE checkpoints SET next_offset = 3 WHERE seq = 3; UPDATE checkpoints SET first_offset = 1, next_offset = 2 WHERE seq = 2").await;
    // A clock so that a lost wake-up would show as a failure and not as a hang.
    tokio::time::timeout(Duration::from_secs(60), lane.feed(0, vec![event("d")])).await.unwrap();
}
