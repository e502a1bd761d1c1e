//! Times as the contract has them, into microseconds since the epoch.

use super::RawInstant;

/// Parses once, here, so that no guest language has to.
///
/// # Errors
/// A text that says what is wrong, without the value: it may be long.
pub(super) fn to_micros(instant: &RawInstant) -> Result<i64, String> {
    match instant {
        RawInstant::Rfc3339(text) => text
            .parse::<jiff::Timestamp>()
            .map(|time| time.as_microsecond())
            .map_err(|_| "a time is not RFC 3339 with an offset, such as 2026-01-31T23:59:59.5Z".to_owned()),
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
        let rfc = |text: &str| to_micros(&RawInstant::Rfc3339(text.to_owned()));
        assert_eq!(rfc("1970-01-01T00:00:01Z"), Ok(1_000_000));
        assert_eq!(rfc("1970-01-01T01:00:00.000001+01:00"), Ok(1));
        assert!(rfc("2026-01-31 23:59").is_err());
        assert!(rfc("").is_err());
        assert_eq!(to_micros(&RawInstant::UnixMs(-5)), Ok(-5000));
        assert!(to_micros(&RawInstant::UnixMs(i64::MAX)).is_err());
    }
}
