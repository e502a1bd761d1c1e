//! A database that is slow, or locked by somebody else, for longer than the group waits for a member: the member stays, keeps
//! its partitions, and goes on.

use std::time::Duration;

use tidegate::app::App;
use tidegate_tests::{host::Protocol, oracle, wait};
use tokio::time::sleep;

use crate::{
    accounts::event,
    kafka_scene::{Scene, steps, under_both_protocols, until_reason},
};

/// Half as long again as the group would wait for a member that does not come round.
const LONG: Duration = Duration::from_secs(6);

async fn scene(protocol: Protocol) -> Scene {
    // As short as the client allows: not below the session time-out.
    let scene = Scene::new(2).await.with("session.timeout.ms", "3000").with("max.poll.interval.ms", "4000");
    scene.under(protocol)
}

async fn settled(scene: &Scene, app: &App) -> u64 {
    let reading = async || app.report()[0].partitions.len();
    wait::until("both partitions are read", reading, |&n| n == 2).await;
    scene.consumed(app, "c").await;
    steps(app, "c", None)
}

async fn a_lock_on_a_target_row_costs_no_partition(protocol: Protocol) {
    let scene = scene(protocol).await;
    scene.produce(0, [event("e1", "a", 1, 1)]);
    let app = scene.start(&[scene.consumer("c").await]);
    let before = settled(&scene, &app).await;

    let mut rival = scene.database.pool().begin().await.unwrap();
    sqlx::query("SELECT FROM c_balances WHERE account = 'a' FOR UPDATE").execute(&mut *rival).await.unwrap();
    scene.produce(0, [event("e2", "a", 2, 2)]);
    until_reason(&app, "tries its batch again").await;
    sleep(LONG).await;
    let report = app.report().remove(0);
    assert_eq!((report.phase, report.partitions.len()), ("running", 2));
    assert_eq!(scene.sum("c").await, 1, "the lock is still there");
    rival.rollback().await.unwrap();

    scene.consumed(&app, "c").await;
    assert_eq!(steps(&app, "c", None), before, "no rebalance");
    app.drain().await;
    assert_eq!(scene.sum("c").await, 3);
    assert_eq!(oracle::totals(&scene.database, "c").await.consumed, 2);
    scene.proofs("c").await;
}

async fn a_batch_slower_than_the_group_waits_costs_no_partition(protocol: Protocol) {
    let scene = scene(protocol).await;
    let app = scene.start(&[scene.consumer("c").await]);
    let before = settled(&scene, &app).await;
    scene
        .database
        .execute(&format!(
            "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM pg_sleep({}); RETURN NEW; END $$;
             CREATE TRIGGER slowly BEFORE INSERT ON c_latest FOR EACH ROW EXECUTE FUNCTION slowly()",
            LONG.as_secs()
        ))
        .await;
    scene.produce(1, [event("e1", "a", 1, 1)]);
    scene.consumed(&app, "c").await;
    assert_eq!(steps(&app, "c", None), before, "no rebalance");
    app.drain().await;
    assert_eq!(scene.sum("c").await, 1);
    scene.proofs("c").await;
}

under_both_protocols!(
    a_lock_on_a_target_row_costs_no_partition,
    a_batch_slower_than_the_group_waits_costs_no_partition,
);
