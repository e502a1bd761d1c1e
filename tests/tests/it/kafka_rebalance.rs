//! Members come and go under load: nothing is lost, nothing is applied twice, and a clean hand-over delivers nothing
//! twice either.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tidegate_tests::{Message, host::Protocol, oracle, wait};

use crate::{
    accounts::event,
    kafka_scene::{Scene, Wanted, under_both_protocols, until_ready},
};

/// Produces without a pause until told to stop; says how many.
fn load(scene: &Scene) -> (Arc<AtomicBool>, std::thread::JoinHandle<i64>) {
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, topic, partitions) = (Arc::clone(&stop), scene.topic.clone(), scene.partitions);
    let producer = scene.broker.producer(&[]);
    let thread = std::thread::spawn(move || {
        let mut produced = 0;
        while !stopped.load(Ordering::Relaxed) {
            let next = produced..produced + 50;
            let message = |n: i64| {
                let partition = i32::try_from(n % i64::from(partitions)).unwrap();
                Message::new(event(n, &format!("a{}", n % 50), 1, n)).to(partition)
            };
            producer.send(&topic, next.map(message));
            produced += 50;
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        produced
    });
    (stop, thread)
}

async fn members_come_and_go_under_load(protocol: Protocol) {
    let scene = Scene::new(6).await.under(protocol);
    let wanted = [Wanted { lanes: 2, max_records: 100, ..scene.consumer("c").await }];
    let (stop, producer) = load(&scene);
    let applied = |more: i64| {
        let scene = &scene;
        async move {
            let start = oracle::totals(&scene.database, "c").await.applied;
            let now = async || oracle::totals(&scene.database, "c").await.applied;
            wait::until("some more is applied", now, |now| *now >= start + more).await;
        }
    };
    let first = scene.start(&wanted);
    until_ready(&first).await;
    applied(500).await;
    let second = scene.start(&wanted);
    let shared = async || {
        let partitions = |app: &tidegate::app::App| app.report()[0].partitions.len();
        (partitions(&first), partitions(&second))
    };
    wait::until("both members have partitions", shared, |&(one, two)| one > 0 && two > 0).await;
    applied(1_000).await;
    first.drain().await;
    applied(1_000).await;
    let third = scene.start(&wanted);
    until_ready(&third).await;
    applied(500).await;
    stop.store(true, Ordering::Relaxed);
    let produced = producer.join().unwrap();
    scene.consumed(&third, "c").await;
    second.drain().await;
    third.drain().await;
    let totals = oracle::totals(&scene.database, "c").await;
    assert_eq!((totals.consumed, totals.applied), (produced, produced), "each delivered once, each applied once");
    assert_eq!(scene.sum("c").await, produced);
    let committed = scene.broker.committed(&format!("c-{}", scene.topic), &scene.topic);
    let ends: Vec<_> = scene.broker.watermarks(&scene.topic).into_iter().map(|(_, end)| Some(end)).collect();
    assert_eq!(committed, ends, "the last member out has committed everything");
    scene.proofs("c").await;
}

under_both_protocols!(members_come_and_go_under_load);
