//! What a plugin gets to see of a record, and what never reaches it.

use std::sync::Arc;

use super::EvaluateContext;
use crate::{
    config::{Payload, Tombstones},
    outcome::{Evaluated, Rejection, Verdict},
    plugin::{Body, Message},
    record::{Batch, Header, Record},
};

/// A batch, sorted into what the plugin is asked about and what is decided without it.
pub(super) struct Prepared {
    /// One per record; `None` where the plugin is asked.
    pub(super) verdicts: Vec<Option<Evaluated>>,
    /// What the plugin is asked about.
    pub(super) messages: Vec<Message>,
    /// Each message's record.
    pub(super) places: Vec<usize>,
}

/// Sorts a batch.
pub(super) fn prepare(batch: &Batch, context: &EvaluateContext) -> Prepared {
    let fallback: Arc<str> = Arc::from("default");
    let mut prepared = Prepared {
        verdicts: vec![None; batch.records.len()],
        messages: Vec::with_capacity(batch.records.len()),
        places: Vec::with_capacity(batch.records.len()),
    };
    for run in &batch.runs {
        let source = context.sources.get(&run.partition.topic).unwrap_or(&fallback);
        for place in run.records.clone() {
            match message(&batch.records[place], source, context) {
                Ok(message) => {
                    prepared.messages.push(message);
                    prepared.places.push(place);
                }
                Err(verdict) => prepared.verdicts[place] = Some(Evaluated { identity: None, verdict }),
            }
        }
    }
    prepared
}

/// Invariant 4: built from key, value and headers alone; neither partition nor offset is at hand here.
pub(super) fn message(record: &Record, source: &Arc<str>, context: &EvaluateContext) -> Result<Message, Verdict> {
    let body = match (&record.payload, context.tombstones, context.payload) {
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
    Ok(Message { source: Arc::clone(source), key: record.key.clone(), body, headers })
}

/// Whether a header says where the record came from. Mirrors, retry topics and dead-letter publishers write such headers
/// (`kafka_dlt-original-offset`, `__connect.errors.partition`): a key made from one would change with every
/// re-publication. Judged by the words of the name, so that CloudEvents' `partitionkey` stays.
pub(crate) fn bears_position(header: &Header) -> bool {
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
