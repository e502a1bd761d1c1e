//! Which rows an event changes. Everything else (Kafka, transactions, duplicates) is tidegate's.

use serde::Deserialize;
use tidegate_guest::prelude::*;

/// An event, as its producer writes it. Unknown fields are ignored.
#[derive(Deserialize)]
struct Payment {
    #[serde(rename = "type")]
    kind: String,
    event_id: String,
    payment_id: String,
    order_id: String,
    version: i64,
    occurred_at: Timestamp,
    amount: Decimal, // keeps the digits: 10.10 stays 10.10
}

/// A row of the target that the configuration calls "payments". How it merges with the row that is there is configuration.
#[derive(Row)]
#[row(target = "payments")]
struct PaymentRow {
    payment_id: String,
    order_id: String,
    amount: Decimal,
    event_version: i64,
    paid_at: Timestamp,
}

struct __Name__;

impl Plugin for __Name__ {
    type Settings = NoSettings;
    type Event = Payment;

    fn describe() -> Describe {
        Describe::new("__name__", env!("CARGO_PKG_VERSION")).writes::<PaymentRow>()
    }

    fn configure(_: NoSettings) -> Result<Self, String> {
        Ok(Self)
    }

    /// Broken JSON becomes a dead letter by itself.
    fn parse(&self, message: &Message) -> Result<Payment, Stop> {
        let payment: Payment = message.json()?;
        if payment.kind != "payment.captured" {
            return Err(skip(format!("type {:?}", payment.kind)));
        }
        Ok(payment)
    }

    /// The producer's own id of the event: the same on every re-publication. Never an offset, a time or a hash.
    fn key(&self, payment: &Payment) -> Identity {
        Identity::new(&payment.event_id, &payment.order_id).occurred_at(&payment.occurred_at)
    }

    /// What the row shall be, not what to add to it.
    fn compute(&self, payment: Payment, _: &Context, rows: &mut Rows) -> Result<(), Stop> {
        if payment.amount.is_negative() {
            return Err(reject("bad-amount", "amount is negative"));
        }
        rows.upsert(PaymentRow {
            payment_id: payment.payment_id,
            order_id: payment.order_id,
            amount: payment.amount,
            event_version: payment.version,
            paid_at: payment.occurred_at,
        });
        Ok(())
    }
}

tidegate_guest::export!(__Name__);
