//! The story that the producer tells: orders that are placed, paid and shipped, in two topics, from a seed. About a
//! tenth of the events is published again, a few are broken, and the [`Oracle`] keeps what each consumer should make
//! of it.

use std::{collections::BTreeMap, mem};

use super::{
    event::{Event, Life},
    oracle::{Effect, Oracle, What},
    random::Random,
};

/// A topic of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Feed {
    /// What happens to orders.
    Orders,
    /// What happens to payments.
    Payments,
}

impl Feed {
    pub(super) const ALL: [Self; 2] = [Self::Orders, Self::Payments];

    /// Its share of the records, roughly.
    pub(super) fn percent(self) -> u64 {
        match self {
            Self::Orders => 58,
            Self::Payments => 42,
        }
    }

    /// Its name, where nobody else has a topic of that name.
    pub(super) fn topic(self) -> &'static str {
        match self {
            Self::Orders => "order.events",
            Self::Payments => "payment.events",
        }
    }
}

/// A record to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Publication {
    pub(super) feed: Feed,
    pub(super) partition: i32,
    pub(super) key: String,
    pub(super) payload: Option<Vec<u8>>,
    pub(super) what: What,
}

/// Orders that are under way at a time.
const UNDER_WAY: usize = 40;
/// In so many events, each irregularity happens once in each topic.
const CYCLE: u64 = 1_000;
const IRREGULARITIES: [Irregularity; 6] = [
    Irregularity::BrokenJson,
    Irregularity::MissingId,
    Irregularity::OtherPayload,
    Irregularity::Tombstone,
    Irregularity::UnknownType,
    Irregularity::Corrected,
];

#[derive(Clone, Copy, Debug)]
enum Irregularity {
    BrokenJson,
    MissingId,
    /// The id of an event before it, with another payload.
    OtherPayload,
    Tombstone,
    UnknownType,
    /// Refused by the plugins, and published again at the end as it should have been.
    Corrected,
}

/// An endless, repeatable sequence of publications.
#[derive(Debug)]
pub(super) struct Story {
    random: Random,
    partitions: i32,
    under_way: Vec<Life>,
    orders: u64,
    events: u64,
    begun_ms: i64,
    /// By the number of the event after which they are due.
    held_back: BTreeMap<u64, Vec<Publication>>,
    corrections: Vec<Publication>,
    /// The newest regular event of each topic.
    last: BTreeMap<Feed, (Publication, Event)>,
    oracle: Oracle,
}

impl Story {
    /// `begun_ms` is the time of its first event, in milliseconds since the epoch.
    pub(super) fn new(seed: u64, partitions: i32, begun_ms: i64) -> Self {
        Self {
            random: Random::new(seed),
            partitions: partitions.max(1),
            under_way: Vec::new(),
            orders: 0,
            events: 0,
            begun_ms,
            held_back: BTreeMap::new(),
            corrections: Vec::new(),
            last: BTreeMap::new(),
            oracle: Oracle::default(),
        }
    }

    /// What each consumer should make of all that was given out so far.
    pub(super) fn oracle(&self) -> &Oracle {
        &self.oracle
    }

    /// The next event, and whatever was held back until now.
    pub(super) fn next_event(&mut self) -> Vec<Publication> {
        self.events += 1;
        let slot = self.events % CYCLE;
        let every = CYCLE / 2 / u64::try_from(IRREGULARITIES.len()).unwrap_or(1);
        let first = match self.irregularity(slot, every) {
            Some((feed, irregularity)) => self.irregular(feed, irregularity),
            None => self.regular(),
        };
        let mut out = vec![first];
        let later = self.held_back.split_off(&(self.events + 1));
        out.extend(mem::replace(&mut self.held_back, later).into_values().flatten());
        self.told(out)
    }

    /// What is still held back.
    pub(super) fn close(&mut self) -> Vec<Publication> {
        let out = mem::take(&mut self.held_back).into_values().flatten().collect();
        self.told(out)
    }

    /// The events that were broken, as they should have been. To be published once every consumer has met the broken
    /// ones: of a broken event and its correction in one batch, the broken one would count as the other's duplicate.
    pub(super) fn corrections(&mut self) -> Vec<Publication> {
        let out = mem::take(&mut self.corrections);
        self.told(out)
    }

    fn told(&mut self, publications: Vec<Publication>) -> Vec<Publication> {
        publications.iter().for_each(|p| self.oracle.published(p.feed, p.what));
        publications
    }

    fn irregularity(&self, slot: u64, every: u64) -> Option<(Feed, Irregularity)> {
        // The slots alternate between the topics.
        let number = slot.is_multiple_of(every).then_some(slot / every)?;
        let feed = Feed::ALL[usize::try_from(number % 2).ok()?];
        let kind = IRREGULARITIES[usize::try_from(number / 2).ok()? % IRREGULARITIES.len()];
        self.last.contains_key(&feed).then_some((feed, kind))
    }

    fn now_ms(&self) -> i64 {
        self.begun_ms + i64::try_from(self.events).unwrap_or(0) * 20
    }

    fn new_order(&mut self) -> Life {
        self.orders += 1;
        Life::new(10_000 + self.orders, &mut self.random)
    }

    /// The next event of an order under way; one in ten is published again, some twice.
    fn regular(&mut self) -> Publication {
        if self.under_way.is_empty() || (self.under_way.len() < UNDER_WAY && self.random.chance(1, 3)) {
            let order = self.new_order();
            self.under_way.push(order);
        }
        let at = self.random.index(self.under_way.len());
        let now = self.now_ms();
        let event = self.under_way[at].next_event(now);
        if self.under_way[at].is_over() {
            self.under_way.swap_remove(at);
        }
        let publication = self.publication(&event, What::First(event.effect));
        while self.random.chance(1, 11) {
            self.repeat(&publication, event.effect);
        }
        self.last.insert(publication.feed, (publication.clone(), event));
        publication
    }

    fn publication(&self, event: &Event, what: What) -> Publication {
        let partition = i32::try_from(event.object % u64::from(self.partitions.unsigned_abs())).unwrap_or(0);
        Publication { feed: event.feed, partition, key: event.key(), payload: Some(event.json()), what }
    }

    /// The same bytes once more: soon, later, or at the very end; one in three in another partition.
    fn repeat(&mut self, publication: &Publication, effect: Effect) {
        let distance = match self.random.below(10) {
            0..6 => self.random.below(20),
            6..9 => 20 + self.random.below(2_000),
            _ => 1 << 40,
        };
        let mut copy = Publication { what: What::Again(effect), ..publication.clone() };
        if self.random.chance(1, 3) {
            let step = 1 + i32::try_from(self.random.below(u64::from(self.partitions.unsigned_abs() - 1))).unwrap_or(0);
            copy.partition = (copy.partition + step) % self.partitions;
        }
        self.hold_back(distance, copy);
    }

    fn hold_back(&mut self, distance: u64, publication: Publication) {
        self.held_back.entry(self.events + distance).or_default().push(publication);
    }

    fn irregular(&mut self, feed: Feed, irregularity: Irregularity) -> Publication {
        let now = self.now_ms();
        let extra = self.new_order().only_event(feed, now);
        let mut broken = self.publication(&extra, What::Dead);
        match irregularity {
            Irregularity::BrokenJson => {
                if let Some(payload) = &mut broken.payload {
                    payload.truncate(payload.len() / 2);
                }
            }
            Irregularity::MissingId => broken.payload = Some(extra.json_without_id()),
            Irregularity::OtherPayload => {
                // Behind the first in the same partition: which of the two counts is then no race.
                let (first, event) = &self.last[&feed];
                let payload = Some(event.json_with_other_amount());
                broken = Publication { payload, what: What::Conflict(event.effect), ..first.clone() };
            }
            Irregularity::Tombstone => (broken.payload, broken.what) = (None, What::Skipped),
            Irregularity::UnknownType => {
                (broken.payload, broken.what) = (Some(extra.json_of_unknown_type()), What::Skipped);
            }
            Irregularity::Corrected => {
                self.corrections.push(Publication { what: What::Corrected(extra.effect), ..broken.clone() });
                broken.payload = Some(extra.json_with_bad_amount());
            }
        }
        broken
    }
}

#[cfg(test)]
#[path = "story_test.rs"]
mod tests;
