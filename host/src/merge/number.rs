//! Numbers into number columns without loss: what does not fit is refused, never rounded or cut.

use std::str::FromStr;

use bigdecimal::{BigDecimal, ToPrimitive};

/// What `numeric` holds before and after the point at most (PostgreSQL).
const MOST_DIGITS: i64 = 131_072;
const MOST_PLACES: i64 = 16_383;
/// So many digits always fit 64 bits: most amounts do, and go the short way.
const SHORT: usize = 18;
/// 2^53: from here on, a double skips whole numbers.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Reads digits as SQL writes them: sign, digits, one point, an exponent.
pub(super) fn parse_decimal(text: &str) -> Result<BigDecimal, String> {
    let bad = || "is no number: digits as in SQL are expected, such as -12.50".to_owned();
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| bad())?),
        None => (text, 0),
    };
    let digits = mantissa.strip_prefix(['+', '-']).unwrap_or(mantissa);
    let (whole, places) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.len() + places.len() == 0 || !all_digits(whole) || !all_digits(places) {
        return Err(bad());
    }
    // Before the number is built: an exponent of a billion would build a gigabyte.
    let length = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let exponent = i64::from(exponent);
    if length(whole.len()).saturating_add(exponent) > MOST_DIGITS
        || length(places.len()).saturating_sub(exponent) > MOST_PLACES
        || length(whole.len()) > MOST_DIGITS
    {
        return Err("is longer than any numeric column holds".into());
    }
    if exponent == 0 && whole.len() + places.len() <= SHORT {
        let units = whole.bytes().chain(places.bytes()).fold(0, |n: i64, digit| n * 10 + i64::from(digit - b'0'));
        return Ok(BigDecimal::new(if text.starts_with('-') { -units } else { units }.into(), length(places.len())));
    }
    BigDecimal::from_str(text).map_err(|_| bad())
}

/// Digits without an exponent, as [`parse_decimal`] reads them.
pub(crate) fn plain_digits(value: &BigDecimal) -> String {
    let (units, scale) = value.as_bigint_and_scale();
    let (Ok(places), Some(units)) = (usize::try_from(scale), units.to_i64()) else { return value.to_plain_string() };
    if places > SHORT {
        return value.to_plain_string();
    }
    let mut digits = format!("{:0width$}", units.unsigned_abs(), width = places + 1);
    if places > 0 {
        digits.insert(digits.len() - places, '.');
    }
    if units < 0 {
        digits.insert(0, '-');
    }
    digits
}

/// Into numeric(precision, scale).
pub(super) fn fit_numeric(value: BigDecimal, limits: Option<(u16, i16)>) -> Result<BigDecimal, String> {
    let Some((precision, scale)) = limits else { return Ok(value) };
    let (precision, scale) = (i64::from(precision), i64::from(scale));
    let (mut digits, mut places) = (digits_of(&value), value.fractional_digit_count());
    let mut value = value;
    if places > scale || digits - places > precision - scale {
        // Trailing zeros do not count.
        value = value.normalized();
        (digits, places) = (digits_of(&value), value.fractional_digit_count());
    }
    if value.sign() == bigdecimal::num_bigint::Sign::NoSign {
        return Ok(BigDecimal::default());
    }
    if places > scale {
        return Err(format!("has more than {scale} decimal places; it is never rounded"));
    }
    if digits - places > precision - scale {
        return Err(format!("has more than {} digits before the point", (precision - scale).max(0)));
    }
    Ok(value)
}

fn digits_of(value: &BigDecimal) -> i64 {
    i64::try_from(value.digits()).unwrap_or(i64::MAX)
}

/// Into an integer of `width` bytes.
pub(super) fn fit_int(value: i64, width: u8) -> Result<i64, String> {
    let fits = match width {
        2 => i16::try_from(value).is_ok(),
        4 => i32::try_from(value).is_ok(),
        _ => true,
    };
    if fits { Ok(value) } else { Err(format!("is out of range for {width} bytes")) }
}

/// A decimal that is a whole number of 64 bits.
pub(super) fn decimal_to_int(value: &BigDecimal) -> Result<i64, String> {
    let whole = value.normalized();
    if whole.fractional_digit_count() > 0 {
        return Err("has decimal places, the column holds whole numbers; it is never rounded".into());
    }
    whole.to_i64().ok_or_else(|| "is out of range for 8 bytes".into())
}

/// A double that is a whole number it holds exactly.
pub(super) fn real_to_int(value: f64) -> Result<i64, String> {
    finite(value)?;
    if value.fract() != 0.0 {
        return Err("has decimal places, the column holds whole numbers; it is never rounded".into());
    }
    if value.abs() >= EXACT {
        return Err("is beyond 2^53, where a double skips whole numbers; give it as integer or decimal".into());
    }
    #[allow(clippy::cast_possible_truncation, reason = "whole and within 2^53: exact")]
    Ok(value as i64)
}

/// A double as the shortest digits that give it back.
pub(super) fn real_to_decimal(value: f64) -> Result<BigDecimal, String> {
    finite(value)?;
    parse_decimal(&format!("{value:e}"))
}

/// Into a float column of `width` bytes. A float is inexact by nature: the nearest one is taken.
pub(super) fn fit_float(value: f64, width: u8) -> Result<f64, String> {
    finite(value)?;
    if width != 4 {
        return Ok(value);
    }
    #[allow(clippy::cast_possible_truncation, reason = "rounding to the column's own precision is what real means")]
    let narrow = value as f32;
    if narrow.is_finite() { Ok(f64::from(narrow)) } else { Err("is out of range for 4 bytes".into()) }
}

/// An integer into a float column, exactly.
pub(super) fn int_to_float(value: i64, width: u8) -> Result<f64, String> {
    #[allow(clippy::cast_precision_loss, reason = "checked right below")]
    let float = value as f64;
    if value.unsigned_abs() > 1 << 53 || fit_float(float, width)? != float {
        return Err("is a whole number that this float cannot hold exactly; use a numeric or bigint column".into());
    }
    Ok(float)
}

fn finite(value: f64) -> Result<(), String> {
    if value.is_finite() { Ok(()) } else { Err("is NaN or infinite, which no column takes".into()) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn numeric(text: &str, precision: u16, scale: i16) -> Result<String, String> {
        fit_numeric(parse_decimal(text)?, Some((precision, scale))).map(|v| v.to_plain_string())
    }

    #[test]
    fn numeric_is_never_rounded() {
        assert_eq!(numeric("10.00", 12, 2).unwrap(), "10.00");
        assert_eq!(numeric("10.500", 12, 2).unwrap(), "10.5");
        assert!(numeric("10.005", 12, 2).is_err());
        assert!(numeric("9999999999.99", 12, 2).is_ok());
        assert!(numeric("10000000000", 12, 2).is_err());
        assert!(numeric("1e9", 12, 2).is_ok());
        assert!(numeric("1e10", 12, 2).is_err());
        assert!(numeric("0.0099", 2, 4).is_ok());
        assert!(numeric("0.01", 2, 4).is_err());
        assert_eq!(numeric("1200", 2, -2).unwrap(), "1200");
        assert!(numeric("1250", 4, -2).is_err());
        assert_eq!(numeric("-0.000000", 3, 2).unwrap(), "0");
    }

    #[test]
    fn only_digits_are_digits() {
        for bad in ["", ".", "-", "1e", "1.2.3", "0x10", "1_000", " 1", "NaN", "Infinity", "1e99999999999", "１"] {
            assert!(parse_decimal(bad).is_err(), "{bad:?}");
        }
        for good in ["0", "-1", "+1.5", ".5", "5.", "1e3", "12E-2"] {
            assert!(parse_decimal(good).is_ok(), "{good:?}");
        }
        assert!(parse_decimal("1e1000000000").is_err(), "must not be built");
        assert!(parse_decimal("1e-1000000000").is_err());
    }

    #[test]
    fn the_short_way_ends_where_the_long_one_does() {
        let texts = [
            "0",
            "-0",
            "0.00",
            "5.",
            ".5",
            "-.05",
            "+1.50",
            "-12.50",
            "10.10",
            "007",
            "-0.001",
            "999999999999999999",
            "-99999999999999.9999",
            "9999999999999999999",
            "0.0000000000000000001",
            "1e3",
            "12E-2",
            "-1.5e-20",
            "123456789012345678901234567890.12",
        ];
        for text in texts {
            let long = BigDecimal::from_str(text).unwrap();
            let short = parse_decimal(text).unwrap();
            assert_eq!(short, long, "{text}");
            assert_eq!(short.fractional_digit_count(), long.fractional_digit_count(), "{text}");
            assert_eq!(plain_digits(&long), long.to_plain_string(), "{text}");
        }
    }

    #[test]
    fn whole_numbers_stay_whole() {
        assert_eq!(decimal_to_int(&parse_decimal("42.000").unwrap()), Ok(42));
        assert!(decimal_to_int(&parse_decimal("42.1").unwrap()).is_err());
        assert_eq!(decimal_to_int(&parse_decimal("9223372036854775807").unwrap()), Ok(i64::MAX));
        assert!(decimal_to_int(&parse_decimal("9223372036854775808").unwrap()).is_err());
        assert_eq!(real_to_int(3.0), Ok(3));
        assert!(real_to_int(3.5).is_err());
        assert!(real_to_int(1e17).is_err());
        assert!(fit_int(40_000, 2).is_err());
        assert!(fit_int(-32_768, 2).is_ok());
    }

    #[test]
    fn doubles_become_their_shortest_digits() {
        assert_eq!(real_to_decimal(0.1).unwrap().to_plain_string(), "0.1");
        assert!(numeric(&real_to_decimal(10.005).unwrap().to_plain_string(), 12, 2).is_err());
        assert!(real_to_decimal(f64::NAN).is_err());
        assert!(fit_float(1e300, 4).is_err());
        assert!(fit_float(f64::INFINITY, 8).is_err());
        assert!(int_to_float((1 << 53) + 1, 8).is_err());
        assert!(int_to_float((1 << 24) + 1, 4).is_err());
    }
}
