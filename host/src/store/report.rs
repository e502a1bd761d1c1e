//! What the database itself says: for `status`, the demo's summary and the proofs. Every figure is read, none kept.

use std::{collections::BTreeMap, sync::Arc};

use super::{ConsumerRow, Tip};
use crate::{merge::TableName, outcome::Counts, record::TopicPartition};

/// Outcome counts summed over a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// See [`crate::outcome::Outcome::Applied`].
    pub applied: u64,
    /// See [`crate::outcome::Outcome::Duplicate`].
    pub duplicate: u64,
    /// See [`crate::outcome::Outcome::Skipped`].
    pub skipped: u64,
    /// See [`crate::outcome::Outcome::Dead`].
    pub dead: u64,
    /// See [`crate::outcome::Outcome::TooOld`].
    pub too_old: u64,
}

impl Totals {
    /// All of them.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.applied + self.duplicate + self.skipped + self.dead + self.too_old
    }
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.applied += other.applied;
        self.duplicate += other.duplicate;
        self.skipped += other.skipped;
        self.dead += other.dead;
        self.too_old += other.too_old;
    }
}

impl From<Counts> for Totals {
    fn from(c: Counts) -> Self {
        Self {
            applied: c.applied.into(),
            duplicate: c.duplicate.into(),
            skipped: c.skipped.into(),
            dead: c.dead.into(),
            too_old: c.too_old.into(),
        }
    }
}

/// A partition's chain in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionStatus {
    /// Which.
    pub partition: Arc<TopicPartition>,
    /// The newest link.
    pub tip: Tip,
    /// Links kept.
    pub links: u64,
    /// Summed over the links kept.
    pub totals: Totals,
    /// Offsets that the links kept cover without a record: control records, compaction, or what a broker lost.
    pub without_record: u64,
    /// When the newest link was committed, microseconds since the epoch.
    pub committed_at_us: i64,
}

/// Where a consumer stands, without its counts.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerChains {
    /// Its row.
    pub consumer: ConsumerRow,
    /// The tip of each of its chains, by topic and partition; chains of topics that were made again stand beside the
    /// present ones, under the ids that these had.
    pub tips: Vec<(Arc<TopicPartition>, Tip)>,
}

/// One partition's place in a [`Store::seek`](super::Store::seek).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainMove {
    /// Whose chain.
    pub partition: Arc<TopicPartition>,
    /// Its tip as it was when the move was decided; `None` = it has no chain yet.
    pub tip: Option<Tip>,
    /// Where it goes on.
    pub to: i64,
}

/// Who moves a consumer, how and why: kept beside the links, for whoever asks later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeekNote {
    /// The words of the command that say where to.
    pub how: String,
    /// Who.
    pub by: String,
    /// Why, where they said so.
    pub reason: Option<String>,
}

/// Ids that came more than once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repeats {
    /// How many ids.
    pub ids: u64,
    /// Attempts of all ids that were seen as duplicates (the first, applied, ones not counted).
    pub attempts: u64,
    /// Some of them: the id and how often it was attempted in all.
    pub examples: Vec<(String, u64)>,
}

/// A consumer in short.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerStatus {
    /// Its row.
    pub consumer: ConsumerRow,
    /// Rows of its ledger.
    pub ledger_rows: u64,
    /// Its chains, by topic and partition.
    pub partitions: Vec<PartitionStatus>,
    /// Dead letters by status: open, replayed, superseded, discarded.
    pub dead_letters: BTreeMap<String, u64>,
    /// Ids that came more than once.
    pub repeats: Repeats,
    /// Payload conflicts: ids that came with another payload.
    pub conflicts: u64,
}

impl ConsumerStatus {
    /// Summed over all partitions.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        self.partitions.iter().for_each(|p| sum += p.totals);
        sum
    }

    /// Open dead letters.
    #[must_use]
    pub fn open_dead_letters(&self) -> u64 {
        self.dead_letters.get("open").copied().unwrap_or(0)
    }
}

/// A place where a chain does not tile or a link does not add up. There must be none (Invariant 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainFault {
    /// Whose chain.
    pub topic_id: uuid::Uuid,
    /// Whose chain.
    pub partition: i32,
    /// The link.
    pub seq: i64,
    /// What is wrong: hole, overlap, counts, link missing, wrong predecessor, more records than offsets.
    pub fault: String,
    /// The predecessor's next offset.
    pub expected: Option<i64>,
    /// The link's first offset.
    pub found: i64,
}

/// The second proof: rows of a target that share a business key. There must be none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetDuplicates {
    /// Keys that more than one row has.
    pub keys: u64,
    /// The query that was asked, so that it can be run by hand.
    pub query: String,
}

/// A target's size, and the sum of one of its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetTotal {
    /// The table.
    pub table: TableName,
    /// Its rows.
    pub rows: u64,
    /// The sum as digits; `None` where no column was named. 0 over no rows.
    pub sum: Option<bigdecimal::BigDecimal>,
}
