//! Write [tidegate](https://github.com/tidegate/tidegate) plugins in Rust: **one event in, a key and rows out**.
//!
//! A plugin is the business half of an idempotent consumer. It says who an event is ([`Plugin::key`]) and what it
//! changes ([`Plugin::compute`]); the host owns Kafka, the transaction, the deduplication and how rows merge. A plugin
//! is pure: no clock, no randomness, no network, no file, and nothing about where an event came from. So the same event
//! gives the same answer, wherever and however often it arrives.
//!
//! # A whole plugin
//!
//! ```
//! use serde::Deserialize;
//! use tidegate_guest::prelude::*;
//!
//! /// A payment event, as its producer writes it.
//! #[derive(Deserialize)]
//! struct Payment {
//!     event_id: String,
//!     payment_id: String,
//!     order_id: String,
//!     amount: Decimal, // keeps the digits: 10.10 stays 10.10
//!     version: i64,
//!     occurred_at: Timestamp,
//! }
//!
//! /// A row of the target that the configuration calls "settlements".
//! #[derive(Row)]
//! #[row(target = "settlements")]
//! struct SettlementRow {
//!     payment_id: String,
//!     order_id: String,
//!     amount: Decimal,
//!     event_version: i64,
//!     created_at: Timestamp,
//! }
//!
//! struct Settlement;
//!
//! impl Plugin for Settlement {
//!     type Settings = NoSettings;
//!     type Event = Payment;
//!
//!     fn describe() -> Describe {
//!         Describe::new("settlement", env!("CARGO_PKG_VERSION")).writes::<SettlementRow>()
//!     }
//!
//!     fn configure(_: NoSettings) -> Result<Self, String> {
//!         Ok(Self)
//!     }
//!
//!     fn parse(&self, message: &Message) -> Result<Payment, Stop> {
//!         message.json() // broken JSON: to the dead letters, with the code "bad-json"
//!     }
//!
//!     fn key(&self, payment: &Payment) -> Identity {
//!         Identity::new(&payment.event_id, &payment.order_id).occurred_at(&payment.occurred_at)
//!     }
//!
//!     fn compute(&self, payment: Payment, _: &Context, rows: &mut Rows) -> Result<(), Stop> {
//!         if payment.amount.is_negative() {
//!             return Err(reject("bad-amount", "a payment cannot be negative"));
//!         }
//!         rows.upsert(SettlementRow {
//!             payment_id: payment.payment_id,
//!             order_id: payment.order_id,
//!             amount: payment.amount,
//!             event_version: payment.version,
//!             created_at: payment.occurred_at,
//!         });
//!         Ok(())
//!     }
//! }
//!
//! tidegate_guest::export!(Settlement);
//!
//! // Natively it is plain Rust, so that its tests are too:
//! let event = r#"{"event_id":"evt-1","payment_id":"p-1","order_id":"o-1","amount":10.10,"version":1,
//!                 "occurred_at":"2026-03-01T12:00:00Z"}"#;
//! let verdicts = tidegate_guest::testing::run::<Settlement>("{}", [Message::from_text("default", event)]);
//! assert_eq!(verdicts[0].row("settlements")["amount"], Decimal::from_str("10.10").unwrap().into_value());
//! # use std::str::FromStr;
//! ```
//!
//! # Testing
//!
//! [`testing::run`] runs a batch natively; [`testing::assert_each_stands_alone`] holds the plugin to what it promises: an
//! event gives the same answer alone, in any order, and twice.
//!
//! # Building
//!
//! `Cargo.toml` needs `crate-type = ["cdylib", "lib"]`; `tidegate plugin build DIR` does the rest: it compiles for
//! `wasm32-unknown-unknown` and wraps the result into a component. A release profile with `lto = true`,
//! `codegen-units = 1`, `panic = "abort"` and `strip = true` makes it small.
//!
//! # What to hold on to
//!
//! - **The key** is the producer's event id: stable, of business meaning, the same on every re-publication. Never an
//!   offset, a line number, a time of arrival, or anything made up here. An event without one is rejected.
//! - **Say what the row shall be, not what to add to it.** How rows meet (replace, greatest, only if newer…) is
//!   configuration. A row that says "paid in all: 49.90" converges; one that says "49.90 more" does not.
//! - **Errors are values.** `?` in [`Plugin::parse`] and [`Plugin::compute`] turns any error into a rejection of *this*
//!   event; [`reject`] and [`Fault::or_reject`] give it a code, [`skip`] passes an event by.
//! - **A panic costs the batch.** A sandbox cannot unwind: a panic ends the instance, and the host splits the batch,
//!   again and again, until the event that panics stands alone. Correct, but slow; an error is neither.
//! - **State lives for one batch.** Each batch has a fresh instance. What one event leaves behind must not change what
//!   the next one gives: the host checks keys in other orders and other company.

// So that the derive's paths also hold in this crate's own tests.
extern crate self as tidegate_guest;

#[doc(hidden)]
#[allow(missing_docs, unsafe_code, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated from the WIT")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "wit",
        world: "plugin",
        additional_derives: [PartialEq],
        pub_export_macro: true,
        export_macro_name: "export_processor",
        default_bindings_module: "tidegate_guest::bindings",
    });
}

mod decimal;
mod export;
mod identity;
pub mod log;
mod message;
mod plugin;
mod rows;
#[doc(hidden)]
pub mod session;
mod stop;
pub mod testing;
mod value;

pub use bindings::tidegate::plugin::types::{Body, Header, Identity, Instant, Message, Operation, Value};
pub use decimal::{Decimal, DecimalError};
pub use plugin::{Context, Describe, NoSettings, Plugin};
pub use rows::{Row, Rows};
pub use stop::{Fault, Stop, reject, skip};
/// Makes a struct a row: its fields, in order, are the columns.
///
/// - `#[row(target = "NAME")]` on the struct: what the configuration calls the target. Required.
/// - `#[row(column = "NAME")]` on a field: where the column's name is not the field's.
///
/// Each field's type has to be [`IntoValue`]. The columns must be exactly those that the target's `columns` grant, in
/// any order; for [`Rows::delete`] those of its `key`, and the column of its guard.
///
/// ```
/// use tidegate_guest::prelude::*;
///
/// #[derive(Row)]
/// #[row(target = "customers")]
/// struct Customer<'a> {
///     id: &'a str,
///     #[row(column = "type")]
///     kind: Option<&'a str>,
/// }
///
/// assert_eq!(Customer::COLUMNS, ["id", "type"]);
/// ```
///
/// A row without a target does not compile:
///
/// ```compile_fail
/// #[derive(tidegate_guest::Row)]
/// struct Customer {
///     id: String,
/// }
/// ```
pub use tidegate_guest_derive::Row;
pub use value::{IntoValue, Json, Timestamp};

/// What nearly every plugin needs: `use tidegate_guest::prelude::*;`.
pub mod prelude {
    pub use crate::{
        Context, Decimal, Describe, Fault, Identity, IntoValue, Json, Message, NoSettings, Plugin, Row, Rows, Stop,
        Timestamp, Value, reject, skip,
    };
}

/// Holds the README's plugin to what it says: it compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
