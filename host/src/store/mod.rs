//! The database side: one transaction per batch holds ledger, target rows, dead letters and checkpoint (Invariant 2).
//!
//! `apply` is the logic, written once: outcomes, careful mode, the breaker, the ambiguous commit. It drives a
//! [`Connection`], of which there are two; a dialect holds only its SQL and its types. One conformance suite runs on both.

mod connection;
mod error;
mod receipt;

pub use connection::*;
pub use error::StoreError;
pub use receipt::Receipt;
