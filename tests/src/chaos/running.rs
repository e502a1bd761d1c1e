//! A group of hosts at work: set up, under traffic, and brought to its end with a verdict.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{task::JoinHandle, time::sleep};

use super::{
    actors::Hand,
    report::Report,
    story::Manner,
    traffic::Traffic,
    verdict::judge,
    walk::Options,
    watch::{Look, Seen, watch},
    world::{PARTITIONS, TOPIC, World},
};
use crate::{services::ServiceError, settlement::CONSUMER};

/// How long everything that was published may take to be consumed once the last fault is over. Rebalances, back-offs of up
/// to ten seconds and half a minute to notice new partitions are in it.
const CATCH_UP: Duration = Duration::from_secs(120);

/// Hosts that run, and a producer that publishes.
#[derive(Debug)]
pub struct Running {
    /// Who acts on it.
    pub hand: Hand,
    traffic: Traffic,
    watching: JoinHandle<()>,
    begun: Instant,
}

impl Running {
    /// Sets everything up, and waits until each partition is consumed.
    ///
    /// # Errors
    /// Where a server does not start.
    pub async fn begin(manner: Manner, hosts: usize) -> Result<Self, ServiceError> {
        let begun = Instant::now();
        let world = Arc::new(World::new(hosts).await?);
        let chronicle = Arc::clone(&world.chronicle);
        chronicle.note(format_args!("{manner:?}"));
        let partitions = usize::try_from(PARTITIONS).unwrap_or(1);
        let traffic = Traffic::start(&world.bootstrap(), TOPIC, partitions, manner);
        let reins = Arc::clone(traffic.reins());
        for slot in &world.hosts {
            slot.lock().await.start();
        }
        let (out, seen) = tokio::sync::watch::channel(Seen::default());
        let look = Look::new(world.admin.clone(), CONSUMER, TOPIC);
        let watching = tokio::spawn(watch(look, Arc::clone(&reins), Arc::clone(&chronicle), out));
        let hand = Hand { world, reins, seen };
        let mut first = hand.seen.clone();
        if tokio::time::timeout(CATCH_UP, first.wait_for(|seen| seen.oldest() > 0.0)).await.is_err() {
            chronicle.found("the hosts did not begin to consume");
        }
        Ok(Self { hand, traffic, watching, begun })
    }

    /// Takes every fault away, has everything consumed, stops the hosts, and holds the database against what was published.
    ///
    /// # Panics
    /// Where the database or the broker does not answer although nothing disturbs it.
    pub async fn end(self, options: &Options) -> Report {
        let Self { hand, traffic, watching, begun } = self;
        let chronicle = Arc::clone(&hand.world.chronicle);
        chronicle.note("the last fault is over");
        hand.heal().await;
        let healed = Instant::now();
        // A standby that will lack the very last of what is consumed.
        let mut primary = hand.world.primary.lock().await;
        let copy = hand.lagging(&primary);
        let story = match tokio::task::spawn_blocking(move || traffic.stop()).await {
            Ok(story) => Some(story),
            Err(error) => {
                chronicle.found(format_args!("the producer failed: {error}"));
                None
            }
        };
        if catch_up(&hand, healed).await {
            chronicle.recovered("last fault → everything consumed", healed.elapsed());
        }
        if all_joined(&hand, healed).await {
            chronicle.recovered("last fault → every host is in its group", healed.elapsed());
        }
        match copy {
            Ok(copy) => {
                // Nobody publishes any more: the hosts have to notice by themselves what their database has lost.
                chronicle.note("promotion of a lagging standby while nothing is published");
                hand.promote(&mut primary, copy).await;
                let promoted = Instant::now();
                if catch_up(&hand, promoted).await {
                    chronicle.recovered("promotion while idle → everything consumed again", promoted.elapsed());
                }
            }
            Err(error) => chronicle.note(format_args!("no standby at the end: {error}")),
        }
        drop(primary);
        let mut world = Arc::clone(&hand.world);
        for slot in &world.hosts {
            slot.lock().await.terminate().await;
        }
        drop(hand);
        // It ends where nobody listens.
        let _ = watching.await;
        let account = match &story {
            Some(story) => Some((story.told(), judge(&world, story).await)),
            None => None,
        };
        let report = Report::of(options, &chronicle, account, begun.elapsed(), world.folder());
        if !report.findings.is_empty()
            && let Some(world) = Arc::get_mut(&mut world)
        {
            world.keep();
        }
        report
    }
}

/// Waits until the chains end where the topic ends. `false` and a finding where they do not in time.
pub(super) async fn catch_up(hand: &Hand, healed: Instant) -> bool {
    let world = &hand.world;
    let ends: Vec<i64> =
        tokio::task::block_in_place(|| world.broker.watermarks(TOPIC)).into_iter().map(|(_, end)| end).collect();
    let mut look = Look::new(world.admin.clone(), CONSUMER, TOPIC);
    loop {
        // What was seen before may have been lost since.
        let positions = look.at(ends.len()).await.unwrap_or_default().positions;
        if positions.len() >= ends.len() && positions.iter().zip(&ends).all(|(at, end)| at >= end) {
            return true;
        }
        for slot in &world.hosts {
            slot.lock().await.look();
        }
        if healed.elapsed() > CATCH_UP {
            world.chronicle.found(format_args!(
                "{} s after the last fault the chains stand at {positions:?}, the topic ends at {ends:?}",
                CATCH_UP.as_secs()
            ));
            tell_hosts(world).await;
            return false;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until every host is in its group. `false` and a finding where one does not come in time: nobody else would miss it,
/// since the others have its partitions.
pub(super) async fn all_joined(hand: &Hand, since: Instant) -> bool {
    let world = &hand.world;
    for (number, slot) in world.hosts.iter().enumerate() {
        while !slot.lock().await.has_joined().await {
            if since.elapsed() > CATCH_UP {
                let patience = CATCH_UP.as_secs();
                world.chronicle.found(format_args!("host {number} does not come into its group within {patience} s"));
                tell_hosts(world).await;
                return false;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
    true
}

/// What each host says of itself, for whoever reads a finding.
pub(super) async fn tell_hosts(world: &World) {
    for (number, slot) in world.hosts.iter().enumerate() {
        let mut slot = slot.lock().await;
        let says = slot.says().await;
        world.chronicle.note(format_args!("host {number}: {}\n    {}", says.trim_end(), slot.tail()));
    }
}
