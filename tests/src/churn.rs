//! Churn: every second a host joins, leaves, is killed, falls asleep for longer than its group waits, or wakes up as a zombie
//! with a batch in hand. However they come and go, each record is applied once, and few come again.

use std::{collections::BTreeMap, sync::Arc};

use tokio::time::{Duration, sleep};

use crate::{
    host::{HostProcess, Protocol, Setup},
    payments::{Load, Payments},
    servers::Servers,
    workload::{Random, Workload},
};

/// So many hosts at most.
const HOSTS: usize = 3;
/// How many steps a host sleeps: longer than the session and than `max.poll.interval.ms`.
const ASLEEP: usize = 4;
/// Enough for two minutes; what is not needed is never published.
const EVENTS: Workload = Workload { messages: 600_000, seed: 21 };

/// One host's place.
#[derive(Default)]
enum Place {
    #[default]
    Empty,
    Awake(HostProcess),
    /// Until this step.
    Asleep(HostProcess, usize),
    /// Asked to go, and not yet gone.
    Leaving(HostProcess),
}

/// The three places, and how often what happened.
struct Churn {
    setup: Setup,
    places: [Place; HOSTS],
    started: usize,
    happened: Vec<(usize, usize, &'static str)>,
}

/// Steps that are something done to a host.
pub const FAULTS: [&str; 3] = ["is killed", "is asked to leave", "falls asleep"];

/// What came of a churn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Happened {
    /// How often what was done to a host.
    pub steps: BTreeMap<&'static str, u64>,
    /// Records published, and consumed.
    pub records: u64,
}

impl Churn {
    fn awake(&self) -> usize {
        self.places.iter().filter(|place| matches!(place, Place::Awake(_))).count()
    }

    fn join(&mut self) -> Place {
        self.started += 1;
        Place::Awake(HostProcess::start(&format!("host {}", self.started), &self.setup))
    }

    /// One thing happens at one of the places.
    fn step(&mut self, step: usize, random: &mut Random) {
        let at = random.below(HOSTS);
        let place = std::mem::take(&mut self.places[at]);
        let spare = self.awake() > 0;
        let (what, now) = match place {
            Place::Empty => ("joins", self.join()),
            Place::Leaving(mut host) => {
                if host.is_running() {
                    ("is still leaving", Place::Leaving(host))
                } else {
                    left(&mut host);
                    ("is gone and one joins", self.join())
                }
            }
            Place::Asleep(host, until) if step < until => ("sleeps on", Place::Asleep(host, until)),
            Place::Asleep(host, _) => {
                host.thaw();
                ("wakes up", Place::Awake(host))
            }
            // Somebody has to do the work.
            Place::Awake(host) if !spare => ("is the last one and stays", Place::Awake(host)),
            Place::Awake(mut host) => match random.below(3) {
                0 => {
                    host.kill();
                    ("is killed", Place::Empty)
                }
                1 => {
                    host.terminate();
                    ("is asked to leave", Place::Leaving(host))
                }
                _ => {
                    host.freeze();
                    ("falls asleep", Place::Asleep(host, step + ASLEEP))
                }
            },
        };
        self.places[at] = now;
        self.happened.push((step, at, what));
    }

    /// All wake up, and those that were leaving are gone.
    fn calm(&mut self) {
        for place in &mut self.places {
            *place = match std::mem::take(place) {
                Place::Asleep(host, _) => {
                    host.thaw();
                    Place::Awake(host)
                }
                Place::Leaving(mut host) => {
                    left(&mut host);
                    Place::Empty
                }
                other => other,
            };
        }
        if self.awake() == 0 {
            self.places[0] = self.join();
        }
    }
}

fn left(host: &mut HostProcess) {
    let status = host.wait();
    assert_eq!(status.code(), Some(0), "{}", host.log());
}

/// Lets hosts come and go for so many seconds, and holds in the end that nothing was lost or applied twice.
///
/// # Panics
/// Where anything was, where a host does not end well, or where nothing moves any more.
pub async fn churn(servers: &Servers, protocol: Protocol, steps: usize, seed: u64) -> Happened {
    let payments = Arc::new(Payments::new(servers.broker(), servers.database().await, 6).await);
    let load = Load::start(&payments, EVENTS.events());
    let mut random = Random(seed);
    let setup = payments.setup().with_kafka("max.poll.interval.ms", "2500").under(protocol);
    let mut churn = Churn { setup, places: Default::default(), started: 0, happened: Vec::new() };
    // The first is there, whatever the dice say.
    churn.places[0] = churn.join();
    for step in 0..steps {
        churn.step(step, &mut random);
        sleep(Duration::from_secs(1)).await;
    }
    churn.happened.iter().for_each(|(step, at, what)| eprintln!("{step}: {at} {what}"));
    assert!(!load.has_run_out(), "the load ended before the churn");
    let events = load.stop().await;
    churn.calm();
    payments.until_consumed().await;
    payments.until_committed().await;
    for place in churn.places {
        let Place::Awake(mut host) = place else { continue };
        assert!(host.is_running(), "a host that lost its partitions rejoins, it does not give up");
        host.terminate();
        left(&mut host);
    }
    // A host that leaves has committed. One that died or slept has not told Kafka of its last batches.
    payments.assert_each_applied_once_and_little_came_again(&events, None).await;
    let mut happened = Happened { records: events.len() as u64, ..Happened::default() };
    for (_, _, what) in churn.happened {
        *happened.steps.entry(what).or_default() += 1;
    }
    happened
}
