//! Why an event gives no rows.

use std::{error::Error, fmt::Display};

/// Why an event gives no rows. Any error turns into a rejection with `?`; it is on purpose no [`Error`] itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Not for this consumer. Counted, not kept.
    Skip(String),
    /// Broken: to the dead letters.
    Reject {
        /// A short stable word, to filter dead letters by: letters, digits, `-`, `_`, `.`; at most 64.
        code: String,
        /// For a person: what was wrong, and where.
        message: String,
    },
}

/// This event is not for this consumer, and why: `return Err(skip("not a payment"))`.
pub fn skip(why: impl Into<String>) -> Stop {
    Stop::Skip(why.into())
}

/// This event is broken: `return Err(reject("bad-amount", "amount is negative"))`.
pub fn reject(code: impl Into<String>, message: impl Into<String>) -> Stop {
    Stop::Reject { code: code.into(), message: message.into() }
}

impl<E: Error + 'static> From<E> for Stop {
    /// Code `bad-json` for errors of serde_json's, `bad-decimal` for those of [`crate::Decimal`], else `bad-event`.
    fn from(error: E) -> Self {
        let any: &(dyn Error + 'static) = &error;
        let code = if any.is::<serde_json::Error>() {
            "bad-json"
        } else if any.is::<crate::DecimalError>() {
            "bad-decimal"
        } else {
            "bad-event"
        };
        reject(code, error.to_string())
    }
}

/// Gives errors, and values that are not there, a code of their own.
///
/// ```
/// use tidegate_guest::prelude::*;
///
/// fn quantity(text: &str) -> Result<u32, Stop> {
///     text.parse().or_reject("bad-quantity")
/// }
///
/// fn first(lines: &[String]) -> Result<&String, Stop> {
///     lines.first().or_reject("no-lines")
/// }
///
/// assert_eq!(quantity("x"), Err(reject("bad-quantity", "invalid digit found in string")));
/// assert_eq!(first(&[]), Err(reject("no-lines", "missing")));
/// ```
pub trait Fault<T> {
    /// The value, or a rejection with this code.
    ///
    /// # Errors
    /// A [`Stop::Reject`] where there is no value.
    fn or_reject(self, code: &str) -> Result<T, Stop>;
}

impl<T, E: Display> Fault<T> for Result<T, E> {
    fn or_reject(self, code: &str) -> Result<T, Stop> {
        self.map_err(|error| reject(code, error.to_string()))
    }
}

impl<T> Fault<T> for Option<T> {
    fn or_reject(self, code: &str) -> Result<T, Stop> {
        self.ok_or_else(|| reject(code, "missing"))
    }
}
