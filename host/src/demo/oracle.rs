//! What the producer knows was to come of it: kept while publishing, compared with the database at the end.

use std::collections::BTreeMap;

use super::{service::Service, story::Feed};

/// How many figures a service has at most; see [`Service::totals`].
pub(super) const TOTALS: usize = 4;

/// What an event, applied once, adds to a service's totals; `None` = the event is not for that service.
pub(super) type Deltas = Option<[i64; TOTALS]>;

/// What an event does at each service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effect {
    pub(super) settlement: Deltas,
    pub(super) order_summary: Deltas,
}

impl Effect {
    fn at(&self, service: Service) -> Deltas {
        match service {
            Service::Settlement => self.settlement,
            Service::OrderSummary => self.order_summary,
        }
    }
}

/// What a record is, as its producer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A valid event for the first time.
    First(Effect),
    /// The same bytes as one before.
    Again(Effect),
    /// The id of one before it in its partition, and another payload.
    Conflict(Effect),
    /// An event that came broken before, as it should have been.
    Corrected(Effect),
    /// No consumer can apply it.
    Dead,
    /// No consumer wants it.
    Skipped,
}

/// What one consumer should have made of it all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) applied: i64,
    pub(super) duplicate: i64,
    pub(super) skipped: i64,
    pub(super) dead: i64,
    pub(super) superseded: i64,
    pub(super) conflicts: i64,
    /// In the order of [`Service::totals`].
    pub(super) totals: [i64; TOTALS],
}

impl Expected {
    fn apply(&mut self, deltas: [i64; TOTALS]) {
        self.applied += 1;
        self.totals.iter_mut().zip(deltas).for_each(|(total, delta)| *total += delta);
    }

    fn meet(&mut self, what: What, service: Service) {
        let deltas = match what {
            What::First(e) | What::Again(e) | What::Conflict(e) | What::Corrected(e) => e.at(service),
            What::Dead => return self.dead += 1,
            What::Skipped => None,
        };
        let Some(deltas) = deltas else { return self.skipped += 1 };
        match what {
            What::First(_) => self.apply(deltas),
            What::Corrected(_) => {
                self.apply(deltas);
                self.superseded += 1;
            }
            What::Conflict(_) => {
                self.duplicate += 1;
                self.conflicts += 1;
            }
            What::Again(_) => self.duplicate += 1,
            What::Dead | What::Skipped => {}
        }
    }
}

/// Everything that was published, summed up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Oracle {
    published: BTreeMap<Feed, i64>,
    services: BTreeMap<Service, Expected>,
}

impl Oracle {
    /// One more record.
    pub(super) fn published(&mut self, feed: Feed, what: What) {
        *self.published.entry(feed).or_default() += 1;
        for service in Service::ALL.into_iter().filter(|s| s.feeds().contains(&feed)) {
            self.services.entry(service).or_default().meet(what, service);
        }
    }

    /// Records published to this topic.
    pub(super) fn published_to(&self, feed: Feed) -> i64 {
        self.published.get(&feed).copied().unwrap_or(0)
    }

    /// What this consumer should have made of it.
    pub(super) fn expected(&self, service: Service) -> Expected {
        self.services.get(&service).cloned().unwrap_or_default()
    }
}
