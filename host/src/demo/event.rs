//! The events, as `plugins/README.md` defines them, and the life of an order that they tell.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    oracle::{Effect, TOTALS},
    random::Random,
    story::Feed,
};

/// One event of an order or of its payment.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) feed: Feed,
    /// The order's number: decides the partition, so that an order's events of one topic keep their order.
    pub(super) object: u64,
    pub(super) effect: Effect,
    kind: &'static str,
    version: usize,
    cents: i64,
    customer: u64,
    at_ms: i64,
}

/// A step of an order's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Placed,
    Authorized,
    Captured,
    Paid,
    Shipped,
    Refunded,
    Failed,
    Cancelled,
}

impl Step {
    fn feed(self) -> Feed {
        match self {
            Self::Placed | Self::Paid | Self::Shipped | Self::Cancelled => Feed::Orders,
            Self::Authorized | Self::Captured | Self::Refunded | Self::Failed => Feed::Payments,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Placed => "order.placed",
            Self::Paid => "order.paid",
            Self::Shipped => "order.shipped",
            Self::Cancelled => "order.cancelled",
            Self::Authorized => "payment.authorized",
            Self::Captured => "payment.captured",
            Self::Refunded => "payment.refunded",
            Self::Failed => "payment.failed",
        }
    }
}

/// An order under way.
#[derive(Debug)]
pub(super) struct Life {
    number: u64,
    customer: u64,
    cents: i64,
    steps: &'static [Step],
    told: usize,
}

impl Life {
    pub(super) fn new(number: u64, random: &mut Random) -> Self {
        use Step::{Authorized, Cancelled, Captured, Failed, Paid, Placed, Refunded, Shipped};
        let steps: &[Step] = match random.below(20) {
            0 => &[Placed, Failed, Cancelled],
            1 | 2 => &[Placed, Authorized, Captured, Paid, Refunded, Cancelled],
            3 => &[Placed, Authorized, Captured, Paid, Shipped, Refunded],
            _ => &[Placed, Authorized, Captured, Paid, Shipped],
        };
        let cents = i64::try_from(100 + random.below(40_000)).unwrap_or(100);
        Self { number, customer: 1 + random.below(5_000), cents, steps, told: 0 }
    }

    pub(super) fn is_over(&self) -> bool {
        self.told == self.steps.len()
    }

    /// Only while it is not over.
    pub(super) fn next_event(&mut self, at_ms: i64) -> Event {
        let step = self.steps[self.told.min(self.steps.len() - 1)];
        self.told = (self.told + 1).min(self.steps.len());
        self.event(step, at_ms)
    }

    /// The one event of an order of which nothing else will be heard.
    pub(super) fn only_event(&self, feed: Feed, at_ms: i64) -> Event {
        self.event(if feed == Feed::Orders { Step::Placed } else { Step::Captured }, at_ms)
    }

    fn event(&self, step: Step, at_ms: i64) -> Event {
        let told = &self.steps[..self.told];
        let version = told.iter().filter(|s| s.feed() == step.feed()).count().max(1);
        Event {
            feed: step.feed(),
            object: self.number,
            effect: self.effect(step),
            kind: step.kind(),
            version,
            cents: self.cents,
            customer: self.customer,
            at_ms,
        }
    }

    /// In the order of `Service::totals`: (payments, captured, refunded) and (orders, ordered, captured, refunded).
    fn effect(&self, step: Step) -> Effect {
        // An event of which nothing came before makes the row.
        let alone = i64::from(self.told == 0);
        let cents = self.cents;
        let (settlement, order_summary) = match step {
            Step::Placed => (None, [1, cents, 0, 0]),
            Step::Paid | Step::Shipped | Step::Cancelled => (None, [0; TOTALS]),
            Step::Authorized | Step::Failed => (Some([1, 0, 0, 0]), [0; TOTALS]),
            Step::Captured => (Some([alone, cents, 0, 0]), [alone, 0, cents, 0]),
            Step::Refunded => (Some([0, -cents, cents, 0]), [0, 0, 0, cents]),
        };
        Effect { settlement, order_summary: Some(order_summary) }
    }
}

/// An event's JSON.
#[derive(Serialize)]
struct Json {
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<String>,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_id: Option<String>,
    order_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    customer: Option<String>,
    version: usize,
    occurred_at: String,
    /// Digits, so that 49.90 keeps its zero.
    amount: Option<Box<RawValue>>,
    currency: &'static str,
}

impl Json {
    fn bytes(&self) -> Vec<u8> {
        // Nothing in it can fail to serialise.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

fn euros(cents: i64) -> Option<Box<RawValue>> {
    let sign = if cents < 0 { "-" } else { "" };
    let cents = cents.unsigned_abs();
    RawValue::from_string(format!("{sign}{}.{:02}", cents / 100, cents % 100)).ok()
}

impl Event {
    /// The record's key: the business object.
    pub(super) fn key(&self) -> String {
        format!("order-{}", self.object)
    }

    fn as_json(&self) -> Json {
        let number = if self.feed == Feed::Payments { payment(self.object) } else { self.object };
        let at = Timestamp::from_millisecond(self.at_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        Json {
            event_id: Some(format!("evt-{}-{number}-{}", self.kind.replace('.', "-"), self.version)),
            r#type: self.kind,
            payment_id: (self.feed == Feed::Payments).then(|| format!("payment-{number}")),
            order_id: self.key(),
            customer: (self.feed == Feed::Orders).then(|| format!("customer-{}", self.customer)),
            version: self.version,
            occurred_at: at.to_string(),
            amount: euros(self.cents),
            currency: "EUR",
        }
    }

    pub(super) fn json(&self) -> Vec<u8> {
        self.as_json().bytes()
    }

    pub(super) fn json_without_id(&self) -> Vec<u8> {
        Json { event_id: None, ..self.as_json() }.bytes()
    }

    pub(super) fn json_of_unknown_type(&self) -> Vec<u8> {
        let r#type = match self.feed {
            Feed::Orders => "order.note-added",
            Feed::Payments => "payment.receipt-sent",
        };
        Json { r#type, ..self.as_json() }.bytes()
    }

    /// A sign that a payment or an order cannot have.
    pub(super) fn json_with_bad_amount(&self) -> Vec<u8> {
        Json { amount: euros(-self.cents), ..self.as_json() }.bytes()
    }

    /// The same event with another amount: a producer's bug.
    pub(super) fn json_with_other_amount(&self) -> Vec<u8> {
        Json { amount: euros(self.cents + 1), ..self.as_json() }.bytes()
    }
}

fn payment(order: u64) -> u64 {
    order.saturating_sub(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_looks_as_documented() {
        let life = Life { number: 10_001, customer: 77, cents: 4_990, steps: &[Step::Placed, Step::Captured], told: 1 };
        let event = life.event(Step::Captured, 1_772_366_400_125);
        assert_eq!(
            String::from_utf8_lossy(&event.json()),
            r#"{"event_id":"evt-payment-captured-9001-1","type":"payment.captured","payment_id":"payment-9001","order_id":"order-10001","version":1,"occurred_at":"2026-03-01T12:00:00.125Z","amount":49.90,"currency":"EUR"}"#
        );
        assert!(String::from_utf8_lossy(&event.json_with_bad_amount()).contains(r#""amount":-49.90"#));
        assert!(!String::from_utf8_lossy(&event.json_without_id()).contains("event_id"));
        assert_eq!(euros(-5).map(|v| v.to_string()), Some("-0.05".to_owned()));
    }
}
