//! The input's half of a case.

use bytes::Bytes;
use serde::Deserialize;

use super::{Input, value};
use crate::{config::Payload, record::Header};

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawPayload {
    Text,
    Binary,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHeader {
    name: String,
    value: Option<String>,
    value_base64: Option<String>,
}

pub(super) struct RawInput {
    pub(super) source: Option<String>,
    pub(super) payload: Option<RawPayload>,
    pub(super) key: Option<String>,
    pub(super) key_base64: Option<String>,
    pub(super) body: Option<String>,
    pub(super) body_base64: Option<String>,
    pub(super) tombstone: bool,
    pub(super) headers: Vec<RawHeader>,
    pub(super) record_time: Option<toml::value::Datetime>,
}

pub(super) fn read(raw: RawInput) -> Result<Input, String> {
    let body = either("body", raw.body, raw.body_base64)?;
    match (&body, raw.tombstone) {
        (None, false) => return Err("a case needs its body, body_base64 or tombstone = true".to_owned()),
        (Some(_), true) => return Err("a tombstone has no body".to_owned()),
        _ => {}
    }
    let record_time_ms = match raw.record_time {
        None => None,
        Some(time) => Some(value::read_time(&time).and_then(milliseconds).map_err(|e| format!("record_time {e}"))?),
    };
    let header = |raw: RawHeader| {
        let value = either(&format!("header {}: value", raw.name), raw.value, raw.value_base64)?;
        Ok(Header { name: raw.name, value })
    };
    Ok(Input {
        source: raw.source.unwrap_or_else(|| "default".to_owned()),
        payload: match raw.payload {
            Some(RawPayload::Binary) => Payload::Binary,
            Some(RawPayload::Text) | None => Payload::Text,
        },
        key: either("key", raw.key, raw.key_base64)?,
        body,
        headers: raw.headers.into_iter().map(header).collect::<Result<_, String>>()?,
        record_time_ms,
    })
}

fn milliseconds(micros: i64) -> Result<i64, String> {
    if micros % 1000 == 0 { Ok(micros / 1000) } else { Err("is finer than Kafka's milliseconds".to_owned()) }
}

fn either(what: &str, text: Option<String>, base64: Option<String>) -> Result<Option<Bytes>, String> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(format!("{what} and {what}_base64: give one of them")),
        (Some(text), None) => Ok(Some(Bytes::from(text))),
        (None, Some(base64)) => {
            value::bytes(&base64).map(|bytes| Some(bytes.into())).map_err(|wrong| format!("{what}_base64 {wrong}"))
        }
        (None, None) => Ok(None),
    }
}

/// Settings as the plugin gets them: JSON. A time becomes text, as in a consumer's settings.
pub(super) fn json_table(table: toml::Table) -> serde_json::Value {
    serde_json::Value::Object(table.into_iter().map(|(key, value)| (key, json(value))).collect())
}

fn json(value: toml::Value) -> serde_json::Value {
    match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(value) => value.into(),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(values) => values.into_iter().map(json).collect(),
        toml::Value::Table(table) => json_table(table),
    }
}
