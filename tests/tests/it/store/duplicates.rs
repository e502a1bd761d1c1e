//! Deduplication: what is first, what is a duplicate, what is too old to tell.

use tidegate::{outcome::Outcome, store::Policy};

use super::fixture::{Fixture, event, too_old_is_only_counted};

use Outcome::{Applied, Dead, Duplicate, Skipped, TooOld};

pub(super) async fn the_same_id_twice_is_applied_once(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    let applied =
        lane.feed(0, vec![event("a").tally("x", 1), event("b").tally("x", 10), event("a").tally("x", 1)]).await;
    assert_eq!(applied.report.outcomes, [Applied, Applied, Duplicate]);
    // Published again: another offset, another batch.
    let applied = lane.feed(0, vec![event("b").tally("x", 10), event("c").tally("x", 100)]).await;
    assert_eq!(applied.report.outcomes, [Duplicate, Applied]);
    assert_eq!(f.total("x").await, 111);
    assert_eq!(f.ledger().await, 3);
    // R3's query over the attempts, as a person would run it.
    let repeated = f
        .texts("SELECT input_id || ' ' || count(*) FROM processed_input_attempts GROUP BY input_id HAVING count(*) > 1 ORDER BY 1")
        .await;
    assert_eq!(repeated, ["a 2", "b 2"]);
}

pub(super) async fn two_consumers_process_the_same_event(f: &Fixture) {
    for name in ["one", "two"] {
        let mut lane = f.consumer(name).await.lane(&[0]).await;
        let applied = lane.feed(0, vec![event("a").tally(name, 1)]).await;
        assert_eq!(applied.report.outcomes, [Applied]);
    }
    assert_eq!((f.total("one").await, f.total("two").await), (1, 1));
}

pub(super) async fn two_connections_at_once_apply_an_id_once(f: &Fixture) {
    let consumer = f.consumer("c").await;
    let mut tasks = Vec::new();
    for number in 0..2 {
        let mut lane = consumer.lane(&[number]).await;
        tasks.push(tokio::spawn(async move {
            let mut counts = tidegate::outcome::Counts::default();
            for round in 0..20 {
                // Both partitions carry the same ids, in opposite orders.
                let mut ids: Vec<usize> = (round * 10..round * 10 + 10).collect();
                if number == 1 {
                    ids.reverse();
                }
                let events: Vec<_> = ids.into_iter().map(|id| event(&format!("e{id}")).tally("x", 1)).collect();
                let mut prepared = lane.prepare(&[(number, events)]);
                let applied = loop {
                    match lane.apply(&mut prepared).await {
                        Ok(applied) => break applied,
                        // A deadlock or a lock timeout: the same batch again.
                        Err(error) => assert_eq!(error.class(), tidegate::class::Class::Transient, "{error}"),
                    }
                };
                counts += applied.report.counts;
            }
            counts
        }));
    }
    let mut counts = tidegate::outcome::Counts::default();
    for task in tasks {
        counts += task.await.unwrap();
    }
    assert_eq!((counts.applied, counts.duplicate), (200, 200));
    assert_eq!(f.total("x").await, 200, "nothing was added twice");
}

pub(super) async fn another_payload_is_kept_and_counted(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    let events = vec![
        event("a").payload("one"),
        event("a").payload("two"),
        event("a").payload("two"),
        event("a").payload("one"),
    ];
    let applied = lane.feed(0, events).await;
    assert_eq!(applied.report.outcomes, [Applied, Duplicate, Duplicate, Duplicate]);
    assert_eq!(applied.report.conflicts, 2, "the second and the third record");
    let applied =
        lane.feed(0, vec![event("a").payload("three"), event("a").payload("two"), event("a").payload("one")]).await;
    assert_eq!(applied.report.conflicts, 2, "against the ledger, too");
    let kept = "SELECT source_position || ' seen ' || seen FROM payload_conflicts ORDER BY source_position";
    assert_eq!(f.texts(kept).await, ["events:0:1 seen 2", "events:0:4 seen 1"]);
}

pub(super) async fn known_ids_are_duplicates_whatever_the_plugin_says(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    lane.feed(0, vec![event("a")]).await;
    let events = vec![
        event("a").skip(),
        event("a").reject("stricter"),
        event("b").skip(),
        event("c").reject("broken"),
        event("-").nameless().reject("no-id"),
    ];
    let applied = lane.feed(0, events).await;
    assert_eq!(applied.report.outcomes, [Duplicate, Duplicate, Skipped, Dead, Dead]);
    assert_eq!(f.dead_letters().await, ["open broken", "open no-id"]);
    assert_eq!(f.ledger().await, 1, "neither skipped nor dead inputs are remembered");
}

pub(super) async fn attempts_are_capped_and_the_rest_is_counted(f: &Fixture) {
    let policy = Policy { attempts_per_batch: 2, ..Policy::default() };
    let mut lane = f.consumer_under("c", policy).await.lane(&[0]).await;
    let applied = lane.feed(0, vec![event("a"); 6]).await;
    assert_eq!((applied.report.counts.duplicate, applied.report.attempts_left_out), (5, 3));
    assert_eq!(f.number("SELECT count(*) FROM duplicate_attempts").await, 2);
}

const HOUR: i64 = 3_600_000_000;
const HORIZON: i64 = 1_700_000_000_000_000;

async fn move_horizon(f: &Fixture) {
    let to = if f.is_sqlite() { HORIZON.to_string() } else { format!("to_timestamp({})", HORIZON / 1_000_000) };
    f.execute(&format!("UPDATE consumers SET horizon = {to}")).await;
}

pub(super) async fn an_input_from_before_the_horizon_is_never_first(f: &Fixture) {
    let mut lane = f.consumer("c").await.lane(&[0]).await;
    lane.feed(0, vec![event("there").at(HORIZON - HOUR).tally("x", 1)]).await;
    move_horizon(f).await;
    let events = vec![
        event("there").at(HORIZON - HOUR).tally("x", 1),
        event("forgotten").at(HORIZON - HOUR).tally("x", 1),
        event("within the clocks' skew").at(HORIZON + 1).tally("x", 1),
        event("later").at(HORIZON + HOUR).tally("x", 10),
        event("timeless").tally("x", 100),
        event("skipped").at(HORIZON - HOUR).skip(),
        // An older copy of one that is applied here is its duplicate.
        event("later").at(HORIZON - HOUR).tally("x", 1),
    ];
    let applied = lane.feed(0, events).await;
    assert_eq!(applied.report.outcomes, [Duplicate, TooOld, TooOld, Applied, Applied, TooOld, Duplicate]);
    assert_eq!(f.total("x").await, 111);
    assert_eq!(f.dead_letters().await, ["open too-old", "open too-old", "open too-old"]);
}

pub(super) async fn too_old_inputs_may_be_only_counted(f: &Fixture) {
    let mut lane = f.consumer_under("c", too_old_is_only_counted()).await.lane(&[0]).await;
    move_horizon(f).await;
    let applied = lane.feed(0, vec![event("a").at(HORIZON - HOUR).tally("x", 1)]).await;
    assert_eq!(applied.report.outcomes, [TooOld]);
    assert_eq!(f.number("SELECT count(*) FROM dead_letters").await, 0);
}
