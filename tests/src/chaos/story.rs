//! What is published, and what must come of it. Pure: event `n` of a seed is always the same, so the oracle remembers
//! per event only whether it was published, and how.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    Message,
    workload::{Event, Random},
};

/// What an event is. A function of seed and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// To be applied.
    Good,
    /// The database refuses its row: a dead letter.
    Poison,
    /// The same, and published again later as it should be: applied in the end.
    Corrected,
    /// The plugin rejects it: a dead letter.
    Negative,
    /// Not for this consumer.
    Strange,
    /// No JSON, hence without an id: a dead letter.
    Broken,
}

/// How often a message is published again, and what else a walk's traffic is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// Everything follows from it.
    pub seed: u64,
    /// Of a hundred messages so many are copies of earlier ones.
    pub copies: usize,
    /// Messages a second, as far as the consumers keep up.
    pub rate: usize,
}

impl Manner {
    /// The manner of this seed: 0 to 50 % copies, 200 to 700 messages a second.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut random = Random(seed ^ 0x57A7_1571_C5EE_D000);
        Self { seed, copies: random.below(51), rate: 200 + random.below(501) }
    }
}

/// How many different payments there are; a fifth of all events goes to the first few.
const PAYMENTS: u64 = 5_000;
const HOT: u64 = 12;
/// A correction comes within so many messages.
const SOON: usize = 2_000;
/// A copy is mostly of one of so many latest events.
const RECENT: usize = 1_000;

/// The row's mark by which the database refuses a poison event.
pub const POISON: &str = "poison";

/// Messages one after the other, without an end.
#[derive(Debug)]
pub struct Story {
    manner: Manner,
    random: Random,
    /// Events published, from 0.
    events: u64,
    /// Messages published.
    messages: u64,
    /// Corrections to come: after how many messages, and of which event.
    corrections: VecDeque<(u64, u64)>,
    told: Told,
}

/// Figures about what was published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Messages.
    pub messages: u64,
    /// Of these, copies of earlier ones.
    pub copies: u64,
    /// Events that the database refuses.
    pub poison: u64,
    /// Events that the plugin rejects, and messages that are no events.
    pub rejected: u64,
    /// Messages without an id.
    pub broken: u64,
    /// Messages for others.
    pub strange: u64,
}

/// What the tables must hold once everything that was published is consumed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Per payment, the sum of its events in hundredths.
    pub sums: BTreeMap<String, i64>,
    /// How many ids the ledger has.
    pub applied: usize,
    /// Ids that are open dead letters.
    pub dead: Vec<String>,
    /// Dead letters without an id.
    pub broken: u64,
}

fn mix(seed: u64, number: u64, salt: u64) -> u64 {
    Random(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ salt).bits()
}

impl Story {
    /// The story told in this manner.
    #[must_use]
    pub fn new(manner: Manner) -> Self {
        let random = Random(manner.seed ^ 0x7E11);
        Self { manner, random, events: 0, messages: 0, corrections: VecDeque::new(), told: Told::default() }
    }

    /// So far.
    #[must_use]
    pub fn told(&self) -> Told {
        self.told
    }

    fn kind(&self, number: u64) -> Kind {
        match mix(self.manner.seed, number, 1) % 2_000 {
            0..=1 => Kind::Poison,
            2..=3 => Kind::Corrected,
            4..=7 => Kind::Negative,
            8..=12 => Kind::Strange,
            13..=16 => Kind::Broken,
            _ => Kind::Good,
        }
    }

    fn payment(&self, number: u64) -> u64 {
        let roll = mix(self.manner.seed, number, 2);
        if roll.is_multiple_of(5) { roll / 5 % HOT } else { roll / 5 % PAYMENTS }
    }

    fn event(&self, number: u64) -> Event {
        let payment = self.payment(number);
        Event {
            event_id: self.id(number),
            order_id: format!("order-{payment}"),
            payment_id: format!("payment-{payment}"),
            version: i64::try_from(number).unwrap_or(i64::MAX),
            cents: self.cents(number),
            at: i64::try_from(number % 2_000_000).unwrap_or(0),
        }
    }

    fn id(&self, number: u64) -> String {
        format!("evt-{:x}-{number}", self.manner.seed)
    }

    fn cents(&self, number: u64) -> i64 {
        i64::try_from(mix(self.manner.seed, number, 3) % 100_000).unwrap_or(0) + 1
    }

    /// The event as it is published: at first, or corrected.
    fn message(&self, number: u64, corrected: bool) -> Message {
        let mut event = self.event(number);
        match self.kind(number) {
            Kind::Good => {}
            Kind::Corrected if corrected => {}
            Kind::Poison | Kind::Corrected => event.order_id = format!("{POISON}-{}", event.order_id),
            Kind::Negative => {
                let json = event.json().replace("\"amount\":", "\"amount\":-");
                return Message::new(json).key(event.order_id);
            }
            Kind::Strange => {
                return Message::new(event.json().replace("\"payment.", "\"parcel.")).key(event.order_id);
            }
            Kind::Broken => {
                let mut json = event.json();
                json.truncate(json.len() / 2);
                return Message::new(json).key(event.order_id);
            }
        }
        event.message()
    }

    /// The next message, for one of so many partitions.
    pub fn next(&mut self, partitions: usize) -> Message {
        self.messages += 1;
        self.told.messages += 1;
        let any = self.random.below(partitions);
        let to = |message: Message, partition: usize| message.to(i32::try_from(partition).unwrap_or(0));
        if self.corrections.front().is_some_and(|(due, _)| *due <= self.messages)
            && let Some((_, number)) = self.corrections.pop_front()
        {
            return to(self.message(number, true), any);
        }
        if self.events > 0 && self.random.below(100) < self.manner.copies {
            let recent = usize::try_from(self.events).unwrap_or(usize::MAX).min(RECENT);
            let back = if self.random.below(20) == 0 {
                self.random.bits() % self.events
            } else {
                self.random.below(recent) as u64
            };
            let number = self.events - 1 - back;
            // A copy without an id is another input without an id; a poison one stays what it was first.
            if self.kind(number) != Kind::Broken {
                self.told.copies += 1;
                if self.kind(number) == Kind::Strange {
                    self.told.strange += 1;
                }
                return to(self.message(number, false), any);
            }
        }
        let number = self.events;
        self.events += 1;
        match self.kind(number) {
            Kind::Good => {}
            Kind::Poison => self.told.poison += 1,
            Kind::Corrected => {
                self.told.poison += 1;
                let due = self.messages + 1 + self.random.below(SOON) as u64;
                let at = self.corrections.partition_point(|(other, _)| *other <= due);
                self.corrections.insert(at, (due, number));
            }
            Kind::Negative => self.told.rejected += 1,
            Kind::Strange => self.told.strange += 1,
            Kind::Broken => {
                self.told.rejected += 1;
                self.told.broken += 1;
            }
        }
        // A payment's events share a partition, but now and then one comes another way: then two hosts write one row.
        let home = usize::try_from(self.payment(number)).unwrap_or(0) % partitions;
        let partition = if self.random.below(20) == 0 { any } else { home };
        to(self.message(number, false), partition)
    }

    /// The corrections that are still to come: a story that ends publishes them all.
    pub fn ending(&mut self, partitions: usize) -> Vec<Message> {
        let due = std::mem::take(&mut self.corrections);
        self.told.messages += due.len() as u64;
        let mut messages = Vec::with_capacity(due.len());
        for (_, number) in due {
            let partition = i32::try_from(self.random.below(partitions)).unwrap_or(0);
            messages.push(self.message(number, true).to(partition));
        }
        messages
    }

    /// What must come of everything so far, once [`Self::ending`] is published too.
    #[must_use]
    pub fn expected(&self) -> Expected {
        let mut expected = Expected { broken: self.told.broken, ..Expected::default() };
        for number in 0..self.events {
            match self.kind(number) {
                Kind::Good | Kind::Corrected => {
                    expected.applied += 1;
                    let payment = format!("payment-{}", self.payment(number));
                    *expected.sums.entry(payment).or_default() += self.cents(number);
                }
                Kind::Poison | Kind::Negative => expected.dead.push(self.id(number)),
                Kind::Strange | Kind::Broken => {}
            }
        }
        expected
    }

    /// Whether an id of the ledger is one that had to be applied.
    #[must_use]
    pub fn applies(&self, id: &str) -> bool {
        let number = id.strip_prefix(&format!("evt-{:x}-", self.manner.seed)).and_then(|rest| rest.parse().ok());
        number.is_some_and(|number| number < self.events && matches!(self.kind(number), Kind::Good | Kind::Corrected))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What a consumer without faults makes of the messages: sums, and ids that were refused to the end.
    fn consumed(messages: &[Message]) -> (BTreeMap<String, i64>, BTreeSet<String>, usize) {
        let (mut sums, mut applied, mut dead) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        for message in messages {
            let Ok(event) = serde_json::from_slice::<serde_json::Value>(message.payload.as_deref().unwrap()) else {
                continue;
            };
            let id = event["event_id"].as_str().unwrap().to_owned();
            let cents = (event["amount"].as_f64().unwrap() * 100.0).round();
            if !event["type"].as_str().unwrap().starts_with("payment.") || applied.contains(&id) {
                continue;
            }
            if event["order_id"].as_str().unwrap().starts_with(POISON) || cents < 0.0 {
                dead.insert(id);
                continue;
            }
            dead.remove(&id);
            applied.insert(id);
            #[allow(clippy::cast_possible_truncation, reason = "at most 100,000")]
            let cents = cents as i64;
            *sums.entry(event["payment_id"].as_str().unwrap().to_owned()).or_default() += cents;
        }
        (sums, dead, applied.len())
    }

    #[test]
    fn what_is_expected_is_what_a_consumer_without_faults_makes_of_it() {
        for copies in [0, 30] {
            let mut story = Story::new(Manner { seed: 5, copies, rate: 1 });
            let mut messages: Vec<_> = (0..30_000).map(|_| story.next(6)).collect();
            messages.extend(story.ending(6));
            let expected = story.expected();
            let (sums, dead, applied) = consumed(&messages);
            assert_eq!(expected.sums, sums);
            assert_eq!(expected.dead.iter().cloned().collect::<BTreeSet<_>>(), dead);
            assert_eq!(expected.applied, applied);
            let told = story.told();
            assert_eq!(told.messages, messages.len() as u64);
            assert!(told.poison > 20 && told.broken > 20 && told.strange > 20, "{told:?}");
            assert_eq!(told.copies > 0, copies > 0);
        }
    }

    #[test]
    fn manners_differ() {
        let copies: BTreeSet<_> = (0..100).map(|seed| Manner::of(seed).copies).collect();
        assert!(copies.len() > 30 && copies.last() <= Some(&50), "{copies:?}");
    }
}
