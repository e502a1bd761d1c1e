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
    instant::{fit_instant, parse_date, parse_time},
    number::{
        decimal_to_int, fit_float, fit_int, fit_numeric, int_to_float, parse_decimal, plain_digits, real_to_decimal,
        real_to_int,
    },
};
use crate::{
    instant::{Finer, parse_instant, parse_utc},
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
    change: Change,
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
    for (&index, value) in columns.iter().zip(change.values) {
        let column = &target.columns[index];
        let kind = value.kind();
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
                return refuse(format!("column {} ({}), a {kind}: {why}", column.name, column.column_type));
            }
        }
    }
    Ok(TypedChange { record, target: target_index, operation: change.operation, cells })
}

/// One value into one column.
pub(super) fn fit(column: &Column, value: Value, is_key: bool) -> Result<Cell, String> {
    use ColumnType as C;
    use Value as V;
    let other = || Err(format!("this column takes {}", column.column_type.takes()));
    Ok(match (value, &column.column_type) {
        (V::Null, _) => Cell::Null,
        (V::Boolean(b), C::Bool) => Cell::Bool(b),
        (V::Boolean(b), C::LooseInteger) => Cell::Int(i64::from(b)),
        (V::Integer(i), C::Int(width)) => Cell::Int(fit_int(i, *width)?),
        (V::Integer(i), C::LooseInteger) => Cell::Int(i),
        (V::Integer(i), C::Numeric(limits)) => Cell::Decimal(fit_numeric(BigDecimal::from(i), *limits)?),
        (V::Integer(i), C::Float(width)) => Cell::float(int_to_float(i, *width)?),
        (V::Real(r), C::Float(width)) => Cell::float(fit_float(r, *width)?),
        (V::Real(r), C::Int(width)) => Cell::Int(fit_int(real_to_int(r)?, *width)?),
        (V::Real(r), C::LooseInteger) => Cell::Int(real_to_int(r)?),
        (V::Real(r), C::Numeric(limits)) => Cell::Decimal(fit_numeric(real_to_decimal(r)?, *limits)?),
        (V::Decimal(d), C::Numeric(limits)) => Cell::Decimal(fit_numeric(parse_decimal(&d)?, *limits)?),
        (V::Decimal(d), C::Int(width)) => Cell::Int(fit_int(decimal_to_int(&parse_decimal(&d)?)?, *width)?),
        (V::Decimal(d), C::LooseInteger) => Cell::Int(decimal_to_int(&parse_decimal(&d)?)?),
        (V::Decimal(d), C::Float(width)) => {
            parse_decimal(&d)?;
            Cell::float(fit_float(d.parse().map_err(|_| "is no number".to_owned())?, *width)?)
        }
        (V::Decimal(d), C::LooseText) => {
            let number = parse_decimal(&d)?;
            // As a key, equal numbers must be equal texts; elsewhere the digits stay as they were given.
            let number = if is_key { number.normalized() } else { number };
            Cell::Text(plain_digits(&number))
        }
        (V::Text(t), C::Text(limit)) => Cell::Text(fit_text(t, *limit)?),
        // The blanks at its end are no part of a char(n).
        (V::Text(t), C::Char(limit)) => Cell::Text(fit_text(t.trim_end_matches(' ').to_owned(), Some(*limit))?),
        (V::Text(t), C::LooseText) => Cell::Text(fit_text(t, None)?),
        (V::Text(t), C::Enum(labels)) => {
            if !labels.contains(&t) {
                return Err("is none of the enum's labels".into());
            }
            Cell::Text(t)
        }
        (V::Text(t), C::Date) => Cell::Date(parse_date(&t)?),
        (V::Text(t), C::Time(digits)) => Cell::Text(parse_time(&t, *digits)?),
        (V::Text(t), C::Timestamptz(digits)) => {
            Cell::Timestamp(fit_instant(parse_instant(&t, Finer::Refused)?, *digits)?)
        }
        (V::Text(t), C::Timestamp(digits)) => Cell::Timestamp(fit_instant(parse_utc(&t, Finer::Refused)?, *digits)?),
        (V::Text(t), C::Uuid) => Cell::Uuid(uuid::Uuid::try_parse(&t).map_err(|_| "is no uuid".to_owned())?),
        (V::Bytes(b), C::Bytes) => Cell::Bytes(b),
        (V::Bytes(b), C::Uuid) => {
            Cell::Uuid(uuid::Uuid::from_slice(&b).map_err(|_| "is no uuid: 16 bytes are expected".to_owned())?)
        }
        (V::Json(j), C::Json { binary }) => Cell::Json(fit_json(j, *binary)?),
        (V::Json(j), C::LooseText) => Cell::Text(fit_json(j, false)?),
        (V::Timestamp(t), C::Timestamptz(digits) | C::Timestamp(digits)) => Cell::Timestamp(fit_instant(t, *digits)?),
        (V::Timestamp(t), C::LooseInteger) => Cell::Int(t),
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
fn fit_text(text: String, limit: Option<u32>) -> Result<String, String> {
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

fn fit_json(text: String, binary: bool) -> Result<String, String> {
    // Skips over the text without building it, at any depth.
    serde_json::from_str::<serde::de::IgnoredAny>(&text).map_err(|error| format!("is no JSON: {error}"))?;
    if depth(&text) > DEEPEST {
        return Err(format!("is nested deeper than {DEEPEST}, which exhausts the database's stack"));
    }
    if let Some(why) = not_for_jsonb(&text).filter(|_| binary) {
        return Err(why.into());
    }
    Ok(text)
}

/// Lists and objects within each other. PostgreSQL's parser needs stack for each; so does whoever reads it.
const DEEPEST: usize = 500;

/// How deep a valid JSON text is nested.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// What jsonb does not hold of a valid JSON text: an escaped NUL, or half of a surrogate pair. A backslash that is itself
/// escaped starts no escape.
fn not_for_jsonb(text: &str) -> Option<&'static str> {
    let mut rest = text.as_bytes();
    let code = |at: &[u8]| {
        let digits = at.strip_prefix(b"\\u").and_then(|digits| digits.get(..4))?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    while let Some(at) = rest.iter().position(|&b| b == b'\\') {
        rest = &rest[at..];
        let skipped = match code(rest) {
            Some(0) => return Some("contains \\u0000, which jsonb does not hold"),
            Some(0xd800..=0xdbff) if code(&rest[6..]).is_some_and(|low| (0xdc00..=0xdfff).contains(&low)) => 12,
            Some(0xd800..=0xdfff) => return Some("contains half of a surrogate pair, which jsonb does not hold"),
            Some(_) => 6,
            None => 2,
        };
        rest = rest.get(skipped..).unwrap_or_default();
    }
    None
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::{super::testing::*, *};
    use crate::merge::{Merge, resolve};

    fn fits(column_type: ColumnType, value: Value) -> Result<Cell, String> {
        let column =
            Column { name: "c".into(), sql_type: String::new(), column_type, nullable: true, host_compares: true };
        fit(&column, value, false)
    }

    fn text(t: &str) -> Value {
        Value::Text(t.into())
    }

    #[test]
    fn every_kind_goes_where_it_makes_sense_and_nowhere_else() {
        use ColumnType as C;
        let uuid = "0192f0c1-2d3e-7f00-8000-000000000001";
        let columns = [
            C::Bool,
            C::Int(4),
            C::Numeric(Some((12, 2))),
            C::Float(8),
            C::Text(Some(40)),
            C::Char(40),
            C::Bytes,
            C::Timestamptz(6),
            C::Timestamp(6),
            C::Date,
            C::Time(6),
            C::Uuid,
            C::Json { binary: true },
            C::Enum(vec![uuid.into()]),
            C::LooseInteger,
            C::LooseText,
        ];
        // One row per kind of value; the columns that take it.
        let takes: [(Value, &[usize]); 8] = [
            (Value::Boolean(true), &[0, 14]),
            (Value::Integer(7), &[1, 2, 3, 14]),
            (Value::Real(7.0), &[1, 2, 3, 14]),
            (Value::Decimal("7".into()), &[1, 2, 3, 14, 15]),
            (text(uuid), &[4, 5, 11, 13, 15]),
            (Value::Bytes(vec![7; 16]), &[6, 11]),
            (Value::Json("[7]".into()), &[12, 15]),
            (Value::Timestamp(7), &[7, 8, 14]),
        ];
        for (value, expected) in takes {
            for (i, column) in columns.iter().enumerate() {
                let taken = fits(column.clone(), value.clone()).is_ok();
                assert_eq!(taken, expected.contains(&i), "{value:?} into {column}");
            }
        }
        for column in columns {
            assert_eq!(fits(column, Value::Null), Ok(Cell::Null));
        }
    }

    #[test]
    fn what_is_nested_too_deep_is_refused_and_brackets_in_texts_do_not_count() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for (text, expected) in [("1", 0), ("[{}, [\"]\\\"[[[\"]]", 2), ("{\"[\":{\"\\\\\":[]}}", 3)] {
            assert_eq!(depth(text), expected, "{text}");
        }
        for binary in [false, true] {
            let column = || ColumnType::Json { binary };
            assert!(fits(column(), Value::Json(nested(DEEPEST))).is_ok());
            let error = fits(column(), Value::Json(nested(DEEPEST + 1))).unwrap_err();
            assert!(error.contains("nested deeper"), "{error}");
        }
    }

    #[test]
    fn nothing_is_rounded_cut_or_guessed() {
        use ColumnType as C;
        let refused = [
            (C::Numeric(Some((12, 2))), Value::Decimal("10.005".into())),
            (C::Numeric(Some((12, 2))), Value::Real(10.005)),
            (C::Int(2), Value::Integer(40_000)),
            (C::Int(8), Value::Decimal("1.5".into())),
            (C::Float(8), Value::Real(f64::NAN)),
            (C::Float(8), Value::Real(f64::INFINITY)),
            (C::Text(Some(3)), text("éééé")),
            (C::Text(None), text("a\0b")),
            (C::LooseText, text("a\0b")),
            (C::Timestamptz(6), text("2026-11-30T12:00:00")),
            (C::Timestamptz(3), Value::Timestamp(1)),
            (C::Date, text("2026-02-30")),
            (C::Uuid, text("no-uuid")),
            (C::Uuid, Value::Bytes(vec![1])),
            (C::Enum(vec!["new".into()]), text("old")),
            (C::Json { binary: true }, Value::Json("{".into())),
            (C::Json { binary: true }, Value::Json(r#"{"a": "\u0000"}"#.into())),
        ];
        for (column, value) in refused {
            assert!(fits(column.clone(), value.clone()).is_err(), "{value:?} into {column}");
        }
        // Looks like an escaped NUL, but is a backslash and four digits.
        assert!(fits(C::Json { binary: true }, Value::Json(r#""\\u0000""#.into())).is_ok());
        for (json, holds) in [
            (r#""\ud83e\udd80""#, true),
            (r#""\uD83E\uDD80x\n""#, true),
            (r#""\ud83e""#, false),
            (r#""\udd80\ud83e""#, false),
            (r#""\ud83e\u0041""#, false),
            (r#""\\ud83e""#, true),
        ] {
            assert_eq!(fits(C::Json { binary: true }, Value::Json(json.into())).is_ok(), holds, "{json}");
            assert!(fits(C::Json { binary: false }, Value::Json(json.into())).is_ok(), "{json}");
        }
        assert!(fits(C::Text(Some(3)), text("ééé")).is_ok());
    }

    #[test]
    fn equal_values_have_one_form() {
        use ColumnType as C;
        let same = |column: C, a: Value, b: Value| assert_eq!(fits(column.clone(), a), fits(column, b));
        same(C::Numeric(None), Value::Decimal("1.50".into()), Value::Decimal("1.5".into()));
        same(C::Char(5), text("a "), text("a"));
        same(C::Float(8), Value::Real(-0.0), Value::Real(0.0));
        same(C::Timestamptz(6), text("1970-01-01T01:00:00+01:00"), Value::Timestamp(0));
        let key = Column {
            name: "c".into(),
            sql_type: String::new(),
            column_type: C::LooseText,
            nullable: false,
            host_compares: false,
        };
        let as_key = |digits: &str| fit(&key, Value::Decimal(digits.into()), true);
        assert_eq!(as_key("1.50"), as_key("1.5"));
    }

    #[test]
    fn a_rejection_names_target_column_and_kind_but_never_the_value() {
        let declared = spec(&[Merge::Replace], Some(Guard::NewerBy(1)));
        let target = resolve(&declared, &info(&[ColumnType::Int(8)])).unwrap();
        let change = |values| Change { target: 0, operation: Operation::Upsert, values };
        let refused = |values| type_change(&target, 0, 0, change(values)).unwrap_err();
        let error = refused(vec![text("id"), text("secret")]);
        assert_eq!(error.code, BAD_VALUE);
        assert!(error.message.contains("target rows: column c1 (bigint), a text"), "{}", error.message);
        assert!(!error.message.contains("secret"));
        assert!(refused(vec![Value::Null, Value::Integer(1)]).message.contains("part of the key"));
        assert!(refused(vec![text("id"), Value::Null]).message.contains("decides by the guard"));
        assert!(refused(vec![text("id")]).message.contains("1 values for 2 columns"));
        let delete = Change { target: 0, operation: Operation::Delete, values: vec![text("id"), Value::Integer(1)] };
        assert!(type_change(&target, 0, 0, delete).unwrap_err().message.contains("not granted"));
    }
}
