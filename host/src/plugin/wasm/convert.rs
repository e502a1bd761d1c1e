//! Between the host's types and the contract's. Answers are moved, not copied.

use super::bindings::{exports::tidegate::plugin::processor as out, tidegate::plugin::types as wit};
use crate::{
    instant::Finer,
    merge::Operation,
    plugin::{Accepted, Body, ComputeResult, Computed, KeyResult, Message, RawIdentity, RawInstant, Shape, instant},
    value::Value,
};

/// The headers of a batch, one message's after the other's: [`messages`] borrows from them.
pub(super) fn headers(batch: &[Message]) -> Vec<wit::Header<'_>> {
    let headers = batch.iter().flat_map(|message| &message.headers);
    headers.map(|header| wit::Header { name: &header.name, value: header.value.as_deref() }).collect()
}

/// Borrows a batch for the call. `headers` are those of the same batch.
pub(super) fn messages<'a>(batch: &'a [Message], mut headers: &'a [wit::Header<'a>]) -> Vec<out::Message<'a>> {
    let mut lowered = Vec::with_capacity(batch.len());
    for message in batch {
        let (own, others) = headers.split_at(message.headers.len());
        headers = others;
        let body = match &message.body {
            Body::Absent => wit::Body::Absent,
            Body::Binary(bytes) => wit::Body::Binary(bytes),
            // Checked when the message was made; checking again costs less than the proof that it was.
            Body::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => wit::Body::Text(text),
                Err(_) => wit::Body::Binary(bytes),
            },
        };
        lowered.push(wit::Message { source: &message.source, key: message.key.as_deref(), body, headers: own });
    }
    lowered
}

/// Copies what is asked for.
pub(super) fn accepted(accepted: &[Accepted]) -> Vec<out::Accepted> {
    let one = |one: &Accepted| wit::Accepted { index: one.index, record_time_ms: one.record_time_ms, seed: one.seed };
    accepted.iter().map(one).collect()
}

/// Takes what extract-keys said.
pub(super) fn keys(keys: Vec<out::KeyResult>) -> Vec<KeyResult> {
    keys.into_iter().map(key).collect()
}

fn key(key: wit::KeyResult) -> KeyResult {
    match key {
        wit::KeyResult::Identity(identity) => KeyResult::Identity(RawIdentity {
            message_id: identity.message_id,
            aggregate_id: identity.aggregate_id,
            occurred_at: identity.occurred_at.map(time),
            fingerprint: identity.fingerprint,
        }),
        wit::KeyResult::Skip(why) => KeyResult::Skip(why),
        wit::KeyResult::Reject(no) => KeyResult::Reject(no.code, no.message),
    }
}

fn time(time: wit::Instant) -> RawInstant {
    match time {
        wit::Instant::Rfc3339(text) => RawInstant::Rfc3339(text),
        wit::Instant::UnixMs(ms) => RawInstant::UnixMs(ms),
    }
}

/// Takes what compute said.
pub(super) fn computed(computed: out::Computed) -> Computed {
    Computed {
        shapes: computed.shapes.into_iter().map(shape).collect(),
        results: computed.results.into_iter().map(result).collect(),
    }
}

fn shape(shape: wit::Shape) -> Shape {
    let operation = match shape.operation {
        wit::Operation::Upsert => Operation::Upsert,
        wit::Operation::Update => Operation::Update,
        wit::Operation::Delete => Operation::Delete,
    };
    Shape { operation, target: shape.target, columns: shape.columns }
}

fn result(result: wit::ComputeResult) -> ComputeResult {
    let changes = match result {
        wit::ComputeResult::Changes(changes) => changes,
        wit::ComputeResult::Skip(why) => return ComputeResult::Skip(why),
        wit::ComputeResult::Reject(no) => return ComputeResult::Reject(no.code, no.message),
    };
    let mut rows = Vec::with_capacity(changes.len());
    for change in changes {
        let values: Result<Vec<Value>, String> = change.values.into_iter().map(value).collect();
        match values {
            Ok(values) => rows.push((change.shape, values)),
            // A time that is none is this event's own fault.
            Err(message) => return ComputeResult::Reject("bad-timestamp".to_owned(), message),
        }
    }
    ComputeResult::Changes(rows)
}

fn value(value: wit::Value) -> Result<Value, String> {
    Ok(match value {
        wit::Value::Null => Value::Null,
        wit::Value::Boolean(b) => Value::Boolean(b),
        wit::Value::Integer(n) => Value::Integer(n),
        wit::Value::Real(n) => Value::Real(n),
        wit::Value::Decimal(digits) => Value::Decimal(digits),
        wit::Value::Text(text) => Value::Text(text),
        wit::Value::Bytes(bytes) => Value::Bytes(bytes),
        wit::Value::Json(text) => Value::Json(text),
        wit::Value::Timestamp(at) => Value::Timestamp(instant::to_micros(&time(at), Finer::Refused)?),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_value_finer_than_a_microsecond_is_refused() {
        let at = |text: &str| value(wit::Value::Timestamp(wit::Instant::Rfc3339(text.into())));
        assert_eq!(at("1970-01-01T00:00:00.000001Z").unwrap(), Value::Timestamp(1));
        assert!(at("1970-01-01T00:00:00.0000011Z").is_err());
    }
}
