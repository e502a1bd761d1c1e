//! Payment events with a hot end, a part of them published twice, and what must come of them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write as _,
};

use crate::Message;

/// The settlement plugin's table.
pub const SETTLEMENTS: &str = "
CREATE TABLE settlements (
  payment_id    varchar(120)   PRIMARY KEY,
  order_id      varchar(120)   NOT NULL,
  amount        numeric(18, 4) NOT NULL,
  status        text           NOT NULL,
  event_version bigint         NOT NULL,
  created_at    timestamptz    NOT NULL
)";

/// One event, as a consumer would have parsed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The message id.
    pub event_id: String,
    /// The aggregate id and the record's key.
    pub order_id: String,
    /// The target's key.
    pub payment_id: String,
    /// Counts the events of this payment from 1.
    pub version: i64,
    /// In hundredths.
    pub cents: i64,
    /// Seconds since 2026-01-01.
    pub at: i64,
}

const STATUS: [&str; 4] = ["authorized", "captured", "refunded", "failed"];

impl Event {
    /// The status that the event puts its payment into.
    #[must_use]
    pub fn status(&self) -> &'static str {
        STATUS[usize::try_from(self.version.rem_euclid(4)).unwrap_or(0)]
    }

    /// The amount as digits.
    #[must_use]
    pub fn amount(&self) -> String {
        format!("{}.{:02}", self.cents / 100, self.cents % 100)
    }

    /// When it happened, as RFC 3339.
    #[must_use]
    pub fn occurred_at(&self) -> String {
        let (day, hour, minute, second) = (self.at / 86_400, self.at / 3_600 % 24, self.at / 60 % 60, self.at % 60);
        format!("2026-01-{:02}T{hour:02}:{minute:02}:{second:02}Z", day % 28 + 1)
    }

    /// As it stands in Kafka, about 230 bytes.
    #[must_use]
    pub fn json(&self) -> String {
        let mut text = String::with_capacity(256);
        let _ = write!(
            text,
            r#"{{"event_id":"{}","type":"payment.{}","payment_id":"{}","order_id":"{}","version":{},"occurred_at":"{}","amount":{},"currency":"EUR"}}"#,
            self.event_id,
            self.status(),
            self.payment_id,
            self.order_id,
            self.version,
            self.occurred_at(),
            self.amount(),
        );
        text
    }

    /// As a message, keyed by its order.
    #[must_use]
    pub fn message(&self) -> Message {
        Message::new(self.json()).key(self.order_id.clone())
    }
}

/// A reproducible backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Messages, re-publications included.
    pub messages: usize,
    /// The same seed gives the same messages.
    pub seed: u64,
}

/// What the tables must hold in the end, where the newest version of a payment wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Distinct message ids: rows of the ledger.
    pub applied: i64,
    /// Rows of the target.
    pub rows: i64,
    /// Sum over the target's versions.
    pub versions: i64,
    /// Sum over the target's amounts, in hundredths.
    pub cents: i64,
}

/// A re-publication copies one of this many latest events.
const RECENT: usize = 10_000;

impl Workload {
    /// All events, in the order of their publication: a tenth are copies of recent ones; payments follow Zipf's law
    /// (exponent 0.8), five events to a payment on average.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        let payments = (self.messages / 5).max(1);
        let mut random = Random(self.seed);
        let mut weights = Vec::with_capacity(payments);
        let mut total = 0.0_f64;
        for rank in 1..=payments {
            total += 1.0 / as_f64(rank).powf(0.8);
            weights.push(total);
        }
        let mut versions = vec![0_i64; payments];
        let mut events: Vec<Event> = Vec::with_capacity(self.messages);
        while events.len() < self.messages {
            let n = events.len();
            if n > 0 && random.below(10) == 0 {
                let back = random.below(n.min(RECENT)) + 1;
                let copy = events[n - back].clone();
                events.push(copy);
                continue;
            }
            let at = weights.partition_point(|&weight| weight < random.unit() * total).min(payments - 1);
            versions[at] += 1;
            // Spread, so that neighbours in rank are no neighbours in the index.
            let number = 1_000_000 + (at * 7_919) % payments;
            events.push(Event {
                event_id: format!("evt-payment-{number}-{}", versions[at]),
                order_id: format!("order-{number}"),
                payment_id: format!("payment-{number}"),
                version: versions[at],
                cents: i64::try_from(random.below(100_000)).unwrap_or(0) + 1,
                at: i64::try_from(n).unwrap_or(0),
            });
        }
        events
    }

    /// What must come of these events where amounts are added up: per payment the sum of its distinct events, in
    /// hundredths. A record applied twice, or lost, shows here.
    #[must_use]
    pub fn added_up<'a>(events: impl IntoIterator<Item = &'a Event>) -> BTreeMap<String, i64> {
        let mut ids = BTreeSet::new();
        let mut sums = BTreeMap::new();
        for event in events {
            if ids.insert(&event.event_id) {
                *sums.entry(event.payment_id.clone()).or_default() += event.cents;
            }
        }
        sums
    }

    /// What must come of these events where the newest version wins.
    #[must_use]
    pub fn expected(events: &[Event]) -> Expected {
        let mut newest: HashMap<&str, &Event> = HashMap::new();
        let mut ids = std::collections::HashSet::new();
        for event in events {
            ids.insert(event.event_id.as_str());
            let row = newest.entry(&event.payment_id).or_insert(event);
            if event.version > row.version {
                *row = event;
            }
        }
        let mut expected = Expected { applied: i64::try_from(ids.len()).unwrap_or(0), ..Expected::default() };
        for row in newest.values() {
            expected.rows += 1;
            expected.versions += row.version;
            expected.cents += row.cents;
        }
        expected
    }
}

/// SplitMix64: small, good enough, and the same everywhere.
#[derive(Clone, Copy, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.bits() % limit as u64).unwrap_or(0)
    }

    #[allow(clippy::cast_precision_loss, reason = "53 bits are all that a double in [0, 1) has")]
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[allow(clippy::cast_precision_loss, reason = "ranks stay far below 2^53")]
fn as_f64(rank: usize) -> f64 {
    rank as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_is_reproducible_and_a_tenth_of_it_is_published_again() {
        let workload = Workload { messages: 20_000, seed: 1 };
        let events = workload.events();
        assert_eq!(events, workload.events());
        let expected = Workload::expected(&events);
        assert!((17_500..18_500).contains(&expected.applied), "{expected:?}");
        assert!(expected.rows <= 4_000);
        let json: serde_json::Value = serde_json::from_str(&events[0].json()).unwrap();
        assert_eq!(json["event_id"], events[0].event_id.as_str());
    }
}
