//! From a case's text to the case. Unknown keys are refused: a misspelt `[[changes]]` would expect nothing.

use serde::Deserialize;

use super::{
    Answer, Case, RowChange, Says, Who,
    input::{self, RawInput},
    value,
};
use crate::merge::Operation;

/// The file's form. (`flatten` and `deny_unknown_fields` do not go together, so the input's keys are repeated here.)
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    settings: Option<toml::Table>,
    source: Option<String>,
    payload: Option<input::RawPayload>,
    key: Option<String>,
    key_base64: Option<String>,
    body: Option<String>,
    body_base64: Option<String>,
    #[serde(default)]
    tombstone: bool,
    #[serde(default)]
    headers: Vec<input::RawHeader>,
    record_time: Option<toml::value::Datetime>,

    identity: Option<RawWho>,
    change: Option<Vec<RawChange>>,
    skip: Option<RawSkip>,
    reject: Option<RawReject>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWho {
    message_id: String,
    aggregate_id: String,
    occurred_at: Option<toml::Value>,
    fingerprint: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawChange {
    upsert: Option<String>,
    update: Option<String>,
    delete: Option<String>,
    row: toml::Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSkip {
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReject {
    code: String,
    message: Option<String>,
}

/// Reads a case.
///
/// # Errors
/// What is wrong, with the place where TOML knows it, and what is allowed.
pub fn parse(name: &str, text: &str) -> Result<Case, String> {
    let raw: Raw = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    let expected = expected(raw.identity, raw.change, raw.skip, raw.reject)?;
    let settings = raw.settings.map(input::json_table).unwrap_or_else(|| serde_json::Value::Object(Default::default()));
    let input = input::read(RawInput {
        source: raw.source,
        payload: raw.payload,
        key: raw.key,
        key_base64: raw.key_base64,
        body: raw.body,
        body_base64: raw.body_base64,
        tombstone: raw.tombstone,
        headers: raw.headers,
        record_time: raw.record_time,
    })?;
    Ok(Case { name: name.to_owned(), settings, input, expected })
}

fn expected(
    identity: Option<RawWho>,
    change: Option<Vec<RawChange>>,
    skip: Option<RawSkip>,
    reject: Option<RawReject>,
) -> Result<Option<Answer>, String> {
    let says = match (change, skip, reject) {
        (Some(changes), None, None) => Says::Apply(changes.into_iter().map(row_change).collect::<Result<_, _>>()?),
        (None, Some(skip), None) => Says::Skip(skip.reason),
        (None, None, Some(reject)) => Says::Reject(reject.code, reject.message),
        // An identity alone: applied, and nothing changes.
        (None, None, None) if identity.is_some() => Says::Apply(Vec::new()),
        (None, None, None) => return Ok(None),
        _ => return Err("a case has one of [[change]], [skip] and [reject]".to_owned()),
    };
    if matches!(says, Says::Apply(_)) && identity.is_none() {
        return Err("a case with [[change]] needs its [identity]: nothing is applied without one".to_owned());
    }
    Ok(Some(Answer { identity: identity.map(who).transpose()?, says }))
}

fn who(raw: RawWho) -> Result<Who, String> {
    let at = |wrong: String| format!("identity.occurred_at {wrong}");
    let occurred_at_us = match raw.occurred_at {
        None => None,
        Some(time) => match value::read(&time).map_err(at)? {
            crate::value::Value::Timestamp(micros) => Some(micros),
            _ => return Err(at("is no time such as 2026-03-01T12:00:00Z".to_owned())),
        },
    };
    let fingerprint = raw.fingerprint.map(|hex| fingerprint(&hex)).transpose()?;
    Ok(Who { message_id: raw.message_id, aggregate_id: raw.aggregate_id, occurred_at_us, fingerprint })
}

fn fingerprint(hex: &str) -> Result<[u8; 16], String> {
    let mut bytes = [0; 16];
    hex::decode_to_slice(hex, &mut bytes).map_err(|_| "identity.fingerprint is no 32 hexadecimal digits")?;
    Ok(bytes)
}

fn row_change(raw: RawChange) -> Result<RowChange, String> {
    let (operation, target) = match (raw.upsert, raw.update, raw.delete) {
        (Some(target), None, None) => (Operation::Upsert, target),
        (None, Some(target), None) => (Operation::Update, target),
        (None, None, Some(target)) => (Operation::Delete, target),
        _ => return Err("a [[change]] has one of upsert, update and delete = \"TARGET\"".to_owned()),
    };
    let value = |(column, value): (String, toml::Value)| {
        let value = value::read(&value).map_err(|wrong| format!("{target}: row.{column} {wrong}"))?;
        Ok((column, value))
    };
    let row = raw.row.into_iter().map(value).collect::<Result<_, String>>()?;
    Ok(RowChange { operation, target, row })
}
