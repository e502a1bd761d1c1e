//! What a plugin gets to see of a record, and what never reaches it.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    config::{Payload, Tombstones},
    outcome::{Rejection, Verdict},
    record::{Header, Record},
};

/// What a plugin sees of an input (Invariant 4: nothing of where it came from). [`Message::of`] alone makes one, so that a
/// plugin sees the same on the path, in its golden cases, in a check, a dry run, a capture and as a shadow.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::manual_non_exhaustive, reason = "this crate is not to make one by hand either")]
pub struct Message {
    /// The alias of the topic in the configuration.
    pub source: Arc<str>,
    /// The record's key.
    pub key: Option<Bytes>,
    /// The record's value.
    pub body: Body,
    /// The record's headers, less those that carry a position.
    pub headers: Vec<Header>,
    /// Nobody else makes one.
    _of_a_record: (),
}

/// A record's value as the consumer's `payload` setting says.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A tombstone.
    Absent,
    /// Checked UTF-8.
    Text(Bytes),
    /// As it is.
    Binary(Bytes),
}

impl Message {
    /// What a plugin sees of a record under its topic's alias. Built from key, value and headers alone: the record's offset
    /// is not looked at, and its partition is not at hand (Invariant 4).
    ///
    /// # Errors
    /// The verdict on what the plugin is not asked about.
    pub fn of(record: &Record, source: &Arc<str>, payload: Payload, tombstones: Tombstones) -> Result<Self, Verdict> {
        let body = match (&record.payload, tombstones, payload) {
            (None, Tombstones::Skip, _) => return Err(Verdict::Skip("tombstone".to_owned())),
            (None, Tombstones::Plugin, _) => Body::Absent,
            (Some(bytes), _, Payload::Binary) => Body::Binary(bytes.clone()),
            (Some(bytes), _, Payload::Text) => match std::str::from_utf8(bytes) {
                Ok(_) => Body::Text(bytes.clone()),
                Err(error) => {
                    let text = format!(
                        "the payload is not UTF-8 from byte {} on; set payload = \"binary\" for a plugin that reads bytes",
                        error.valid_up_to()
                    );
                    return Err(Verdict::Reject(Rejection::new("payload-not-utf8", text)));
                }
            },
        };
        let headers = record.headers.iter().filter(|header| !bears_position(header)).cloned().collect();
        Ok(Self { source: Arc::clone(source), key: record.key.clone(), body, headers, _of_a_record: () })
    }

    /// The same with another body.
    #[must_use]
    pub fn with_body(&self, body: Body) -> Self {
        Self { body, ..self.clone() }
    }
}

impl Body {
    /// Its bytes; `None` for a tombstone.
    #[must_use]
    pub fn bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Absent => None,
            Self::Text(bytes) | Self::Binary(bytes) => Some(bytes),
        }
    }
}

/// Whether a header says where the record came from. Mirrors, retry topics and dead-letter publishers write such headers
/// (`kafka_dlt-original-offset`, `__connect.errors.partition`): a key made from one would change with every
/// re-publication. Judged by the words of the name, so that CloudEvents' `partitionkey` stays.
fn bears_position(header: &Header) -> bool {
    let mut word = String::new();
    let mut last = '-';
    for c in header.name.chars().chain(['-']) {
        let boundary = !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && last.is_ascii_lowercase());
        if boundary {
            if matches!(word.as_str(), "offset" | "offsets" | "partition" | "topic") {
                return true;
            }
            word.clear();
        }
        if c.is_ascii_alphanumeric() {
            word.push(c.to_ascii_lowercase());
        }
        last = c;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bears(name: &str) -> bool {
        bears_position(&Header { name: name.to_owned(), value: None })
    }

    #[test]
    fn headers_that_bear_a_position_are_known_by_their_words() {
        for name in [
            "offset",
            "kafka_dlt-original-offset",
            "kafka_dlt-original-partition",
            "__connect.errors.topic",
            "originalPartition",
            "X-Source-Offset",
        ] {
            assert!(bears(name), "{name}");
        }
        for name in ["ce_id", "ce_partitionkey", "traceparent", "content-type", "event-id", ""] {
            assert!(!bears(name), "{name}");
        }
    }
}
