//! The only key to an offset commit (Invariant 1).

use std::sync::Arc;

use uuid::Uuid;

use super::{Connection, StoreError, Tip};
use crate::{identity::ConsumerName, record::TopicPartition};

/// Proof that a checkpoint's COMMIT was confirmed, or found later by its id. Only the store makes one; committing an
/// offset takes one. Not `Clone`: a receipt is spent once.
#[derive(Debug, PartialEq, Eq)]
pub struct Receipt {
    partition: Arc<TopicPartition>,
    generation: u64,
    next_offset: i64,
    checkpoint: Uuid,
}

impl Receipt {
    pub(super) fn new(partition: Arc<TopicPartition>, generation: u64, next_offset: i64, checkpoint: Uuid) -> Self {
        Self { partition, generation, next_offset, checkpoint }
    }

    /// For tests of sources, which have no store.
    #[cfg(test)]
    pub(crate) fn forged(partition: Arc<TopicPartition>, generation: u64, next_offset: i64) -> Self {
        Self::new(partition, generation, next_offset, Uuid::nil())
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

    /// The checkpoint's id.
    #[must_use]
    pub fn checkpoint(&self) -> Uuid {
        self.checkpoint
    }
}

/// Proof that a chain's tip was read in the database: a receipt that waits for the assignment under which its partition
/// begins. So the group learns where a partition stands before its next record comes.
#[derive(Debug, PartialEq, Eq)]
pub struct Standing {
    partition: Arc<TopicPartition>,
    next_offset: i64,
    checkpoint: Uuid,
}

impl Standing {
    /// The receipt, now that the partition has begun.
    #[must_use]
    pub fn under(self, generation: u64) -> Receipt {
        Receipt::new(self.partition, generation, self.next_offset, self.checkpoint)
    }
}

/// Reads where chains stand, in the order of the partitions; `None` = it has no genesis yet.
///
/// # Errors
/// The database's.
// Invariant 1: what a statement outside of any transaction returns is committed.
pub async fn standings(
    connection: &mut dyn Connection,
    consumer: &ConsumerName,
    partitions: &[Arc<TopicPartition>],
) -> Result<Vec<Option<(Tip, Standing)>>, StoreError> {
    let tips = connection.tips(consumer, partitions).await?;
    let with_proof = |(partition, tip): (&Arc<TopicPartition>, Option<Tip>)| {
        let (tip, partition) = (tip?, Arc::clone(partition));
        Some((tip, Standing { partition, next_offset: tip.next_offset, checkpoint: tip.id }))
    };
    Ok(partitions.iter().zip(tips).map(with_proof).collect())
}
