//! A value as a plugin gives it, before it meets a column.

/// What stands in a row. Instants are already microseconds since the epoch: the host parses RFC 3339 once.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// SQL NULL.
    Null,
    /// true or false.
    Boolean(bool),
    /// A 64-bit integer.
    Integer(i64),
    /// A double. NaN and infinities are refused.
    Real(f64),
    /// Digits as in SQL, for decimals and for integers that a language cannot hold exactly.
    Decimal(String),
    /// Text; also a date, a time, a uuid, an enum's label, an instant in RFC 3339.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A JSON text.
    Json(String),
    /// Microseconds since the epoch.
    Timestamp(i64),
}

impl Value {
    /// The kind's name in the contract, for error texts.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "boolean",
            Self::Integer(_) => "integer",
            Self::Real(_) => "real",
            Self::Decimal(_) => "decimal",
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytes",
            Self::Json(_) => "json",
            Self::Timestamp(_) => "timestamp",
        }
    }
}
