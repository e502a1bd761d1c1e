//! Hosts that are killed or frozen at every fail point of the path, under a load of everything that a topic may hold.

mod load;
mod scene;

use std::{fmt, sync::Arc, time::Duration};

use tidegate::fail_point::{Action, FailPoint};
use tokio::time::sleep;

use self::{load::Load, scene::Scene};
use crate::{
    host::{Armed, HostProcess},
    servers::Servers,
    wait,
    workload::Random,
};

/// Partitions of the topic.
const PARTITIONS: usize = 6;
/// So many records later a point should have been reached.
const FAR: i64 = 60_000;

/// What came of killing a host at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointFigures {
    /// Where.
    pub point: FailPoint,
    /// How often a host died there.
    pub kills: usize,
}

/// What came of [`kill_at_every_point`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// In the order of the path.
    pub points: Vec<PointFigures>,
    /// Records published.
    pub records: i64,
    /// Records that came again.
    pub again: i64,
    /// Those of them that the group was put back over on purpose.
    pub put_back: i64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<20} {:>6}", "fail point", "kills")?;
        for PointFigures { point, kills } in &self.points {
            writeln!(f, "{:<20} {kills:>6}", point.name())?;
        }
        let (again, put_back) = (self.again, self.put_back);
        write!(f, "{} records, {again} again ({put_back} put back), 0 lost, 0 applied twice", self.records)
    }
}

/// Kills a host `rounds` times at each fail point, starting another one after each, and holds in the end that nothing was
/// lost or applied twice.
///
/// # Panics
/// Where anything was lost or applied twice, where an offset was committed that no transaction covers, where a kill left
/// more to come again than two batches of each lane, or where a point is never reached.
pub async fn kill_at_every_point(servers: &Servers, rounds: usize, seed: u64) -> Figures {
    let mut kills = kill_at_geneses(servers, rounds, seed).await;
    let (mut put_back, mut left) = (0, 0);
    let scene = Arc::new(Scene::new(servers, PARTITIONS).await);
    let load = Load::start(&scene, seed);
    let mut random = Random(seed);
    for round in 1..=rounds {
        for &point in FailPoint::ALL.iter().filter(|&&point| point != FailPoint::GenesisWritten) {
            if point == FailPoint::ChainMoved {
                // What moves a chain is an operator.
                put_back += scene.put_back().await;
            }
            let hit = 1 + random.below(most_hits(point)) as u64;
            left += kill(&scene, point, hit, round).await;
            kills.push(point);
        }
    }
    let expected = load.stop().await;
    let mut host = HostProcess::start("the last", &scene.known_member());
    host.alive_during(scene.until_consumed()).await;
    host.terminate();
    assert_eq!(host.wait().code(), Some(0), "{}", host.log());
    let again = scene.assert_each_applied_once(&expected).await;
    assert_eq!(scene.behind().await, 0, "the last host has committed everything");
    let fits = (put_back..=put_back + left).contains(&again);
    assert!(fits, "{again} records came again; {put_back} were put back, and the deaths left {left}");

    let of = |point| PointFigures { point, kills: kills.iter().filter(|&&killed| killed == point).count() };
    let figures = Figures {
        points: FailPoint::ALL.iter().map(|&point| of(point)).collect(),
        records: expected.records,
        again,
        put_back,
    };
    let rare: Vec<_> = figures.points.iter().filter(|figures| figures.kills < rounds).collect();
    assert!(rare.is_empty(), "reached fewer than {rounds} times: {rare:?}");
    figures
}

/// A host is armed for one of its first so many hits.
fn most_hits(point: FailPoint) -> usize {
    use FailPoint as P;
    match point {
        // Once in a host's life, or once in a while.
        P::Assigned | P::ChainMoved | P::GenesisWritten | P::StopDrained | P::StopCommitted => 1,
        P::RevokeBegun | P::RevokeDrained | P::RevokeCommitted | P::TakenBack => 1,
        P::SavepointSet | P::BeforeRelease | P::SavepointUndone => 8,
        _ => 6,
    }
}

/// Says how many records the group has not heard of: they come again.
async fn kill(scene: &Scene, point: FailPoint, hit: u64, round: usize) -> i64 {
    use FailPoint as P;
    let name = format!("round {round}, {} hit {hit}", point.name());
    let armed = Armed { point, hit, action: Action::Kill };
    let mut host = HostProcess::start_armed(&name, &scene.known_member(), armed);
    let intruder = match point {
        P::RevokeBegun | P::RevokeDrained | P::RevokeCommitted => {
            // With all partitions, so that it has to give some of them back.
            let share = async || host.metric("tidegate_assigned_partitions").await;
            let all = scene.partitions as f64;
            wait::until("the host has all partitions", share, |share| *share == Some(all)).await;
            goes_on(scene, &mut host).await;
            Some(scene.intruder())
        }
        P::StopDrained | P::StopCommitted => {
            goes_on(scene, &mut host).await;
            host.terminate();
            None
        }
        _ => None,
    };
    until_dead(scene, &mut host, point).await;
    // It was a member still when the host died, so that the group has moved on without the host.
    drop(intruder);
    let behind = scene.behind().await;
    eprintln!("{name}: the group is {behind} behind");
    // What an operator puts it back over is less.
    assert!(behind <= Scene::AT_MOST_AGAIN, "{name}: {behind} records come again");
    behind
}

/// Waits until the host works.
async fn goes_on(scene: &Scene, host: &mut HostProcess) {
    let before = scene.totals().await.consumed;
    let begun = wait::until("the host goes on", async || scene.totals().await.consumed, |&now| now > before);
    host.alive_during(begun).await;
}

/// Waits until the host has killed itself.
async fn until_dead(scene: &Scene, host: &mut HostProcess, point: FailPoint) {
    let before = scene.totals().await.consumed;
    let what = format!("the host dies at {}", point.name());
    let mut running = true;
    let dead = wait::until(
        &what,
        async || {
            // A host dies soon or hardly ever: asked more often than the database.
            for _ in 0..100 {
                running = host.is_running();
                if !running {
                    break;
                }
                sleep(Duration::from_millis(5)).await;
            }
            (running, scene.totals().await.consumed)
        },
        |&(running, consumed)| !running || consumed > before + FAR,
    );
    let (_, consumed) = dead.await;
    let log = host.log();
    assert!(
        log.contains(&format!("fail point {}: armed", point.name())),
        "built without fail points; `make build`: {log}"
    );
    assert!(!running, "{} was not reached within {} records", point.name(), consumed - before);
    host.assert_killed();
    assert!(log.contains(&format!("fail point {}: reached", point.name())), "it died elsewhere: {log}");
}

/// Kills hosts while they begin the chains of a topic that nobody has read yet.
async fn kill_at_geneses(servers: &Servers, rounds: usize, seed: u64) -> Vec<FailPoint> {
    let scene = Arc::new(Scene::new(servers, rounds + 1).await);
    let load = Load::start(&scene, seed);
    let mut kills = Vec::new();
    for round in 1..=rounds {
        kill(&scene, FailPoint::GenesisWritten, 1, round).await;
        kills.push(FailPoint::GenesisWritten);
    }
    let expected = load.stop().await;
    let mut host = HostProcess::start("the last", &scene.known_member());
    host.alive_during(scene.until_consumed()).await;
    host.terminate();
    assert_eq!(host.wait().code(), Some(0), "{}", host.log());
    assert_eq!(scene.assert_each_applied_once(&expected).await, 0, "nothing was consumed before the last host");
    kills
}

/// Freezes a host at a point, with what it has in hand, until another one has its partitions and the group has settled;
/// then lets it go on. Holds that nothing was lost or applied twice, and that the frozen one becomes a good member again.
///
/// # Panics
/// Where that is not so.
pub async fn freeze_at(point: FailPoint, seed: u64) {
    let scene = Arc::new(Scene::new(&Servers::given(), PARTITIONS).await);
    // A frozen member is gone after two seconds; and it oversleeps the poll interval too.
    let setup = scene.setup().with_kafka("max.poll.interval.ms", "4000");
    let load = Load::start(&scene, seed);
    let armed = Armed { point, hit: 5, action: Action::Stop };
    let mut sleeper = HostProcess::start_armed("sleeper", &setup, armed);
    let frozen =
        wait::until("the host is frozen", async || (sleeper.is_frozen(), scene.covered().await), |(frozen, _)| *frozen);
    frozen.await;
    assert!(sleeper.log().contains(&format!("fail point {}: reached", point.name())), "{}", sleeper.log());

    let mut other = HostProcess::start("other", &setup);
    // All that was published by now lies in front of the other one, or of the sleeper until the other one has all.
    other.alive_during(scene.until_consumed()).await;
    let now = scene.covered().await;
    let alone =
        wait::until("the other goes on alone", async || scene.covered().await, |&covered| covered > now + 2_000);
    other.alive_during(alone).await;
    assert!(sleeper.is_frozen(), "it has slept through all this");
    sleeper.thaw();
    // What it has in hand is not its own any more. It rejoins, and both share the work.
    let all = PARTITIONS as f64;
    let share = async |host: &HostProcess| host.metric("tidegate_assigned_partitions").await.unwrap_or_default();
    let shares = async || (share(&sleeper).await, share(&other).await, scene.covered().await);
    let shared = |&(one, two, _): &(f64, f64, i64)| one > 0.0 && two > 0.0 && one + two <= all;
    wait::until("both have partitions", shares, shared).await;
    let before = scene.positions().await;
    let moves = |at: &Vec<i64>| at.iter().zip(&before).all(|(at, before)| at > before);
    wait::until("both go on", async || scene.positions().await, moves).await;

    let expected = load.stop().await;
    other.alive_during(scene.until_consumed()).await;
    for host in [&mut sleeper, &mut other] {
        assert!(host.is_running(), "a fenced host rejoins, it does not give up");
        host.terminate();
        assert_eq!(host.wait().code(), Some(0), "{}", host.log());
    }
    scene.assert_each_applied_once(&expected).await;
    scene.behind().await;
}

/// Members join and leave, and hosts are asked to end, under load: not one record may come twice.
///
/// # Panics
/// Where one does.
pub async fn part_in_peace(rounds: usize, seed: u64) {
    let scene = Arc::new(Scene::new(&Servers::given(), PARTITIONS).await);
    // A member that a busy machine keeps from its heartbeats has not parted in peace.
    let setup = scene.setup().with_kafka("session.timeout.ms", "30000");
    let load = Load::start(&scene, seed);
    // Kept for their logs.
    let mut ended = Vec::new();
    for round in 1..=rounds {
        let mut host = HostProcess::start(&format!("round {round}"), &setup);
        goes_on(&scene, &mut host).await;
        let intruder = scene.intruder();
        let taken =
            wait::until("a rebalance", async || (intruder.partitions(), scene.covered().await), |(n, _)| *n > 0);
        host.alive_during(taken).await;
        intruder.leave();
        goes_on(&scene, &mut host).await;
        host.terminate();
        assert_eq!(host.wait().code(), Some(0), "{}", host.log());
        assert_eq!(scene.behind().await, 0, "round {round}: the group knows what the database knows");
        ended.push(host);
    }
    let expected = load.stop().await;
    let mut host = HostProcess::start("the last", &setup);
    host.alive_during(scene.until_consumed()).await;
    host.terminate();
    assert_eq!(host.wait().code(), Some(0), "{}", host.log());
    assert_eq!(scene.assert_each_applied_once(&expected).await, 0, "records came again");
}
