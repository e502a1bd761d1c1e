//! Recoveries one at a time: the same hosts and the same traffic as in a walk, but one fault after the other, each over
//! before the next, so that a figure is that fault's alone.

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::{
    fault::Down,
    report::Report,
    running::{Running, catch_up},
    story::Manner,
    walk::Options,
    watch,
    world::{LANES, MAX_RECORDS},
};
use crate::{
    fault::{Ending, Faults, Proxy, Swallow},
    oracle,
    services::ServiceError,
    settlement::CONSUMER,
};

/// How often each is measured.
const ROUNDS: usize = 5;
/// How often servers go away in each way.
const OUTAGES: usize = 2;
/// How long servers are away: long enough for every back-off to be at its longest.
const AWAY: Duration = Duration::from_secs(25);
/// How long anything may take before it is given up, with a finding.
const PATIENCE: Duration = Duration::from_secs(120);

/// Measures. What did not hold is in the report.
///
/// # Errors
/// Where a server does not start.
///
/// # Panics
/// Where the harness itself fails.
pub async fn measure(options: &Options) -> Result<Report, ServiceError> {
    let running = Running::begin(Manner { copies: 10, rate: 400, ..Manner::of(options.seed) }, options.hosts).await?;
    let calm = Calm(&running);
    let before = calm.delivered_again().await;
    calm.terminations(options.hosts).await;
    let after = calm.delivered_again().await;
    running.hand.world.chronicle.note(format_args!("delivered again by clean shut-downs: {}", after - before));
    if after > before {
        running.hand.world.chronicle.found("a clean shut-down had records delivered again");
    }
    calm.kills(options.hosts).await;
    calm.servers().await;
    calm.half_open().await;
    Ok(running.end(options).await)
}

struct Calm<'a>(&'a Running);

/// Under which words an outage's figures are told.
struct Told {
    not_ready: &'static str,
    first: &'static str,
    all: &'static str,
}

macro_rules! told {
    ($away:literal, $back:literal) => {
        Told {
            not_ready: concat!("last progress → not ready, ", $away),
            first: concat!($back, " → first commit"),
            all: concat!($back, " → all partitions go on"),
        }
    };
}

impl Calm<'_> {
    /// Waits until every partition has a link that began after this moment.
    async fn resumed(&self, what: &'static str, since: f64) {
        let chronicle = &self.0.hand.world.chronicle;
        let mut seen = self.0.hand.seen.clone();
        let resumed = timeout(PATIENCE, seen.wait_for(|seen| seen.oldest() > since)).await;
        match resumed {
            Ok(Ok(seen)) => chronicle.recovered(what, Duration::from_secs_f64((seen.oldest() - since).max(0.0))),
            _ => chronicle.found(format_args!("{what}: not within {} s", PATIENCE.as_secs())),
        }
    }

    /// Waits until somebody has committed a transaction that began after this moment.
    async fn committed(&self, what: &'static str, since: f64) {
        let chronicle = &self.0.hand.world.chronicle;
        let mut seen = self.0.hand.seen.clone();
        let committed = timeout(PATIENCE, seen.wait_for(|seen| seen.newest() > since)).await;
        match committed {
            Ok(Ok(seen)) => chronicle.recovered(what, Duration::from_secs_f64((seen.newest() - since).max(0.0))),
            _ => chronicle.found(format_args!("{what}: not within {} s", PATIENCE.as_secs())),
        }
    }

    /// Has everything consumed while the producer stands still; how many records were delivered more often than published.
    async fn delivered_again(&self) -> i64 {
        let hand = &self.0.hand;
        hand.reins.halt(true);
        while !hand.reins.halted() {
            sleep(Duration::from_millis(50)).await;
        }
        catch_up(hand, Instant::now()).await;
        let consumed = oracle::totals(&hand.world.database, CONSUMER).await.consumed;
        let again = consumed - i64::try_from(hand.reins.published()).unwrap_or(0);
        hand.reins.halt(false);
        again
    }

    async fn terminations(&self, hosts: usize) {
        for round in 0..ROUNDS {
            sleep(Duration::from_secs(2)).await;
            let slot = &self.0.hand.world.hosts[round % hosts];
            let since = watch::now();
            let begun = Instant::now();
            slot.lock().await.terminate().await;
            self.0.hand.world.chronicle.recovered("SIGTERM → process ended", begun.elapsed());
            self.resumed("SIGTERM → all partitions go on", since).await;
            slot.lock().await.start();
            self.resumed("joined again → all partitions go on", watch::now()).await;
        }
    }

    async fn kills(&self, hosts: usize) {
        let chronicle = &self.0.hand.world.chronicle;
        let mut before = self.delivered_again().await;
        let most = i64::try_from(LANES * 2 * MAX_RECORDS).unwrap_or(i64::MAX);
        for round in 0..ROUNDS {
            sleep(Duration::from_secs(2)).await;
            let slot = &self.0.hand.world.hosts[round % hosts];
            let since = watch::now();
            slot.lock().await.kill();
            let what = if round % hosts == 1 {
                "kill -9 (static member) → all partitions go on"
            } else {
                "kill -9 → all partitions go on"
            };
            self.resumed(what, since).await;
            slot.lock().await.start();
            self.resumed("joined again → all partitions go on", watch::now()).await;
            let after = self.delivered_again().await;
            chronicle.note(format_args!("delivered again by a kill: {} (at most {most})", after - before));
            if after - before > most {
                chronicle
                    .found(format_args!("a kill had {} records delivered again, more than {most}", after - before));
            }
            before = after;
        }
    }

    /// Asks the hosts until each of them has said that it is not ready; how long that is after the last progress. Says so of
    /// each, since the slowest one is what a load balancer waits for.
    async fn not_ready(&self, what: &'static str) {
        let world = &self.0.hand.world;
        let begun = Instant::now();
        let mut said = vec![String::new(); world.hosts.len()];
        while begun.elapsed() < PATIENCE {
            let mut ready = 0;
            for (slot, said) in world.hosts.iter().zip(&mut said) {
                let mut slot = slot.lock().await;
                let Some(process) = slot.process() else { continue };
                match process.get("/readyz").await {
                    Some(answer) if answer.status == 200 => {
                        ready += 1;
                        said.clear();
                    }
                    Some(answer) if said.is_empty() => *said = answer.body,
                    _ => {}
                }
            }
            if ready == 0 {
                let last = self.0.hand.seen.borrow().newest();
                world.chronicle.recovered(what, Duration::from_secs_f64((watch::now() - last).max(0.0)));
                let lines = said.iter().enumerate();
                return lines.for_each(|(number, said)| world.chronicle.note(format_args!("host {number}: {said}")));
            }
            sleep(Duration::from_millis(250)).await;
        }
        world.chronicle.found(format_args!("{what}: not within {} s", PATIENCE.as_secs()));
        for (number, slot) in world.hosts.iter().enumerate() {
            let said = slot.lock().await.says().await;
            world.chronicle.note(format_args!("host {number}: {said}"));
        }
    }

    /// Both servers, each down in every way until all back-offs are at their longest.
    async fn servers(&self) {
        let world = &self.0.hand.world;
        for (how, told) in [
            (Down::Stop, told!("database stopped", "database back after 25 s, stopped")),
            (Down::Crash, told!("database crashed", "database back after 25 s, crashed")),
            (Down::Kill, told!("database killed", "database back after 25 s, killed")),
        ] {
            for _ in 0..OUTAGES {
                let down = async || {
                    let mut primary = world.primary.lock().await;
                    tokio::task::block_in_place(|| match how {
                        Down::Stop => primary.server.stop(),
                        Down::Crash => primary.server.crash(),
                        Down::Kill => primary.server.kill(),
                    });
                };
                let up = async || {
                    let mut primary = world.primary.lock().await;
                    tokio::task::block_in_place(|| primary.server.resume())
                };
                self.outage(&told, AWAY, down, up).await;
            }
        }
        for (how, told) in [
            (Down::Stop, told!("broker stopped", "broker back after 25 s, stopped")),
            (Down::Kill, told!("broker killed", "broker back after 25 s, killed")),
        ] {
            for _ in 0..OUTAGES {
                let down =
                    async || world.with_kafka(|kafka| if how == Down::Stop { kafka.stop() } else { kafka.kill() });
                let up = async || world.with_kafka(crate::services::Kafka::resume);
                self.outage(&told, AWAY, down, up).await;
            }
        }
    }

    /// No host hears of the other side any more, and no connection is closed. Then new connections work, and the old ones
    /// stay dead.
    async fn half_open(&self) {
        let world = &self.0.hand.world;
        let links: Vec<&Proxy> = world.links.iter().collect();
        for (proxies, told) in [
            (links, told!("half-open to the database", "database reachable again, old connections dead")),
            (vec![&world.wire], told!("half-open to the broker", "broker reachable again, old connections dead")),
        ] {
            let set = |faults: Faults| proxies.iter().for_each(|proxy| proxy.set(faults));
            let dead = Faults { swallow: Some(Swallow::Both), ..Faults::default() };
            for _ in 0..OUTAGES {
                let down = async || set(dead);
                let up = async || {
                    set(Faults::default());
                    Ok(())
                };
                self.outage(&told, Duration::ZERO, down, up).await;
                proxies.iter().for_each(|proxy| {
                    proxy.cut(Ending::Reset);
                });
            }
        }
    }

    /// Something goes away, is away for so long and until every host has said so, and comes back.
    async fn outage(
        &self,
        told: &Told,
        away: Duration,
        down: impl AsyncFnOnce(),
        up: impl AsyncFnOnce() -> Result<(), ServiceError>,
    ) {
        self.calm().await;
        down().await;
        let since = Instant::now();
        self.not_ready(told.not_ready).await;
        sleep(away.saturating_sub(since.elapsed())).await;
        if let Err(error) = up().await {
            let chronicle = &self.0.hand.world.chronicle;
            return chronicle.found(format_args!("{}: it does not come back: {error}", told.not_ready));
        }
        let back = watch::now();
        self.committed(told.first, back).await;
        self.resumed(told.all, back).await;
    }

    /// Waits until every host is ready, and a little longer: the fault before is over.
    async fn calm(&self) {
        let world = &self.0.hand.world;
        let begun = Instant::now();
        for (number, slot) in world.hosts.iter().enumerate() {
            loop {
                let mut slot = slot.lock().await;
                let Some(process) = slot.process() else { break };
                let answer = process.get("/readyz").await;
                if answer.as_ref().is_some_and(|answer| answer.status == 200) {
                    break;
                }
                if begun.elapsed() > PATIENCE {
                    let said = answer.map_or_else(|| "no answer".to_owned(), |answer| answer.body);
                    let patience = PATIENCE.as_secs();
                    world.chronicle.found(format_args!("host {number} is not ready again within {patience} s: {said}"));
                    break;
                }
                drop(slot);
                sleep(Duration::from_millis(250)).await;
            }
        }
        world.chronicle.recovered("all partitions go on → every host is ready", begun.elapsed());
        sleep(Duration::from_secs(3)).await;
    }
}
