//! What a source delivers: records, grouped into runs of one topic-partition, grouped into a batch for one lane.
//!
//! A position (topic, partition, offset) is for tracing and for the checkpoint chain. It is never part of an input's
//! identity and never reaches a plugin (Invariant 4).

use std::{fmt, ops::Range, sync::Arc};

use bytes::Bytes;
use uuid::Uuid;

/// One partition of one incarnation of a topic. A topic deleted and made again has another `topic_id`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// The Kafka cluster's id.
    pub cluster_id: Arc<str>,
    /// The topic's id; where the broker knows none, a UUIDv5 of the cluster id and the name.
    pub topic_id: Uuid,
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.topic, self.partition)
    }
}

/// A header as Kafka has it: names may repeat, values may be absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The header's name.
    pub name: String,
    /// The header's value.
    pub value: Option<Bytes>,
}

/// One record of a partition. `key`, `payload` and header values are slices of one arena per batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The record's offset in its partition.
    pub offset: i64,
    /// Milliseconds since the epoch, as the broker or the producer set it.
    pub timestamp_ms: Option<i64>,
    /// The record's key.
    pub key: Option<Bytes>,
    /// The record's value; `None` is a tombstone.
    pub payload: Option<Bytes>,
    /// The record's headers, in order.
    pub headers: Vec<Header>,
}

impl Record {
    /// Bytes that this record keeps alive: key, payload and headers.
    #[must_use]
    pub fn size(&self) -> usize {
        let body = self.key.as_ref().map_or(0, Bytes::len) + self.payload.as_ref().map_or(0, Bytes::len);
        body + self.headers.iter().map(|h| h.name.len() + h.value.as_ref().map_or(0, Bytes::len)).sum::<usize>()
    }
}

/// Consecutive offsets of one partition, including those that carry no record (control records, compacted gaps).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where the records came from.
    pub partition: Arc<TopicPartition>,
    /// The assignment under which they were fetched; a batch of an older one is dropped.
    pub generation: u64,
    /// The first offset covered: the previous run's `next_offset`.
    pub first_offset: i64,
    /// The first offset *not* covered. May lie beyond the last record.
    pub next_offset: i64,
    /// The run's records, as a range of [`Batch::records`]. Empty where only the position moved.
    pub records: Range<usize>,
}

/// What a lane works on at a time. Records stand run by run, in offset order within a run; a partition has one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// One run per partition.
    pub runs: Vec<Run>,
    /// All records, run by run.
    pub records: Vec<Record>,
}

impl Batch {
    /// The run that the record at `index` belongs to.
    ///
    /// # Panics
    /// Where `index` is not an index of [`Batch::records`].
    #[must_use]
    pub fn run_of(&self, index: usize) -> &Run {
        let at = self.runs.partition_point(|run| run.records.end <= index);
        &self.runs[at]
    }

    /// The text under which attempts and conflicts keep a record's position: `topic:partition:offset`.
    #[must_use]
    pub fn position_of(&self, index: usize) -> String {
        let run = self.run_of(index);
        format!("{}:{}:{}", run.partition.topic, run.partition.partition, self.records[index].offset)
    }
}
