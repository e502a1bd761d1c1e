//! Where records come from: at least once, in order within a partition, under an assignment that a group may change.
//!
//! A [`Source`] gives each lane batches of runs and is told what is committed, which takes a [`Receipt`] (Invariant 1).
//! Two implementations: `kafka` and `memory` (the tests'). What they share is written once: [`Positions`] knows which
//! partitions are assigned, under which generation, up to which offset they were handed out, and what is in flight.
//!
//! Delivery: a partition's offsets are handed out without gap and without repeat within one generation. After a crash,
//! a rebalance or a fence they start again where [`StartPoints`] says, which is never ahead of the database.

#[cfg(test)]
mod conformance;
pub mod kafka;
pub mod memory;
mod positions;

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

pub use positions::{Fetched, Flight, Lost, Piece, Positions};
use tokio::sync::watch;

use crate::{
    class::Class,
    config::BatchLimits,
    record::{Batch, TopicPartition},
    store::{Receipt, Standing},
};

/// A partition by its topic's name, before it is known which incarnation of the topic it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionName {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
}

impl fmt::Display for PartitionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.topic, self.partition)
    }
}

impl From<&TopicPartition> for PartitionName {
    fn from(partition: &TopicPartition) -> Self {
        Self { topic: Arc::clone(&partition.topic), partition: partition.partition }
    }
}

/// Why one partition is no longer read. Others go on; an operator has to look.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// The topic was deleted and made again: its offsets mean other records now.
    #[error(
        "topic {topic} was deleted and made again (topic id {was}, now {now}): its offsets start anew, and what was not \
         read of the old one is gone: {}", unread(.from, .end)
    )]
    TopicRecreated {
        /// The topic.
        topic: Arc<str>,
        /// The id under which the checkpoints stand.
        was: uuid::Uuid,
        /// The id that the broker names.
        now: uuid::Uuid,
        /// Up to where the partition of the old topic was processed, where that is known.
        from: Option<i64>,
        /// Where it ended when it was last looked at.
        end: Option<i64>,
    },
    /// The topic is gone.
    #[error("topic {topic} does not exist any more: take it out of `topics`, or make it anew")]
    TopicGone {
        /// The topic.
        topic: Arc<str>,
    },
    /// The offset to go on at is not in the log.
    #[error("{}", lost(.offset, .log, .broker))]
    OffsetLost {
        /// Where it should have gone on.
        offset: i64,
        /// The oldest offset that is there, and where the next record will stand; `None` = the broker did not say.
        log: Option<(i64, i64)>,
        /// The broker's words.
        broker: String,
    },
    /// The partition cannot be fetched at all.
    #[error("cannot be fetched: {broker}")]
    Unreadable {
        /// The client's words.
        broker: String,
    },
}

/// What is gone of a topic that is no more.
fn unread(from: &Option<i64>, end: &Option<i64>) -> String {
    match (*from, *end) {
        (Some(from), Some(end)) if end > from => {
            format!(
                "offsets {from} to {} ({} of them), and what came after that was last looked at",
                end - 1,
                end - from
            )
        }
        (Some(from), _) => format!("whatever stood at offset {from} or later"),
        (None, _) => "how much is not known here".to_owned(),
    }
}

/// What is gone of a log.
fn lost(offset: &i64, log: &Option<(i64, i64)>, broker: &str) -> String {
    let offset = *offset;
    match *log {
        Some((first, _)) if first > offset => format!(
            "offsets {offset} to {} ({} of them) were deleted before they were read ({broker}): the log begins at {first}. \
             Compare retention.ms with the downtime; whoever produced them may publish them again",
            first - 1,
            first - offset
        ),
        Some((_, end)) if end < offset => format!(
            "the log ends at {end}, but it was read up to {offset} ({broker}): its last {} offsets or more were cut off, and \
             records that stand there by now are others",
            offset - end
        ),
        _ => format!("offset {offset} is not in the log ({broker})"),
    }
}

impl StopReason {
    /// A short stable word for the log.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::TopicRecreated { .. } => "topic_recreated",
            Self::TopicGone { .. } => "topic_gone",
            Self::OffsetLost { .. } => "offset_lost",
            Self::Unreadable { .. } => "unreadable",
        }
    }
}

/// An error of the source as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{context}: {message}")]
pub struct SourceError {
    /// What was being done, to what.
    pub context: String,
    /// What the client said.
    pub message: String,
    /// Transient: ask again, or where the client has ended, start again. Fatal: this consumer cannot go on.
    pub class: Class,
}

impl SourceError {
    /// What to do about it.
    #[must_use]
    pub fn class(&self) -> Class {
        self.class
    }
}

/// A partition that the group gave to this member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offered {
    /// The partition of this incarnation of its topic.
    pub partition: Arc<TopicPartition>,
    /// What the group's offset says, where there is one.
    pub committed: Option<i64>,
    /// The member had it already and lost its place in the chain: the chain alone says where it goes on.
    pub fenced: bool,
}

/// Where an offered partition begins.
#[derive(Debug, PartialEq, Eq)]
pub enum StartPoint {
    /// At this offset. Where the group does not know that yet, with what it takes to tell it.
    At(i64, Option<Standing>),
    /// Not at all.
    Stop(StopReason),
    /// Not known yet (the database cannot be asked): offer it again soon. The text says why.
    Later(String),
}

/// What a source can say about a topic's log.
pub trait LogEnds {
    /// The first offset that is there, and the end (of what is committed): where the next record will stand.
    ///
    /// # Errors
    /// Where the broker cannot be asked.
    fn bounds(&self, name: &PartitionName) -> Result<(i64, i64), SourceError>;
    /// The first offset whose record is at or after this time, the end where there is none.
    ///
    /// # Errors
    /// Where the broker cannot be asked.
    fn at_time(&self, name: &PartitionName, time_ms: i64) -> Result<i64, SourceError>;
    /// How many partitions the topic has.
    ///
    /// # Errors
    /// Where the broker cannot be asked.
    fn partitions(&self, topic: &str) -> Result<i32, SourceError>;
}

/// The pipeline's side of an assignment.
pub trait StartPoints: Send + Sync {
    /// Where these begin, one answer each, in their order. Called on the poll thread, inside a rebalance: it answers
    /// within this time, with [`StartPoint::Later`] if need be. (A question to `log` that was begun is finished; its time is
    /// bounded by whoever gave it.)
    fn resolve(&self, offered: &[Offered], log: &dyn LogEnds, within: Duration) -> Vec<StartPoint>;
    /// Something to count, log and show.
    fn notice(&self, notice: Notice);
}

/// One step of a rebalance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebalance {
    /// The group gave, be it nothing.
    Assign,
    /// The group took.
    Revoke,
    /// The group had taken without asking.
    Lost,
}

/// What a source reports beside its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// These begin, none being an answer of the group's, too.
    Assigned(Vec<PartitionName>),
    /// A rebalance took these.
    Revoked {
        /// Which.
        partitions: Vec<PartitionName>,
        /// Whether all that was in flight was finished in time.
        drained: bool,
        /// Whether the group had given them away before, without this member: it was too silent for too long.
        lost: bool,
    },
    /// The group was answered: what it gave was taken, or what it took was given.
    Rebalanced(Rebalance),
    /// One partition is no longer read.
    Stopped(PartitionName, StopReason),
    /// These wait for their start point; the text says why.
    Waiting(Vec<PartitionName>, String),
    /// An offset commit failed. Information: the chain knows better, and the next commit covers it.
    CommitFailed(String),
    /// The client said something that an operator may want to read.
    Client(String),
    /// No broker is to be had, in the client's words. Comes again and again as long as it lasts.
    Away(String),
    /// A broker has answered.
    Answers,
    /// A topic of the consumer's is there, or has not been for a while. Comes again and again.
    Topic(Arc<str>, bool),
    /// Whether the group counts this client among its members, as far as the client knows. Comes again and again.
    Member(bool),
}

/// A stream of records from partitions of topics, shared out among the members of a group.
///
/// Threads: one thread calls [`poll`](Self::poll) all the time, then [`finish`](Self::finish); each lane has one thread
/// that calls [`fetch`](Self::fetch); one thread calls [`watch`](Self::watch) about every second. The rest may be called
/// from anywhere. No thread that is joined by `finish`'s caller may own the last handle.
pub trait Source: Send + Sync {
    /// What is assigned and in flight.
    fn positions(&self) -> &Arc<Positions>;
    /// What is queued for this lane, up to `limits`; waits up to `idle` for the first record. An empty batch is normal.
    fn fetch(&self, lane: usize, limits: &BatchLimits, idle: Duration) -> Fetched;
    /// Makes a fetch that waits return.
    fn wake(&self);
    /// Asks for the topics' ids, after the batch was fetched and before it is committed, and stops partitions whose
    /// topic is another one now. (Ids never come back, so an unchanged id proves the whole batch.)
    ///
    /// # Errors
    /// Transient: the broker cannot be asked; the batch has to wait.
    fn confirm(&self, batch: &Batch) -> Result<(), SourceError>;
    /// Tells the group how far the database is. Does not wait. Receipts of an assignment that is over are dropped. Gives
    /// the number under which [`confirmed`](Self::confirmed) says that the group knows.
    fn commit(&self, receipts: Vec<Receipt>) -> u64;
    /// The number of the newest commit that the group has confirmed, all before it included, or that has nothing left to
    /// be confirmed.
    fn confirmed(&self) -> watch::Receiver<u64>;
    /// This member's place in the chain was taken: what it has of these generations is void, and their partitions begin
    /// anew where the chain stands.
    fn reposition(&self, generations: &[u64]);
    /// Serves the group: rebalances, commits, partitions that wait for a start point.
    ///
    /// # Errors
    /// Fatal: the client is broken.
    fn poll(&self, timeout: Duration) -> Result<(), SourceError>;
    /// Looks whether topics are still the same, and how far each assigned partition's log reaches; the answer goes into
    /// the positions, too.
    fn watch(&self) -> HashMap<PartitionName, i64>;
    /// Commits what receipts were given, waiting for the answer, then leaves the group. On the poll thread, after the
    /// lanes have stopped and drained.
    fn finish(&self);
}
