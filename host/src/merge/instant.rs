//! Times and dates that fit a column, and dates as text.

use jiff::civil;

use crate::instant::{Finer, whole_micros};

/// Where timestamptz begins (PostgreSQL), microseconds since the Unix epoch: 4714 BC. It ends beyond 64 bits of them.
const EARLIEST: i64 = -210_866_803_200_000_000;

/// Into a column with `digits` of the second's fraction.
pub(super) fn fit_instant(micros: i64, digits: u8) -> Result<i64, String> {
    if micros < EARLIEST {
        return Err("is before the earliest time that the column holds".into());
    }
    let step = 10_i64.pow(u32::from(6 - digits.min(6)));
    if micros % step != 0 {
        return Err(format!("is finer than the column's {digits} digits of a second; it is never rounded"));
    }
    Ok(micros)
}

/// YYYY-MM-DD, as days since the epoch.
pub(super) fn parse_date(text: &str) -> Result<i32, String> {
    let bad = || "is no date such as 2026-11-30".to_owned();
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() });
    if !shape {
        return Err(bad());
    }
    let date: civil::Date = text.parse().map_err(|_| bad())?;
    // PostgreSQL knows no year 0.
    if date.year() < 1 {
        return Err(bad());
    }
    let days = date.since((jiff::Unit::Day, civil::Date::constant(1970, 1, 1))).map_err(|_| bad())?;
    Ok(days.get_days())
}

/// The other way, for the years that [`parse_date`] reads.
#[must_use]
pub(crate) fn date_text(days: i32) -> String {
    use jiff::ToSpan as _;
    civil::Date::constant(1970, 1, 1).saturating_add(i64::from(days).days()).to_string()
}

/// HH:MM, HH:MM:SS or with a fraction, in full.
pub(super) fn parse_time(text: &str, digits: u8) -> Result<String, String> {
    let bad = || "is no time of day such as 17:45:00".to_owned();
    if !text.bytes().all(|b| b.is_ascii_digit() || b == b':' || b == b'.') || text.len() < 5 {
        return Err(bad());
    }
    let time: civil::Time = text.parse().map_err(|_| bad())?;
    let fraction = whole_micros(time.subsec_nanosecond(), Finer::Refused)?;
    fit_instant(i64::from(fraction), digits)?;
    Ok(format!("{:02}:{:02}:{:02}.{fraction:06}", time.hour(), time.minute(), time.second()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_rounded() {
        assert_eq!(fit_instant(1_500_000, 6), Ok(1_500_000));
        assert_eq!(fit_instant(1_500_000, 1), Ok(1_500_000));
        assert!(fit_instant(1_500_000, 0).is_err());
        assert!(fit_instant(i64::MAX, 6).is_ok());
        assert!(fit_instant(i64::MIN, 6).is_err());
    }

    #[test]
    fn dates_go_there_and_back() {
        for text in ["1970-01-01", "2026-11-30", "0001-01-01", "9999-12-31", "2024-02-29"] {
            assert_eq!(date_text(parse_date(text).unwrap()), text);
        }
        assert_eq!(parse_date("1970-01-02"), Ok(1));
        for bad in ["2023-02-29", "2026-1-1", "20261130", "2026-11-30T00:00:00", "-001-01-01"] {
            assert!(parse_date(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_have_one_form() {
        assert_eq!(parse_time("07:05", 6).unwrap(), "07:05:00.000000");
        assert_eq!(parse_time("07:05:01.25", 6).unwrap(), "07:05:01.250000");
        assert!(parse_time("07:05:01.25", 1).is_err());
        assert!(parse_time("07:05:01.0000001", 6).is_err());
        assert!(parse_time("25:00", 6).is_err());
        assert!(parse_time("07:05:00Z", 6).is_err());
    }
}
