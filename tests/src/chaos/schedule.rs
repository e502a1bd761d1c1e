//! What comes when: a course of faults per actor, drawn from a seed. Pure: the same seed gives the same courses, of
//! which a walk carries out as much as its time allows.

use std::{collections::BTreeSet, time::Duration};

use super::fault::{Actor, Cut, Down, Fault, Reset, Side};
use crate::workload::Random;

/// A pause, and the fault behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How long nothing is done before.
    pub pause: Duration,
    /// What is done then.
    pub fault: Fault,
}

/// Which faults a walk may draw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Kinds to draw, by the beginning of their names; empty = all.
    pub only: BTreeSet<String>,
    /// Kinds that this machine cannot inject.
    pub without: BTreeSet<&'static str>,
}

impl Allowed {
    /// Whether a fault may be drawn.
    #[must_use]
    pub fn has(&self, fault: &Fault) -> bool {
        let kind = fault.kind();
        let wanted = self.only.is_empty() || self.only.iter().any(|stem| kind.starts_with(stem.as_str()));
        wanted && !self.without.contains(kind)
    }
}

/// An actor's steps, without an end.
#[derive(Clone, Debug)]
pub struct Course {
    actor: Actor,
    random: Random,
    allowed: Allowed,
    /// How many times as fast as usual.
    haste: u32,
}

impl Course {
    /// The actor's course under this seed. `haste` divides every pause.
    #[must_use]
    pub fn new(seed: u64, actor: Actor, allowed: Allowed, haste: u32) -> Self {
        let number = match actor {
            Actor::Host(number) => 100 + number as u64,
            Actor::Link(number) => 200 + number as u64,
            Actor::Database => 1,
            Actor::Rival => 2,
            Actor::Broker => 3,
            Actor::Operator => 4,
            Actor::Wire => 5,
        };
        // Neighbouring seeds and numbers must not give neighbouring courses.
        let mut mixed = Random(seed ^ number.wrapping_mul(0xA076_1D64_78BD_642F));
        Self { actor, random: Random(mixed.bits()), allowed, haste: haste.max(1) }
    }

    /// Pauses of this actor, shortest and longest, in milliseconds.
    fn pauses(&self) -> (usize, usize) {
        match self.actor {
            Actor::Host(_) => (500, 7_000),
            Actor::Link(_) => (100, 2_500),
            Actor::Wire => (1_000, 8_000),
            Actor::Rival => (100, 1_500),
            Actor::Database => (3_000, 15_000),
            Actor::Broker => (30_000, 90_000),
            Actor::Operator => (15_000, 60_000),
        }
    }

    fn draw(&mut self) -> Fault {
        match self.actor {
            Actor::Host(_) => self.host(),
            Actor::Link(_) => self.link(),
            Actor::Wire => match self.random.below(4) {
                0..=1 => Fault::Sever(Side::Broker),
                2 => self.delay(Side::Broker),
                _ => Fault::HalfOpen { side: Side::Broker, lasting: self.between(500, 4_000) },
            },
            Actor::Database => self.database(),
            Actor::Rival => self.rival(),
            Actor::Broker => {
                let how = self.pick(&[Down::Stop, Down::Kill]);
                Fault::BrokerDown { how, away: self.between(0, 3_000) }
            }
            Actor::Operator => self.operator(),
        }
    }

    fn host(&mut self) -> Fault {
        match self.random.below(20) {
            roll @ 0..=9 => Fault::Kill { early: roll < 3, away: self.between(0, 1_000) },
            roll @ 10..=13 => Fault::Terminate { early: roll < 11, away: self.between(0, 1_000) },
            14..=18 => Fault::Freeze { asleep: self.between(100, 2_500) },
            _ => Fault::Freeze { asleep: self.between(7_000, 10_000) },
        }
    }

    fn link(&mut self) -> Fault {
        match self.random.below(20) {
            0..=3 => Fault::Sever(Side::Database),
            4..=16 => Fault::CutCommit(self.pick(&[Cut::Before, Cut::During, Cut::After, Cut::After])),
            17 => self.delay(Side::Database),
            _ => Fault::HalfOpen { side: Side::Database, lasting: self.between(500, 4_000) },
        }
    }

    fn delay(&mut self, side: Side) -> Fault {
        Fault::Delay { side, by: self.between(20, 400), lasting: self.between(300, 3_000) }
    }

    fn database(&mut self) -> Fault {
        match self.random.below(10) {
            0..=1 => Fault::DatabaseDown { how: Down::Stop, away: self.between(0, 2_000) },
            2..=3 => Fault::DatabaseDown { how: Down::Crash, away: self.between(0, 2_000) },
            4..=5 => Fault::DatabaseDown { how: Down::Kill, away: self.between(0, 2_000) },
            6..=8 => Fault::Promote { behind: self.between(50, 2_000) },
            _ => Fault::DiskFull { lasting: self.between(500, 3_000) },
        }
    }

    fn rival(&mut self) -> Fault {
        match self.random.below(20) {
            0..=3 => Fault::LockRows { lasting: self.between(100, 3_500) },
            4..=7 => Fault::Deadlock,
            8..=10 => self.refuse("40001"),
            11..=13 => {
                let code = self.pick(&["40P01", "53100", "53200", "55P03", "57014", "58030"]);
                self.refuse(code)
            }
            14 => Fault::NoConnections { lasting: self.between(200, 3_000) },
            15..=17 => Fault::Terminated,
            _ => Fault::Cancelled,
        }
    }

    fn refuse(&mut self, code: &'static str) -> Fault {
        let table = self.pick(&["settlements", "processed_messages", "checkpoints"]);
        Fault::Refuse { code, table, lasting: self.between(20, 800) }
    }

    fn operator(&mut self) -> Fault {
        match self.random.below(12) {
            0..=1 => Fault::AddPartition,
            2..=3 => Fault::ResetOffsets(Reset::Deleted),
            4 => Fault::ResetOffsets(Reset::Back(i64::try_from(1 + self.random.below(2_000)).unwrap_or(1))),
            5 => Fault::ResetOffsets(Reset::ToEnd),
            6..=9 => Fault::ReplacePlugin,
            _ => Fault::RecreateTopic,
        }
    }

    fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.random.below(among.len())]
    }

    fn between(&mut self, least: usize, most: usize) -> Duration {
        Duration::from_millis((least + self.random.below(most - least)) as u64)
    }
}

impl Iterator for Course {
    type Item = Step;

    /// `None` where the actor may do nothing at all.
    fn next(&mut self) -> Option<Step> {
        let (least, most) = self.pauses();
        let pause = self.between(least, most) / self.haste;
        // Drawn again rather than chosen among fewer: leaving a kind out does not change what the others look like.
        for _ in 0..1_000 {
            let fault = self.draw();
            if self.allowed.has(&fault) {
                return Some(Step { pause, fault });
            }
        }
        None
    }
}

/// Everybody who acts in a walk with so many hosts.
#[must_use]
pub fn actors(hosts: usize) -> Vec<Actor> {
    let mut actors = vec![Actor::Database, Actor::Rival, Actor::Broker, Actor::Wire, Actor::Operator];
    actors.extend((0..hosts).flat_map(|number| [Actor::Host(number), Actor::Link(number)]));
    actors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(seed: u64, actor: Actor, allowed: &Allowed) -> Vec<Step> {
        Course::new(seed, actor, allowed.clone(), 1).take(500).collect()
    }

    #[test]
    fn a_seed_gives_the_same_courses_and_another_seed_others() {
        let all = Allowed::default();
        for actor in actors(3) {
            assert_eq!(steps(7, actor, &all), steps(7, actor, &all));
            assert_ne!(steps(7, actor, &all), steps(8, actor, &all), "{actor}");
        }
        assert_ne!(steps(7, Actor::Host(0), &all), steps(7, Actor::Host(1), &all));
    }

    #[test]
    fn every_kind_comes_and_only_what_is_allowed() {
        let kinds = |allowed: &Allowed| -> BTreeSet<&str> {
            actors(3).into_iter().flat_map(|actor| steps(1, actor, allowed)).map(|step| step.fault.kind()).collect()
        };
        let all = kinds(&Allowed::default());
        assert_eq!(all.len(), 32, "{all:#?}");

        let only = Allowed { only: BTreeSet::from(["host: kill".to_owned()]), ..Allowed::default() };
        assert_eq!(kinds(&only), BTreeSet::from(["host: kill -9"]));
        let without = Allowed { without: BTreeSet::from(["database: disk full"]), ..Allowed::default() };
        assert_eq!(kinds(&without).len(), all.len() - 1);
    }
}
