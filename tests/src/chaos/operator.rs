//! What an operator of Kafka does, mostly while no host runs.

use std::time::Duration;

use tokio::time::sleep;

use super::{
    actors::{Hand, here},
    fault::{Fault, Reset},
    recreate,
    world::{TOPIC, World},
};

/// Partitions that the topic may grow to.
const MOST_PARTITIONS: usize = 12;

pub(super) async fn inject(hand: &Hand, fault: &Fault) {
    let done = match fault {
        Fault::AddPartition => add_partition(hand).await,
        Fault::ResetOffsets(reset) => reset_offsets(hand, *reset).await,
        Fault::ReplacePlugin => {
            // Every host that runs sees it by itself, at a moment of its own.
            hand.world.replace_plugin();
            true
        }
        Fault::RecreateTopic => here(recreate::make_topic_again(hand)),
        _ => false,
    };
    if done {
        hand.world.chronicle.injected(fault);
    }
}

async fn add_partition(hand: &Hand) -> bool {
    let wanted = hand.reins.partitions() + 1;
    if wanted > MOST_PARTITIONS {
        return false;
    }
    // A broker that is just starting refuses.
    if let Err(error) = hand.world.broker.try_grow(TOPIC, wanted).await {
        hand.world.chronicle.note(format_args!("not injected: {error}"));
        return false;
    }
    let there = || usize::try_from(hand.world.broker.partitions(TOPIC)).unwrap_or(0) >= wanted;
    while !tokio::task::block_in_place(there) {
        sleep(Duration::from_millis(100)).await;
    }
    hand.reins.grown(wanted);
    true
}

/// Ends all hosts, which the group's offsets can be changed without only, changes them, and starts the hosts again.
async fn reset_offsets(hand: &Hand, reset: Reset) -> bool {
    let world = &hand.world;
    for slot in &world.hosts {
        slot.lock().await.terminate().await;
    }
    let mut last = Err("not tried".to_owned());
    // A static member stays until its session is over; a group that is being left is not empty at once either.
    for _ in 0..100 {
        last = match reset {
            Reset::Deleted => world.broker.try_delete_group(&world.group).await,
            Reset::Back(_) | Reset::ToEnd => tokio::task::block_in_place(|| set_offsets(world, reset)),
        };
        if last.is_ok() {
            break;
        }
        sleep(Duration::from_millis(200)).await;
    }
    if let Err(error) = &last {
        world.chronicle.note(format_args!("the offsets could not be changed: {error}"));
    }
    for slot in &world.hosts {
        slot.lock().await.start();
    }
    last.is_ok()
}

/// Blocks.
fn set_offsets(world: &World, reset: Reset) -> Result<(), String> {
    let offsets: Vec<i64> = match reset {
        Reset::Back(records) => {
            let committed = world.broker.committed(&world.group, TOPIC);
            committed.into_iter().map(|offset| (offset.unwrap_or(0) - records).max(0)).collect()
        }
        _ => world.broker.watermarks(TOPIC).into_iter().map(|(_, end)| end).collect(),
    };
    let offsets: Vec<_> = (0..).zip(offsets).collect();
    world.broker.try_set_committed(&world.group, TOPIC, &offsets)
}
