//! Times as text, into microseconds since the epoch: the one parser of them.
//!
//! Nothing is finer than a microsecond here, as in the databases. What becomes of finer digits depends on what the time is
//! for ([`Finer`]): a value that goes into a row is refused, since a rounded one would no longer be what the event said;
//! `occurred_at` is cut, since it only decides about retention, and an event is not lost for digits that decide nothing.

use jiff::{Timestamp, civil};

const NO_OFFSET: &str = "is no RFC 3339 time with an offset, such as 2026-11-30T17:45:00.5Z";

/// What becomes of digits that are finer than a microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finer {
    /// The time is refused.
    Refused,
    /// They are left out, never rounded up.
    Cut,
}

/// RFC 3339 with an offset.
///
/// # Errors
/// What the text is, to be put behind what it is called ("column x", "a time"); without the text, which may be long.
pub(crate) fn parse_instant(text: &str, finer: Finer) -> Result<i64, String> {
    let instant: Timestamp = text.parse().map_err(|_| NO_OFFSET.to_owned())?;
    micros(instant, finer)
}

/// A time of the clock without an offset is taken as UTC; one with an offset is turned into UTC.
///
/// # Errors
/// As [`parse_instant`].
pub(crate) fn parse_utc(text: &str, finer: Finer) -> Result<i64, String> {
    if let Ok(instant) = text.parse::<Timestamp>() {
        return micros(instant, finer);
    }
    let bad = || "is no time such as 2026-11-30T17:45:00".to_owned();
    let clock: civil::DateTime = text.parse().map_err(|_| bad())?;
    micros(jiff::tz::Offset::UTC.to_timestamp(clock).map_err(|_| bad())?, finer)
}

/// The same rule for a fraction of a second, in nanoseconds.
///
/// # Errors
/// As [`parse_instant`].
pub(crate) fn whole_micros(nanoseconds: i32, finer: Finer) -> Result<i32, String> {
    if nanoseconds % 1000 != 0 && finer == Finer::Refused {
        return Err("is finer than a microsecond; it is never rounded".into());
    }
    Ok(nanoseconds.div_euclid(1000))
}

/// A time in RFC 3339 without the digits of its fraction, for a table.
pub(crate) fn whole_seconds(text: &str) -> String {
    let Some((whole, rest)) = text.split_once('.') else { return text.to_owned() };
    format!("{whole}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
}

fn micros(instant: Timestamp, finer: Finer) -> Result<i64, String> {
    let fraction = whole_micros(instant.subsec_nanosecond(), finer)?;
    Ok(instant.as_second() * 1_000_000 + i64::from(fraction))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_whole_seconds() {
        for (text, whole) in [
            ("2026-01-02T03:04:05.295608457Z", "2026-01-02T03:04:05Z"),
            ("2026-01-02T03:04:05.2+01:00", "2026-01-02T03:04:05+01:00"),
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
            ("", ""),
        ] {
            assert_eq!(whole_seconds(text), whole);
        }
    }

    #[test]
    fn an_instant_needs_its_offset() {
        let parse = |text| parse_instant(text, Finer::Refused);
        assert_eq!(parse("1970-01-01T00:00:01.5Z"), Ok(1_500_000));
        assert_eq!(parse("1970-01-01T02:00:00+02:00"), Ok(0));
        assert_eq!(parse("1970-01-01T01:00:00.000001+01:00"), Ok(1));
        for bad in ["1970-01-01T00:00:00", "2026-01-31 23:59", "yesterday", ""] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        let utc = |text| parse_utc(text, Finer::Refused);
        assert_eq!(utc("1970-01-01T00:00:00"), Ok(0));
        assert_eq!(utc("1970-01-01T02:00:00+02:00"), Ok(0));
        assert!(utc("yesterday").is_err());
    }

    #[test]
    fn finer_digits_are_refused_or_cut_and_never_rounded() {
        for (text, cut) in [
            ("1970-01-01T00:00:00.0000019Z", 1),
            ("1970-01-01T00:00:00.999999999Z", 999_999),
            ("1969-12-31T23:59:59.9999999Z", -1),
            ("1969-12-31T23:59:58.0000001Z", -2_000_000),
        ] {
            assert!(parse_instant(text, Finer::Refused).is_err(), "{text}");
            assert_eq!(parse_instant(text, Finer::Cut), Ok(cut), "{text}");
            assert!(parse_utc(text.trim_end_matches('Z'), Finer::Refused).is_err(), "{text}");
            assert_eq!(parse_utc(text.trim_end_matches('Z'), Finer::Cut), Ok(cut), "{text}");
        }
        assert_eq!(parse_instant("1970-01-01T00:00:00.000001000Z", Finer::Refused), Ok(1), "zeros say nothing");
        assert_eq!(parse_instant("1969-12-31T23:59:59.999999Z", Finer::Refused), Ok(-1));
    }
}
