//! Times as the contract has them, into microseconds since the epoch.

use super::RawInstant;
use crate::instant::{Finer, parse_instant};

/// Parses once, here, so that no guest language has to. Which times may be finer than a microsecond: [`crate::instant`].
///
/// # Errors
/// A text that says what is wrong, without the value: it may be long.
pub(super) fn to_micros(instant: &RawInstant, finer: Finer) -> Result<i64, String> {
    match instant {
        RawInstant::Rfc3339(text) => parse_instant(text, finer).map_err(|wrong| format!("a time {wrong}")),
        RawInstant::UnixMs(ms) => {
            ms.checked_mul(1000).ok_or_else(|| "a time in milliseconds is out of range".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants() {
        let rfc = |text: &str, finer| to_micros(&RawInstant::Rfc3339(text.to_owned()), finer);
        assert_eq!(rfc("1970-01-01T00:00:01Z", Finer::Refused), Ok(1_000_000));
        assert_eq!(rfc("1970-01-01T00:00:01.0000009Z", Finer::Cut), Ok(1_000_000));
        let wrong = Err("a time is finer than a microsecond; it is never rounded".to_owned());
        assert_eq!(rfc("1970-01-01T00:00:01.0000009Z", Finer::Refused), wrong);
        assert!(rfc("2026-01-31 23:59", Finer::Cut).is_err());
        assert_eq!(to_micros(&RawInstant::UnixMs(-5), Finer::Refused), Ok(-5000));
        assert!(to_micros(&RawInstant::UnixMs(i64::MAX), Finer::Refused).is_err());
    }
}
