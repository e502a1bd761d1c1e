//! Payment events into settlements: a row per payment, its newest state.
//!
//! How two events of one payment meet is the configuration's: the target is guarded by `event_version`, so a late or
//! repeated older event changes nothing. plugins/README.md has events, table and configuration.

use serde::Deserialize;
use tidegate_guest::prelude::*;

/// The plugin.
#[derive(Debug)]
pub struct Settlement {
    currency: Option<String>,
}

/// What the operator may set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Only payments in this currency; others are skipped.
    currency: Option<String>,
}

/// A payment event.
#[derive(Debug, Deserialize)]
pub struct Payment {
    event_id: String,
    #[serde(rename = "type")]
    kind: String,
    payment_id: String,
    order_id: String,
    version: i64,
    occurred_at: Timestamp,
    amount: Decimal,
    currency: String,
}

/// Read first: the other fields depend on it.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Row)]
#[row(target = "settlements")]
struct SettlementRow {
    payment_id: String,
    order_id: String,
    amount: Decimal,
    status: &'static str,
    event_version: i64,
    created_at: Timestamp,
}

/// The settlement's status after an event of this type.
fn status(kind: &str) -> Option<&'static str> {
    match kind {
        "payment.authorized" => Some("authorized"),
        "payment.captured" => Some("captured"),
        "payment.refunded" => Some("refunded"),
        "payment.failed" => Some("failed"),
        _ => None,
    }
}

impl Plugin for Settlement {
    type Settings = Settings;
    type Event = Payment;

    fn describe() -> Describe {
        Describe::new("settlement", env!("CARGO_PKG_VERSION")).writes::<SettlementRow>()
    }

    fn configure(settings: Settings) -> Result<Self, String> {
        match &settings.currency {
            Some(code) if code.len() != 3 || !code.bytes().all(|byte| byte.is_ascii_uppercase()) => {
                Err(format!("currency = {code:?} is no ISO 4217 code such as \"EUR\""))
            }
            _ => Ok(Self { currency: settings.currency }),
        }
    }

    fn parse(&self, message: &Message) -> Result<Payment, Stop> {
        // A payment is read in one go; only what fails is looked at again: an unknown type may have other fields.
        let payment: Payment = message.json().map_err(|stop| match message.json::<Head>() {
            Ok(head) if status(&head.kind).is_none() => skip(format!("type {:?}", head.kind)),
            _ => stop,
        })?;
        if status(&payment.kind).is_none() {
            return Err(skip(format!("type {:?}", payment.kind)));
        }
        if self.currency.as_ref().is_some_and(|currency| *currency != payment.currency) {
            return Err(skip(format!("currency {:?}", payment.currency)));
        }
        Ok(payment)
    }

    fn key(&self, payment: &Payment) -> Identity {
        Identity::new(&payment.event_id, &payment.order_id).occurred_at(&payment.occurred_at)
    }

    fn compute(&self, payment: Payment, _: &Context, rows: &mut Rows) -> Result<(), Stop> {
        if payment.amount.is_negative() {
            return Err(reject("bad-amount", "amount is negative"));
        }
        rows.upsert(SettlementRow {
            status: status(&payment.kind).or_reject("bad-type")?,
            payment_id: payment.payment_id,
            order_id: payment.order_id,
            amount: payment.amount,
            event_version: payment.version,
            created_at: payment.occurred_at,
        });
        Ok(())
    }
}

tidegate_guest::export!(Settlement);

#[cfg(test)]
mod tests {
    use tidegate_guest::testing::{Verdict, assert_each_stands_alone, run};

    use super::*;

    const CAPTURED: &str = r#"{"event_id":"evt-payment-captured-9001-2","type":"payment.captured",
        "payment_id":"payment-9001","order_id":"order-10042","version":2,
        "occurred_at":"2026-03-01T12:00:01Z","amount":49.90,"currency":"EUR"}"#;

    fn one(settings: &str, event: &str) -> Verdict {
        run::<Settlement>(settings, [Message::from_text("default", event)]).remove(0)
    }

    #[test]
    fn a_capture_is_a_settlement() {
        let verdict = one("{}", CAPTURED);
        let row = verdict.row("settlements");
        assert_eq!(row["payment_id"], Value::Text("payment-9001".into()));
        assert_eq!(row["amount"], Value::Decimal("49.90".into()), "the digits as they came");
        assert_eq!(row["status"], Value::Text("captured".into()));
        assert_eq!(row["created_at"], Timestamp::rfc3339("2026-03-01T12:00:01Z").into_value());
        let Verdict::Apply { identity, .. } = verdict else { unreachable!("it has a row") };
        assert_eq!(identity.message_id, "evt-payment-captured-9001-2");
        assert_eq!(identity.aggregate_id, "order-10042");
    }

    #[test]
    fn what_is_not_a_payment_in_this_currency_is_skipped() {
        assert!(matches!(one(r#"{"currency":"KRW"}"#, CAPTURED), Verdict::Skip(_)));
        assert!(matches!(one("{}", r#"{"type":"order.placed","event_id":"e"}"#), Verdict::Skip(_)));
        assert!(matches!(one("{}", &CAPTURED.replace("captured", "disputed")), Verdict::Skip(_)));
    }

    #[test]
    fn what_is_broken_is_rejected() {
        assert_eq!(one("{}", &CAPTURED[..40]).code(), Some("bad-json"));
        assert_eq!(one("{}", r#"{"type":"payment.captured"}"#).code(), Some("bad-json"));
        assert_eq!(one("{}", "[]").code(), Some("bad-json"));
        assert_eq!(one("{}", &CAPTURED.replace("49.90", "-1")).code(), Some("bad-amount"));
        assert_eq!(one("{}", &CAPTURED.replace("49.90", "\"much\"")).code(), Some("bad-json"));
    }

    #[test]
    fn each_event_stands_alone() {
        let events = [CAPTURED, "{", &CAPTURED.replace("9001", "9002"), r#"{"type":"order.placed"}"#];
        assert_each_stands_alone::<Settlement>("{}", &events.map(|event| Message::from_text("default", event)));
    }

    #[test]
    fn settings_are_checked() {
        let configure = |currency: &str| Settlement::configure(Settings { currency: Some(currency.into()) });
        assert!(configure("EUR").is_ok());
        assert!(configure("euro").is_err());
    }
}
