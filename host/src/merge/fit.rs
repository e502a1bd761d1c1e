//! Values against columns, before any SQL: what a column cannot hold exactly is this record's fault, found here.
//!
//! | kind | columns |
//! | --- | --- |
//! | boolean | boolean; SQLite INTEGER (0, 1) |
//! | integer | smallint, integer, bigint in range; numeric; real, double where exact; SQLite INTEGER |
//! | real | real, double; numeric by its shortest digits; integers where whole and within 2^53 |
//! | decimal | numeric within precision and scale; integers where whole; real, double; SQLite TEXT as digits |
//! | text | text, varchar, char within length; date, time, uuid; timestamptz as RFC 3339; timestamp; enum labels |
//! | bytes | bytea, SQLite BLOB; uuid from 16 bytes |
//! | json | json, jsonb; SQLite TEXT |
//! | timestamp | timestamptz; timestamp as UTC; SQLite INTEGER (microseconds since the epoch) |
//!
//! Anything else is refused. SQLite's columns are those of STRICT tables.

use std::fmt;

use bigdecimal::BigDecimal;

use super::{
    Cell, Column, ColumnType, Guard, Operation, Target, TypedChange,
    instant::{fit_instant, parse_date, parse_instant, parse_time, parse_utc},
    number::{
        decimal_to_int, fit_float, fit_int, fit_numeric, int_to_float, parse_decimal, real_to_decimal, real_to_int,
    },
};
use crate::{
    outcome::{Change, Rejection},
    value::Value,
};

/// The code of rejections made here.
pub const BAD_VALUE: &str = "bad-value";

/// Checks a change's values against the columns of its target and brings them into normal form. `target_index` and
/// `record` are carried along.
///
/// # Errors
/// A rejection that names target, column and the value's kind, never the value.
pub fn type_change(
    target: &Target,
    target_index: usize,
    record: usize,
    change: &Change,
) -> Result<TypedChange, Rejection> {
    let spec = &target.spec;
    let refuse = |text: String| Err(Rejection::new(BAD_VALUE, format!("target {}: {text}", spec.name)));
    // Invariant 7: whatever the plugin said of itself, only granted operations are written.
    if !spec.operations.contains(&change.operation) {
        return refuse(format!("the operation {:?} is not granted", change.operation).to_lowercase());
    }
    let guard = match spec.guard {
        Some(Guard::NewerBy(column) | Guard::Transition { column, .. }) => Some(column),
        None => None,
    };
    let delete: Vec<usize>;
    let all: Vec<usize>;
    let columns: &[usize] = if change.operation == Operation::Delete {
        delete = spec.key.iter().copied().chain(guard).collect();
        &delete
    } else {
        all = (0..target.columns.len()).collect();
        &all
    };
    if change.values.len() != columns.len() {
        return refuse(format!("{} values for {} columns", change.values.len(), columns.len()));
    }
    let mut cells = Vec::with_capacity(columns.len());
    for (&index, value) in columns.iter().zip(&change.values) {
        let column = &target.columns[index];
        let is_key = spec.key.contains(&index);
        let cell = fit(column, value, is_key).and_then(|cell| match cell {
            Cell::Null if is_key => Err("is part of the key and must not be NULL".into()),
            Cell::Null if guard == Some(index) => Err("decides by the guard and must not be NULL".into()),
            Cell::Null if !column.nullable => Err("must not be NULL".into()),
            cell => Ok(cell),
        });
        match cell {
            Ok(cell) => cells.push(cell),
            Err(why) => {
                return refuse(format!("column {} ({}), a {}: {why}", column.name, column.column_type, value.kind()));
            }
        }
    }
    Ok(TypedChange { record, target: target_index, operation: change.operation, cells })
}

/// One value into one column.
pub(super) fn fit(column: &Column, value: &Value, is_key: bool) -> Result<Cell, String> {
    use ColumnType as C;
    use Value as V;
    let other = || Err(format!("this column takes {}", column.column_type.takes()));
    Ok(match (value, &column.column_type) {
        (V::Null, _) => Cell::Null,
        (V::Boolean(b), C::Bool) => Cell::Bool(*b),
        (V::Boolean(b), C::LooseInteger) => Cell::Int(i64::from(*b)),
        (V::Integer(i), C::Int(width)) => Cell::Int(fit_int(*i, *width)?),
        (V::Integer(i), C::LooseInteger) => Cell::Int(*i),
        (V::Integer(i), C::Numeric(limits)) => Cell::Decimal(fit_numeric(BigDecimal::from(*i), *limits)?),
        (V::Integer(i), C::Float(width)) => Cell::float(int_to_float(*i, *width)?),
        (V::Real(r), C::Float(width)) => Cell::float(fit_float(*r, *width)?),
        (V::Real(r), C::Int(width)) => Cell::Int(fit_int(real_to_int(*r)?, *width)?),
        (V::Real(r), C::LooseInteger) => Cell::Int(real_to_int(*r)?),
        (V::Real(r), C::Numeric(limits)) => Cell::Decimal(fit_numeric(real_to_decimal(*r)?, *limits)?),
        (V::Decimal(d), C::Numeric(limits)) => Cell::Decimal(fit_numeric(parse_decimal(d)?, *limits)?),
        (V::Decimal(d), C::Int(width)) => Cell::Int(fit_int(decimal_to_int(&parse_decimal(d)?)?, *width)?),
        (V::Decimal(d), C::LooseInteger) => Cell::Int(decimal_to_int(&parse_decimal(d)?)?),
        (V::Decimal(d), C::Float(width)) => {
            parse_decimal(d)?;
            Cell::float(fit_float(d.parse().map_err(|_| "is no number".to_owned())?, *width)?)
        }
        (V::Decimal(d), C::LooseText) => {
            let number = parse_decimal(d)?;
            // As a key, equal numbers must be equal texts; elsewhere the digits stay as they were given.
            let number = if is_key { number.normalized() } else { number };
            Cell::Text(number.to_plain_string())
        }
        (V::Text(t), C::Text(limit)) => Cell::Text(fit_text(t, *limit)?.to_owned()),
        // The blanks at its end are no part of a char(n).
        (V::Text(t), C::Char(limit)) => Cell::Text(fit_text(t.trim_end_matches(' '), Some(*limit))?.to_owned()),
        (V::Text(t), C::LooseText) => Cell::Text(fit_text(t, None)?.to_owned()),
        (V::Text(t), C::Enum(labels)) => {
            if !labels.contains(t) {
                return Err("is none of the enum's labels".into());
            }
            Cell::Text(t.clone())
        }
        (V::Text(t), C::Date) => Cell::Date(parse_date(t)?),
        (V::Text(t), C::Time(digits)) => Cell::Text(parse_time(t, *digits)?),
        (V::Text(t), C::Timestamptz(digits)) => Cell::Timestamp(fit_instant(parse_instant(t)?, *digits)?),
        (V::Text(t), C::Timestamp(digits)) => Cell::Timestamp(fit_instant(parse_utc(t)?, *digits)?),
        (V::Text(t), C::Uuid) => Cell::Uuid(uuid::Uuid::try_parse(t).map_err(|_| "is no uuid".to_owned())?),
        (V::Bytes(b), C::Bytes) => Cell::Bytes(b.clone()),
        (V::Bytes(b), C::Uuid) => {
            Cell::Uuid(uuid::Uuid::from_slice(b).map_err(|_| "is no uuid: 16 bytes are expected".to_owned())?)
        }
        (V::Json(j), C::Json { binary }) => Cell::Json(fit_json(j, *binary)?.to_owned()),
        (V::Json(j), C::LooseText) => Cell::Text(fit_json(j, false)?.to_owned()),
        (V::Timestamp(t), C::Timestamptz(digits) | C::Timestamp(digits)) => Cell::Timestamp(fit_instant(*t, *digits)?),
        (V::Timestamp(t), C::LooseInteger) => Cell::Int(*t),
        _ => return other(),
    })
}

/// A column's text as the database gives it back, in normal form. `None` where it holds what no plugin could have given
/// (NaN, infinity, a date before Christ).
#[must_use]
pub fn read_text(column: &Column, text: String) -> Option<Cell> {
    match &column.column_type {
        ColumnType::Numeric(_) => parse_decimal(&text).ok().map(Cell::Decimal),
        ColumnType::Date => parse_date(&text).ok().map(Cell::Date),
        ColumnType::Time(_) => parse_time(&text, 6).ok().map(Cell::Text),
        ColumnType::Json { .. } => Some(Cell::Json(text)),
        ColumnType::Text(_) | ColumnType::Char(_) | ColumnType::Enum(_) | ColumnType::LooseText => {
            Some(Cell::Text(text))
        }
        ColumnType::Bool
        | ColumnType::Int(_)
        | ColumnType::Float(_)
        | ColumnType::Bytes
        | ColumnType::Timestamptz(_)
        | ColumnType::Timestamp(_)
        | ColumnType::Uuid
        | ColumnType::LooseInteger => None,
    }
}

/// Text without NUL, within a length in characters.
fn fit_text(text: &str, limit: Option<u32>) -> Result<&str, String> {
    if text.as_bytes().contains(&0) {
        return Err("contains a NUL character, which no text column holds".into());
    }
    if let Some(limit) = limit {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        if text.len() > limit {
            let length = text.chars().count();
            if length > limit {
                return Err(format!("has {length} characters, the column holds {limit}; it is never cut"));
            }
        }
    }
    Ok(text)
}

fn fit_json(text: &str, binary: bool) -> Result<&str, String> {
    // Skips over the text without building it, at any depth.
    serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|error| format!("is no JSON: {error}"))?;
    if binary && holds_nul(text) {
        return Err("contains \\u0000, which jsonb does not hold".into());
    }
    Ok(text)
}

/// Whether a valid JSON text escapes a NUL. A backslash that is itself escaped starts no escape.
fn holds_nul(text: &str) -> bool {
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|&b| b == b'\\') {
        if rest[at..].starts_with(b"\\u0000") {
            return true;
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    false
}

impl ColumnType {
    /// The kinds of values that fit, for error texts.
    fn takes(&self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Int(_) => "integer, or a whole decimal or real",
            Self::Numeric(_) => "decimal, integer or real",
            Self::Float(_) => "real, integer or decimal",
            Self::Text(_) | Self::Char(_) => "text",
            Self::Bytes => "bytes",
            Self::Timestamptz(_) | Self::Timestamp(_) => "timestamp, or text in RFC 3339",
            Self::Date => "text such as 2026-11-30",
            Self::Time(_) => "text such as 17:45:00",
            Self::Uuid => "text or 16 bytes",
            Self::Json { .. } => "json",
            Self::Enum(_) => "text",
            Self::LooseInteger => "integer, boolean, timestamp, or a whole decimal or real",
            Self::LooseText => "text, decimal or json",
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("boolean"),
            Self::Int(2) => f.write_str("smallint"),
            Self::Int(4) => f.write_str("integer"),
            Self::Int(_) => f.write_str("bigint"),
            Self::Numeric(None) => f.write_str("numeric"),
            Self::Numeric(Some((precision, scale))) => write!(f, "numeric({precision},{scale})"),
            Self::Float(4) => f.write_str("real"),
            Self::Float(_) => f.write_str("double precision"),
            Self::Text(None) => f.write_str("text"),
            Self::Text(Some(limit)) => write!(f, "varchar({limit})"),
            Self::Char(limit) => write!(f, "char({limit})"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamptz(6) => f.write_str("timestamptz"),
            Self::Timestamptz(digits) => write!(f, "timestamptz({digits})"),
            Self::Timestamp(6) => f.write_str("timestamp"),
            Self::Timestamp(digits) => write!(f, "timestamp({digits})"),
            Self::Date => f.write_str("date"),
            Self::Time(6) => f.write_str("time"),
            Self::Time(digits) => write!(f, "time({digits})"),
            Self::Uuid => f.write_str("uuid"),
            Self::Json { binary: false } => f.write_str("json"),
            Self::Json { binary: true } => f.write_str("jsonb"),
            Self::Enum(_) => f.write_str("an enum"),
            Self::LooseInteger => f.write_str("INTEGER"),
            Self::LooseText => f.write_str("TEXT"),
        }
    }
}
