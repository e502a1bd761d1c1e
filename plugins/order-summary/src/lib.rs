//! Order and payment events into one row per order.
//!
//! Every column is a greatest or a least of what was seen (the customer: what was seen first, and never changes), so that
//! events of two topics may arrive in any order, and any number of times, and end in the same row. An event that knows
//! nothing of a column gives what loses: NULL, or 0 for an amount. plugins/README.md has events, table and configuration.

use serde::Deserialize;
use tidegate_guest::prelude::*;

/// The plugin.
#[derive(Debug)]
pub struct OrderSummary;

/// An order event or a payment event.
#[derive(Debug, Deserialize)]
pub struct Event {
    event_id: String,
    #[serde(rename = "type")]
    kind: String,
    order_id: String,
    customer: Option<String>,
    version: i64,
    occurred_at: Timestamp,
    amount: Decimal,
    currency: String,
}

/// Read where an event as a whole cannot be: an unknown type may have other fields.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Row)]
#[row(target = "order_summary")]
struct SummaryRow {
    order_id: String,
    customer: Option<String>,
    stage: Option<i64>,
    ordered_minor: i64,
    captured_minor: i64,
    refunded_minor: i64,
    last_event_version: i64,
    placed_at: Option<Timestamp>,
    updated_at: Timestamp,
}

/// What an event says of its order.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the event types of plugins/README.md")]
pub enum Says {
    Placed,
    Paid,
    Shipped,
    Cancelled,
    Authorized,
    Captured,
    Refunded,
    Failed,
}

impl Says {
    fn of(kind: &str) -> Option<Self> {
        Some(match kind {
            "order.placed" => Self::Placed,
            "order.paid" => Self::Paid,
            "order.shipped" => Self::Shipped,
            "order.cancelled" => Self::Cancelled,
            "payment.authorized" => Self::Authorized,
            "payment.captured" => Self::Captured,
            "payment.refunded" => Self::Refunded,
            "payment.failed" => Self::Failed,
            _ => return None,
        })
    }

    /// How far the order has come: the furthest that was seen wins.
    fn stage(self) -> Option<i64> {
        match self {
            Self::Placed => Some(1),
            Self::Authorized => Some(2),
            Self::Paid | Self::Captured => Some(3),
            Self::Shipped => Some(4),
            Self::Cancelled => Some(5),
            Self::Refunded => Some(6),
            Self::Failed => None,
        }
    }

    fn is_order(self) -> bool {
        matches!(self, Self::Placed | Self::Paid | Self::Shipped | Self::Cancelled)
    }
}

/// The places of a currency's smallest unit (ISO 4217; those with other than two that matter here).
fn places(currency: &str) -> u32 {
    match currency {
        "CLP" | "ISK" | "JPY" | "KRW" | "VND" => 0,
        "BHD" | "JOD" | "KWD" | "OMR" | "TND" => 3,
        _ => 2,
    }
}

impl Plugin for OrderSummary {
    type Settings = NoSettings;
    type Event = (Says, Event);

    fn describe() -> Describe {
        Describe::new("order-summary", env!("CARGO_PKG_VERSION")).writes::<SummaryRow>()
    }

    fn configure(_: NoSettings) -> Result<Self, String> {
        Ok(Self)
    }

    fn parse(&self, message: &Message) -> Result<(Says, Event), Stop> {
        let unknown = |kind: &str| skip(format!("type {kind:?}"));
        let event: Event = message.json().map_err(|stop| match message.json::<Head>() {
            Ok(head) if Says::of(&head.kind).is_none() => unknown(&head.kind),
            _ => stop,
        })?;
        let says = Says::of(&event.kind).ok_or_else(|| unknown(&event.kind))?;
        Ok((says, event))
    }

    fn key(&self, (_, event): &(Says, Event)) -> Identity {
        Identity::new(&event.event_id, &event.order_id).occurred_at(&event.occurred_at)
    }

    fn compute(&self, (says, event): (Says, Event), _: &Context, rows: &mut Rows) -> Result<(), Stop> {
        let minor = event.amount.scaled(places(&event.currency)).or_reject("bad-amount")?;
        if minor < 0 {
            return Err(reject("bad-amount", "amount is negative"));
        }
        rows.upsert(SummaryRow {
            order_id: event.order_id,
            customer: event.customer,
            stage: says.stage(),
            ordered_minor: if says.is_order() { minor } else { 0 },
            captured_minor: if matches!(says, Says::Captured) { minor } else { 0 },
            refunded_minor: if matches!(says, Says::Refunded) { minor } else { 0 },
            last_event_version: if says.is_order() { event.version } else { 0 },
            placed_at: matches!(says, Says::Placed).then(|| event.occurred_at.clone()),
            updated_at: event.occurred_at,
        });
        Ok(())
    }
}

tidegate_guest::export!(OrderSummary);

#[cfg(test)]
mod tests {
    use tidegate_guest::testing::{Verdict, assert_each_stands_alone, run};

    use super::*;

    fn event(kind: &str, amount: &str, currency: &str) -> Message {
        let text = format!(
            r#"{{"event_id":"evt-1","type":"{kind}","order_id":"order-1","version":2,
                "occurred_at":"2026-03-01T12:00:00Z","amount":{amount},"currency":"{currency}"}}"#
        );
        Message::from_text("default", text)
    }

    fn one(message: Message) -> Verdict {
        run::<OrderSummary>("{}", [message]).remove(0)
    }

    #[test]
    fn amounts_are_whole_and_exact() {
        let ordered =
            |amount, currency| one(event("order.paid", amount, currency)).row("order_summary")["ordered_minor"].clone();
        assert_eq!(ordered("49.9", "EUR"), Value::Integer(4990));
        assert_eq!(ordered("49900", "KRW"), Value::Integer(49900));
        assert_eq!(ordered("1.234", "KWD"), Value::Integer(1234));
        assert_eq!(one(event("order.paid", "49.901", "EUR")).code(), Some("bad-amount"));
        assert_eq!(one(event("order.paid", "-1", "EUR")).code(), Some("bad-amount"));
    }

    #[test]
    fn what_an_event_does_not_know_loses() {
        let verdict = one(event("payment.captured", "10", "EUR"));
        let row = verdict.row("order_summary");
        assert_eq!(row["customer"], Value::Null);
        assert_eq!(row["placed_at"], Value::Null);
        assert_eq!(row["ordered_minor"], Value::Integer(0));
        assert_eq!(row["last_event_version"], Value::Integer(0));
        assert_eq!(row["captured_minor"], Value::Integer(1000));
        assert_eq!(one(event("payment.failed", "10", "EUR")).row("order_summary")["stage"], Value::Null);
    }

    #[test]
    fn each_event_stands_alone() {
        let kinds = ["order.placed", "payment.captured", "order.noted", "payment.failed"];
        assert_each_stands_alone::<OrderSummary>("{}", &kinds.map(|kind| event(kind, "10", "EUR")));
    }

    #[test]
    fn unknown_types_are_skipped_and_broken_ones_rejected() {
        assert!(matches!(one(event("order.noted", "1", "EUR")), Verdict::Skip(_)));
        assert!(matches!(one(Message::from_text("s", r#"{"type":"audit.login"}"#)), Verdict::Skip(_)));
        assert_eq!(one(Message::from_text("s", r#"{"type":"order.paid"}"#)).code(), Some("bad-json"));
        assert_eq!(one(Message::from_text("s", "")).code(), Some("bad-json"));
    }
}
