//! Commits whose answer is lost, and calls that break: the same batch again, and it counts once.

use std::sync::atomic::Ordering;

use tidegate::{
    class::Class,
    outcome::Outcome,
    store::{Applied, Prepared},
};

use tidegate_tests::{
    faulty::{Break, Faulty},
    wait::until_true,
};

use super::fixture::{Fixture, Lane, event};

/// Lets the lane's connection break, and gives it a good one afterwards. Answers whether it broke, and what came of the
/// batch in the end.
pub(super) async fn apply_through(lane: &mut Lane, prepared: &mut Prepared, when: Break) -> (bool, Applied) {
    let good = lane.consumer.store.connect().await.unwrap();
    let bad = std::mem::replace(&mut lane.conn, good);
    let mut faulty = Faulty::new(bad, when);
    let applier = lane.consumer.applier.clone();
    match applier.apply(&mut faulty, prepared, &lane.tips).await {
        Ok(applied) => {
            lane.tips.extend(applied.tips.iter().cloned());
            return (false, applied);
        }
        Err(error) => {
            assert!(error.connection_lost(), "{error}");
            assert_eq!(error.class(), Class::Transient, "{error}");
        }
    }
    drop(faulty);
    let mut patience = 50;
    loop {
        match lane.apply(prepared).await {
            Ok(applied) => return (true, applied),
            // The broken connection's transaction may still be ending.
            Err(error) if error.class() == Class::Transient && patience > 0 => patience -= 1,
            Err(error) => panic!("{error}"),
        }
    }
}

pub(super) async fn a_commit_whose_answer_is_lost_is_found(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    let mut batch = lane.prepare(&[(0, vec![event("a").tally("x", 1), event("b").skip()])]);
    let (broke, applied) = apply_through(&mut lane, &mut batch, Break::CommitUnanswered).await;
    assert!(broke && applied.recovered);
    assert_eq!(f.total("x").await, 1);
    lane.feed(0, vec![event("c").tally("x", 10)]).await;
    assert_eq!(f.total("x").await, 11);
}

pub(super) async fn a_commit_that_was_never_sent_is_done_again(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    let mut batch = lane.prepare(&[(0, vec![event("a").tally("x", 1)])]);
    let (broke, applied) = apply_through(&mut lane, &mut batch, Break::CommitUnsent).await;
    assert!(broke && !applied.recovered);
    assert_eq!(f.total("x").await, 1);
}

pub(super) async fn a_commit_that_comes_late_is_waited_for(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    let mut batch = lane.prepare(&[(0, vec![event("a").tally("x", 1)])]);
    let good = Faulty::new(lane.consumer.store.connect().await.unwrap(), Break::Never);
    let calls = good.calls();
    let mut old = Faulty::new(std::mem::replace(&mut lane.conn, Box::new(good)), Break::CommitUnsent);
    let applier = lane.consumer.applier.clone();
    let error = applier.apply(&mut old, &mut batch, &lane.tips).await.unwrap_err();
    assert!(error.connection_lost());
    // The old backend has everything but the COMMIT, which arrives while the same batch runs again: once it has looked for
    // its checkpoints in vain and begun, and, where the database shows it, stands before a lock of the old transaction.
    let waits = async || {
        let waiting =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        calls.load(Ordering::SeqCst) >= 2 && (f.is_sqlite() || f.number(waiting).await > 0)
    };
    let late = async {
        until_true("the batch that runs again waits for the old transaction", waits).await;
        old.inner.commit().await.unwrap();
    };
    let (applied, ()) = tokio::join!(lane.apply(&mut batch), late);
    let applied = applied.unwrap();
    assert!(applied.recovered, "found, not done again");
    assert_eq!(applied.report.outcomes, [Outcome::Applied]);
    assert_eq!(applied.receipts.len(), 1);
    assert_eq!(f.total("x").await, 1);
}

pub(super) async fn a_broken_call_leaves_nothing_behind(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    let mut expected = 0;
    let mut number = 0;
    // Every call of a batch with poison in it, before and after its work, until a batch runs through unbroken.
    for when in [Break::Before as fn(usize) -> Break, Break::After] {
        for call in 0.. {
            number += 1;
            let events = vec![
                event(&format!("a{number}")).tally("x", 1).order(&format!("o{number}"), "new"),
                event(&format!("b{number}")).tally("x", 1).pay("p", -1),
                event(&format!("c{number}")).tally("x", 1).order(&format!("o{number}"), "sent"),
                event(&format!("a{number}")).tally("x", 1),
            ];
            let mut batch = lane.prepare(&[(0, events)]);
            let (broke, _) = apply_through(&mut lane, &mut batch, when(call)).await;
            expected += 1;
            assert_eq!(f.total("x").await, expected, "{:?}", when(call));
            assert_eq!(f.number("SELECT count(*) FROM dead_letters").await, 2 * expected);
            if !broke {
                assert!(call > 10, "careful mode makes more calls than that");
                break;
            }
        }
    }
}
