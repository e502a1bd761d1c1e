//! The only key to an offset commit (Invariant 1).

use std::sync::Arc;

use crate::record::TopicPartition;

/// Proof that a checkpoint's COMMIT was confirmed, or found later by its id. Only the store makes one; committing an
/// offset takes one. Not `Clone`: a receipt is spent once.
#[derive(Debug, PartialEq, Eq)]
pub struct Receipt {
    partition: Arc<TopicPartition>,
    generation: u64,
    next_offset: i64,
}

impl Receipt {
    pub(super) fn new(partition: Arc<TopicPartition>, generation: u64, next_offset: i64) -> Self {
        Self { partition, generation, next_offset }
    }

    /// For tests of sources, which have no store.
    #[cfg(test)]
    pub(crate) fn forged(partition: Arc<TopicPartition>, generation: u64, next_offset: i64) -> Self {
        Self::new(partition, generation, next_offset)
    }

    /// The partition, with its topic id.
    #[must_use]
    pub fn partition(&self) -> &Arc<TopicPartition> {
        &self.partition
    }

    /// The assignment under which the records were fetched.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The first offset that the checkpoint does not cover: what Kafka is told.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.next_offset
    }
}
