//! Decimal numbers that keep their digits.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;

/// A decimal number by its digits, never a float: `10.10` stays `10.10`, however long.
///
/// Reads JSON numbers and JSON strings (`10.10`, `"10.10"`). Inside `#[serde(flatten)]` and `#[serde(tag = …)]` serde
/// has turned numbers into floats before they get here; that is refused rather than rounded: use a plain struct there.
///
/// ```
/// use tidegate_guest::Decimal;
///
/// let amount: Decimal = serde_json::from_str("10.10").unwrap();
/// assert_eq!(amount.as_str(), "10.10");
/// assert_eq!(amount.scaled(2), Ok(1010));
/// assert!(amount.scaled(0).is_err(), "never rounds");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decimal(String);

/// Why something is no decimal, or does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalError {
    /// Not digits with at most one sign, point and exponent.
    Syntax,
    /// More places than asked for, and not zeros.
    Places,
    /// Beyond 64 bits.
    Range,
}

impl fmt::Display for DecimalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "not a decimal number such as -12.50",
            Self::Places => "the decimal number has more places than allowed",
            Self::Range => "the decimal number is beyond 64 bits",
        })
    }
}

impl std::error::Error for DecimalError {}

impl Decimal {
    /// The digits, as they came.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Below zero (`-0.00` is not).
    #[must_use]
    pub fn is_negative(&self) -> bool {
        self.0.starts_with('-') && !self.is_zero()
    }

    /// Zero, however written.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        let (mantissa, _) = self.split();
        mantissa.bytes().all(|byte| matches!(byte, b'-' | b'.' | b'0'))
    }

    /// The number in units of its `places`-th decimal place: `10.10` with two places is 1010. Exact or refused, never
    /// rounded.
    ///
    /// # Errors
    /// [`DecimalError::Places`] where digits would be lost, [`DecimalError::Range`] beyond 64 bits.
    pub fn scaled(&self, places: u32) -> Result<i64, DecimalError> {
        if self.is_zero() {
            return Ok(0);
        }
        let (mantissa, exponent) = self.split();
        let exponent: i64 = if exponent.is_empty() { 0 } else { exponent.parse().map_err(|_| DecimalError::Range)? };
        let unsigned = mantissa.trim_start_matches('-');
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        // The value is `digits` × 10^shift units, digits without zeros at its end.
        let digits = format!("{whole}{fraction}");
        let significant = digits.trim_end_matches('0');
        let count = |text: &str| i64::try_from(text.len()).map_err(|_| DecimalError::Range);
        let zeros = count(&digits)? - count(significant)?;
        let shift = i64::from(places) + zeros - count(fraction)? + exponent.clamp(-100_000, 100_000);
        let shift = u32::try_from(shift).map_err(|_| DecimalError::Places)?;
        let mut value: i64 = 0;
        for byte in significant.bytes() {
            let next = value.checked_mul(10).and_then(|value| value.checked_sub(i64::from(byte - b'0')));
            value = next.ok_or(DecimalError::Range)?;
        }
        // Built below zero: that side reaches one further.
        let value =
            10_i64.checked_pow(shift).and_then(|factor| value.checked_mul(factor)).ok_or(DecimalError::Range)?;
        if mantissa.starts_with('-') { Ok(value) } else { value.checked_neg().ok_or(DecimalError::Range) }
    }

    fn split(&self) -> (&str, &str) {
        self.0.split_once(['e', 'E']).unwrap_or((&self.0, ""))
    }
}

/// `-`, digits, optionally a point and digits, optionally an exponent.
fn is_decimal(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = text.split_once(['e', 'E']).map_or((text, None), |(m, e)| (m, Some(e)));
    let unsigned = mantissa.strip_prefix('-').unwrap_or(mantissa);
    let (whole, fraction) = unsigned.split_once('.').map_or((unsigned, None), |(w, f)| (w, Some(f)));
    digits(whole)
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|e| e.len() <= 6 && digits(e.strip_prefix(['-', '+']).unwrap_or(e)))
}

impl FromStr for Decimal {
    type Err = DecimalError;

    fn from_str(text: &str) -> Result<Self, DecimalError> {
        if is_decimal(text) { Ok(Self(text.to_owned())) } else { Err(DecimalError::Syntax) }
    }
}

impl From<i64> for Decimal {
    fn from(number: i64) -> Self {
        Self(number.to_string())
    }
}

impl From<Decimal> for String {
    fn from(decimal: Decimal) -> Self {
        decimal.0
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer).map_err(|error| {
            let text = error.to_string();
            // What serde has buffered is of some type; what is no JSON, or ends too soon, is told as it is.
            if !text.starts_with("invalid type") {
                return error;
            }
            // Whoever read it adds the place.
            let text = text.split(" at line ").next().unwrap_or_default();
            D::Error::custom(format!("{text} (a Decimal cannot be read inside serde's `flatten` or `tag`)"))
        })?;
        let text = raw.get();
        let digits = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        if !is_decimal(digits) {
            return Err(D::Error::custom(DecimalError::Syntax));
        }
        Ok(if digits.len() == text.len() { Self(Box::<str>::from(raw).into()) } else { Self(digits.to_owned()) })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use super::*;

    fn json(text: &str) -> Result<Decimal, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn digits_survive() {
        for text in ["0", "-1", "10.10", "123456789012345678901234567890.000000001", "1e3", "2.50E-7"] {
            assert_eq!(json(text).unwrap().as_str(), text);
            assert_eq!(json(&format!("{text:?}")).unwrap().as_str(), text, "quoted");
            assert_eq!(text.parse::<Decimal>().unwrap().as_str(), text);
        }
    }

    #[test]
    fn what_is_no_decimal() {
        for text in ["", "-", ".5", "5.", "1,5", "+1", "0x10", "1e", "1e1234567", "NaN", " 1", "1 ", "1.2.3", "--1"] {
            assert_eq!(text.parse::<Decimal>(), Err(DecimalError::Syntax), "{text:?}");
        }
        for text in ["null", "true", "[]", "\"\"", "\"a\"", "\"\\u0031\""] {
            assert!(json(text).is_err(), "{text}");
        }
    }

    #[test]
    fn scaling_is_exact_or_refused() {
        let scaled = |text: &str, places| text.parse::<Decimal>().unwrap().scaled(places);
        assert_eq!(scaled("49.9", 2), Ok(4990));
        assert_eq!(scaled("-49.90", 2), Ok(-4990));
        assert_eq!(scaled("1500", 0), Ok(1500));
        assert_eq!(scaled("1500.00", 0), Ok(1500));
        assert_eq!(scaled("1.5e3", 0), Ok(1500));
        assert_eq!(scaled("15e-1", 1), Ok(15));
        assert_eq!(scaled("0.000", 0), Ok(0));
        assert_eq!(scaled("0.001", 2), Err(DecimalError::Places));
        assert_eq!(scaled("9223372036854775807", 0), Ok(i64::MAX));
        assert_eq!(scaled("-9223372036854775808", 0), Ok(i64::MIN));
        assert_eq!(scaled("9223372036854775808", 0), Err(DecimalError::Range));
        assert_eq!(scaled("1e30", 0), Err(DecimalError::Range));
        assert_eq!(scaled("0e999", 2), Ok(0));
    }

    #[test]
    fn a_float_in_between_is_refused() {
        #[derive(Debug, Deserialize)]
        struct Inner {
            #[allow(dead_code, reason = "only read by serde")]
            amount: Decimal,
        }
        #[derive(Debug, Deserialize)]
        struct Outer {
            #[serde(flatten)]
            #[allow(dead_code, reason = "only read by serde")]
            inner: Inner,
        }
        let error = serde_json::from_str::<Outer>(r#"{"amount":1.10}"#).unwrap_err().to_string();
        assert!(error.contains("cannot be read inside serde's `flatten`"), "{error}");
    }

    #[test]
    fn what_is_no_json_is_told_with_its_place_once_and_without_that_hint() {
        #[derive(Debug, Deserialize)]
        struct Event {
            #[allow(dead_code, reason = "only read by serde")]
            amount: Decimal,
        }
        for text in [r#"{"amount":"#, r#"{"amount":1."#, r#"{"amount":x}"#, r#"{"amount":"1"#] {
            let error = serde_json::from_str::<Event>(text).unwrap_err();
            let told = error.to_string();
            assert!(!told.contains("flatten") && told.matches(" at line ").count() == 1, "{text}: {told}");
            assert!(error.is_eof() || error.is_syntax(), "{text}: {told}");
        }
    }

    #[test]
    fn signs() {
        assert!("-0.01".parse::<Decimal>().unwrap().is_negative());
        assert!(!"-0.00".parse::<Decimal>().unwrap().is_negative());
        assert!(!"0.01".parse::<Decimal>().unwrap().is_negative());
    }
}
