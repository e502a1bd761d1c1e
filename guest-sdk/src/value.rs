//! Values of a row.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, Unexpected, Visitor},
};

use crate::{Decimal, Instant, Value};

/// What can stand in a column. The host casts it to the column's type and refuses what does not fit without loss: a
/// date, a uuid or an enum label is simply a text.
pub trait IntoValue {
    /// Turns into a value.
    fn into_value(self) -> Value;
}

macro_rules! into_value {
    ($($type:ty => $value:expr),+ $(,)?) => {
        $(impl IntoValue for $type {
            fn into_value(self) -> Value {
                let make: fn($type) -> Value = $value;
                make(self)
            }
        })+
    };
}

into_value! {
    Value => |value| value,
    bool => Value::Boolean,
    i8 => |n| Value::Integer(n.into()),
    i16 => |n| Value::Integer(n.into()),
    i32 => |n| Value::Integer(n.into()),
    i64 => Value::Integer,
    u8 => |n| Value::Integer(n.into()),
    u16 => |n| Value::Integer(n.into()),
    u32 => |n| Value::Integer(n.into()),
    u64 => |n| i64::try_from(n).map_or_else(|_| Value::Decimal(n.to_string()), Value::Integer),
    f32 => |n| Value::Real(n.into()),
    f64 => Value::Real,
    String => Value::Text,
    Vec<u8> => Value::Bytes,
    Decimal => |decimal| Value::Decimal(decimal.into()),
    Timestamp => |at| Value::Timestamp(at.into()),
    Json => |json| Value::Json(json.0),
}

impl IntoValue for &str {
    fn into_value(self) -> Value {
        Value::Text(self.to_owned())
    }
}

impl IntoValue for &[u8] {
    fn into_value(self) -> Value {
        Value::Bytes(self.to_vec())
    }
}

/// `None` is SQL NULL.
impl<T: IntoValue> IntoValue for Option<T> {
    fn into_value(self) -> Value {
        self.map_or(Value::Null, T::into_value)
    }
}

/// A point in time, as the event has it: RFC 3339 text, or a number of milliseconds since the epoch. The host parses
/// it, once, and rejects the event where it is none. As a row's value it may not be finer than a microsecond: the event is
/// rejected, since the value would have to be rounded. As the identity's `occurred_at` it may; the rest is left out.
///
/// ```
/// use tidegate_guest::Timestamp;
///
/// let at: Timestamp = serde_json::from_str(r#""2026-03-01T12:00:00.125+01:00""#).unwrap();
/// assert_eq!(at, Timestamp::rfc3339("2026-03-01T12:00:00.125+01:00"));
/// let at: Timestamp = serde_json::from_str("1772362800125").unwrap();
/// assert_eq!(at, Timestamp::UnixMs(1_772_362_800_125));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timestamp {
    /// Milliseconds since the epoch.
    UnixMs(i64),
    /// RFC 3339, with an offset.
    Rfc3339(String),
}

impl Timestamp {
    /// From a text, unchecked.
    #[must_use]
    pub fn rfc3339(text: impl Into<String>) -> Self {
        Self::Rfc3339(text.into())
    }
}

/// By hand: `#[serde(untagged)]` would keep a copy of each value to try one kind after the other.
impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = Timestamp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time: RFC 3339 text, or milliseconds since the epoch as a whole number")
            }

            fn visit_i64<E: Error>(self, ms: i64) -> Result<Timestamp, E> {
                Ok(Timestamp::UnixMs(ms))
            }

            fn visit_u64<E: Error>(self, ms: u64) -> Result<Timestamp, E> {
                let signed = i64::try_from(ms).map_err(|_| E::invalid_value(Unexpected::Unsigned(ms), &self))?;
                Ok(Timestamp::UnixMs(signed))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Timestamp, E> {
                Ok(Timestamp::rfc3339(text))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Timestamp, E> {
                Ok(Timestamp::Rfc3339(text))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl From<Timestamp> for Instant {
    fn from(at: Timestamp) -> Self {
        match at {
            Timestamp::Rfc3339(text) => Self::Rfc3339(text),
            Timestamp::UnixMs(ms) => Self::UnixMs(ms),
        }
    }
}

impl From<&Timestamp> for Instant {
    fn from(at: &Timestamp) -> Self {
        at.clone().into()
    }
}

/// A JSON text, for a column of type json or jsonb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json(String);

impl Json {
    /// Anything that serialises.
    ///
    /// # Errors
    /// Where it does not.
    pub fn of(content: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::to_string(content).map(Self)
    }

    /// A text that is JSON already; the host checks it.
    #[must_use]
    pub fn raw(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_language_type_becomes() {
        assert_eq!(None::<i64>.into_value(), Value::Null);
        assert_eq!(Some("a").into_value(), Value::Text("a".into()));
        assert_eq!(7_u64.into_value(), Value::Integer(7));
        assert_eq!(u64::MAX.into_value(), Value::Decimal("18446744073709551615".into()));
        assert_eq!(Json::raw("{}").into_value(), Value::Json("{}".into()));
    }

    #[test]
    fn a_time_is_a_text_or_whole_milliseconds() {
        let read = |json: &str| serde_json::from_str::<Timestamp>(json).map_err(|error| error.to_string());
        assert_eq!(read("-1"), Ok(Timestamp::UnixMs(-1)));
        assert_eq!(read("9223372036854775807"), Ok(Timestamp::UnixMs(i64::MAX)));
        assert_eq!(read(r#""2026-03-01T12:00:00Z""#), Ok(Timestamp::rfc3339("2026-03-01T12:00:00Z")));
        assert_eq!(read(r#""\u0031""#), Ok(Timestamp::rfc3339("1")), "the host says whether it is one");
        for no in ["1.5", "1e3", "9223372036854775808", "null", "true", "[]", "{}"] {
            let why = read(no).unwrap_err();
            assert!(why.contains("RFC 3339 text, or milliseconds"), "{no}: {why}");
        }
    }
}
