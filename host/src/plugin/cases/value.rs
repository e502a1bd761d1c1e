//! A value of a row as TOML has it, and back: injective, so that equal texts are equal values.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use toml_edit::Key;

use crate::{
    instant::{Finer, parse_instant},
    value::Value,
};

/// Microseconds since the epoch of 0001-01-01 and of 9999-12-30, between which TOML and everybody else agree on times.
const TOML_TIMES: std::ops::Range<i64> = -62_135_596_800_000_000..253_402_214_400_000_000;

/// As one line of TOML's right side; only text with line breaks has more.
#[must_use]
pub fn show(value: &Value) -> String {
    match value {
        Value::Null => "{ null = true }".to_owned(),
        Value::Boolean(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Real(value) => real(*value),
        Value::Decimal(digits) => format!("{{ decimal = {} }}", text(digits)),
        Value::Text(value) => text(value),
        Value::Bytes(bytes) => format!("{{ base64 = \"{}\" }}", BASE64.encode(bytes)),
        Value::Json(json) => format!("{{ json = {} }}", text(json)),
        Value::Timestamp(micros) => time(*micros).unwrap_or_else(|| format!("{{ timestamp_us = {micros} }}")),
    }
}

/// The same for JSON: what JSON has no word for is said in an object of one, as in a case.
#[must_use]
pub fn show_json(value: &Value) -> serde_json::Value {
    use serde_json::json;
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Boolean(value) => json!(value),
        Value::Integer(value) => json!(value),
        Value::Real(value) if value.is_finite() => json!(value),
        Value::Real(value) => json!({"real": value.to_string()}),
        Value::Decimal(digits) => json!({"decimal": digits}),
        Value::Text(value) => json!(value),
        Value::Bytes(bytes) => json!({"base64": BASE64.encode(bytes)}),
        Value::Json(json) => json!({"json": json}),
        Value::Timestamp(micros) => match time(*micros) {
            Some(time) => json!({"timestamp": time}),
            None => json!({"timestamp_us": micros}),
        },
    }
}

/// A string of TOML.
pub(super) fn text(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

/// A key of TOML.
pub(super) fn key(name: &str) -> String {
    Key::new(name).to_string()
}

fn real(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    toml_edit::Value::from(value).to_string()
}

/// A time of TOML, where it has one.
pub(super) fn time(micros: i64) -> Option<String> {
    if !TOML_TIMES.contains(&micros) {
        return None;
    }
    jiff::Timestamp::from_microsecond(micros).ok().map(|time| time.to_string())
}

/// Reads a value; the error says what is allowed.
pub(super) fn read(value: &toml::Value) -> Result<Value, String> {
    Ok(match value {
        toml::Value::String(text) => Value::Text(text.clone()),
        toml::Value::Integer(number) => Value::Integer(*number),
        toml::Value::Float(number) => Value::Real(*number),
        toml::Value::Boolean(value) => Value::Boolean(*value),
        toml::Value::Datetime(time) => Value::Timestamp(read_time(time)?),
        toml::Value::Table(table) => tagged(table)?,
        toml::Value::Array(_) => return Err(format!("is an array; {ALLOWED}")),
    })
}

/// Microseconds since the epoch.
pub(super) fn read_time(time: &toml::value::Datetime) -> Result<i64, String> {
    parse_instant(&time.to_string(), Finer::Refused).map_err(|wrong| format!("{time} {wrong}"))
}

const ALLOWED: &str = "a value is a string, a number, true or false, a time with an offset, or one of { decimal = \"1.50\" }, \
                       { json = \"{}\" }, { base64 = \"AA==\" }, { null = true }, { timestamp_us = 0 }";

fn tagged(table: &toml::Table) -> Result<Value, String> {
    let mut entries = table.iter();
    let (Some((tag, value)), None) = (entries.next(), entries.next()) else {
        return Err(format!("is a table of {} entries; {ALLOWED}", table.len()));
    };
    Ok(match (tag.as_str(), value) {
        ("decimal", toml::Value::String(digits)) => Value::Decimal(digits.clone()),
        ("json", toml::Value::String(json)) => Value::Json(json.clone()),
        ("base64", toml::Value::String(base64)) => Value::Bytes(bytes(base64)?),
        ("null", toml::Value::Boolean(true)) => Value::Null,
        ("timestamp_us", toml::Value::Integer(micros)) => Value::Timestamp(*micros),
        _ => return Err(format!("says {tag} = {value}; {ALLOWED}")),
    })
}

/// Base64 with padding.
pub(super) fn bytes(base64: &str) -> Result<Vec<u8>, String> {
    BASE64.decode(base64).map_err(|error| format!("is no base64: {error}"))
}

/// To base64 with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}
