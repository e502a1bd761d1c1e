//! Who is a member of the group, and who is not any more: static members, members without a partition, members that were
//! silent for too long.

use tidegate::app::App;
use tidegate_tests::{Message, host::Protocol, intruder::Intruder, oracle, wait};

use crate::{
    accounts::event,
    kafka_scene::{Scene, steps, under_both_protocols, until_ready, until_reason},
};

const INSTANCE: &str = "group.instance.id";

fn partitions(app: &App) -> Vec<String> {
    app.report()[0].partitions.keys().cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_member_s_restart_moves_no_partition() {
    // Longer than any restart takes, also on a machine that does much else.
    let scene = Scene::new(4).await.with("session.timeout.ms", "60000").with(INSTANCE, "one");
    let wanted = [scene.consumer("c").await];
    let one = scene.start(&wanted);
    let scene = scene.with(INSTANCE, "other");
    let other = scene.start(&wanted);
    let shared = async || (partitions(&one).len(), partitions(&other).len());
    wait::until("both have their half", shared, |&halves| halves == (2, 2)).await;
    let (of_one, of_other, before) = (partitions(&one), partitions(&other), steps(&other, "c", None));

    one.drain().await;
    for partition in 0..4 {
        scene.produce(partition, (0..20).map(|n| event(format!("{partition}-{n}"), "a", 1, n)));
    }
    let scene = scene.with(INSTANCE, "one");
    let again = scene.start(&wanted);
    wait::until("it has its half again", async || partitions(&again), |now| *now == of_one).await;
    scene.consumed(&again, "c").await;
    assert_eq!(partitions(&other), of_other);
    assert_eq!(steps(&other, "c", None), before, "the other member has seen no rebalance");
    again.drain().await;
    other.drain().await;
    assert_eq!(oracle::totals(&scene.database, "c").await.consumed, 80, "and nothing was delivered twice");
    assert_eq!(scene.sum("c").await, 80);
    scene.proofs("c").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_under_one_static_id_are_told_so() {
    let scene = Scene::new(2).await.with(INSTANCE, "same");
    let wanted = [scene.consumer("c").await];
    let one = scene.start(&wanted);
    until_ready(&one).await;
    let other = scene.start(&wanted);
    until_reason(&one, "another process is the group's member").await;
    scene.produce(0, [event("e1", "a", 1, 1)]);
    scene.consumed(&other, "c").await;
    one.drain().await;
    other.drain().await;
    scene.proofs("c").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_member_that_was_fenced_comes_back_by_itself() {
    let scene = Scene::new(2).await.with(INSTANCE, "same");
    let wanted = [scene.consumer("c").await];
    let app = scene.start(&wanted);
    until_ready(&app).await;
    // As after a coordinator's restart amid a rebalance: the id belongs to somebody who is not there.
    let rival = Intruder::join(&scene.broker, &format!("c-{}", scene.topic), &scene.topic, &[(INSTANCE, "same")]);
    until_reason(&app, "another process is the group's member").await;
    rival.leave();
    until_ready(&app).await;
    scene.produce(0, [event("e1", "a", 1, 1)]);
    scene.consumed(&app, "c").await;
    app.drain().await;
    scene.proofs("c").await;
}

async fn a_member_without_a_partition_is_ready_and_takes_over(protocol: Protocol) {
    let scene = Scene::new(1).await.under(protocol);
    let wanted = [scene.consumer("c").await];
    let one = scene.start(&wanted);
    wait::until("the partition is read", async || partitions(&one).len(), |&n| n == 1).await;
    let spare = scene.start(&wanted);
    until_ready(&spare).await;
    scene.produce(0, (0..20).map(|n| event(n, "a", 1, n)));
    scene.consumed(&one, "c").await;
    one.drain().await;
    scene.produce(0, (20..40).map(|n| event(n, "a", 1, n)));
    scene.consumed(&spare, "c").await;
    spare.drain().await;
    assert_eq!(oracle::totals(&scene.database, "c").await.consumed, 40);
    scene.proofs("c").await;
}

/// A partition that is idle, and whose offset Kafka does not know: lag tools would show it wrong until its next record.
async fn kafka_is_told_of_an_idle_partition(protocol: Protocol) {
    let scene = Scene::new(2).await.under(protocol);
    let (wanted, group) = ([scene.consumer("c").await], format!("c-{}", scene.topic));
    scene.produce(0, (0..20).map(|n| event(n, "a", 1, n)));
    let app = scene.start(&wanted);
    scene.consumed(&app, "c").await;
    app.drain().await;
    scene.broker.delete_group(&group).await;
    assert_eq!(scene.broker.committed(&group, &scene.topic), [None, None]);

    let app = scene.start(&wanted);
    let committed = async || scene.broker.committed(&group, &scene.topic);
    wait::until("Kafka knows again", committed, |at| *at == [Some(20), Some(0)]).await;
    app.drain().await;
    assert_eq!(oracle::totals(&scene.database, "c").await.consumed, 20, "nothing was read a second time for that");
}

/// What a crash between the database's commit and Kafka's leaves behind, and an operator's rewind as well: an offset that is
/// behind the chain. It is honoured, and what is read again is known.
async fn an_offset_behind_the_chain_is_honoured_and_gives_duplicates_only(protocol: Protocol) {
    let scene = Scene::new(2).await.under(protocol);
    let (wanted, group) = ([scene.consumer("c").await], format!("c-{}", scene.topic));
    let run = async |from: i64| {
        for partition in 0..2 {
            let events = (from..from + 20).map(|n| event(format!("{partition}-{n}"), "a", 1, n));
            scene.broker.producer(&[]).send(&scene.topic, events.map(|text| Message::new(text).to(partition)));
        }
        let app = scene.start(&wanted);
        scene.consumed(&app, "c").await;
        app.drain().await;
        let totals = oracle::totals(&scene.database, "c").await;
        (totals.consumed, totals.applied, totals.duplicate)
    };
    assert_eq!(run(0).await, (40, 40, 0));
    assert_eq!(run(20).await, (80, 80, 0), "a clean end leaves nothing to be delivered again");
    assert_eq!(scene.broker.committed(&group, &scene.topic), [Some(40), Some(40)]);

    scene.broker.set_committed(&group, &scene.topic, 0, 20);
    scene.broker.set_committed(&group, &scene.topic, 1, 35);
    assert_eq!(run(40).await, (120 + 25, 120, 25), "20 of one partition a second time, 5 of the other");
    assert_eq!(scene.broker.committed(&group, &scene.topic), [Some(60), Some(60)]);
    assert_eq!(scene.sum("c").await, 120);
    scene.proofs("c").await;
}

under_both_protocols!(
    a_member_without_a_partition_is_ready_and_takes_over,
    kafka_is_told_of_an_idle_partition,
    an_offset_behind_the_chain_is_honoured_and_gives_duplicates_only,
);
