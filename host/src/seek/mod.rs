//! Moving a consumer by hand: to an offset, a time, the start or the end of its partitions; past offsets that are gone; into
//! a topic that was made again.
//!
//! Processing starts where the chain stands, or behind it where somebody has set the group's offset; so both have to move.
//! The chain goes first, all partitions in one transaction with a note of who did it and why; then the group's offsets. A
//! crash in between loses nothing: a host starts at the new place, or at an older offset that somebody had set, which repeats
//! records; the same command again finishes it. Kafka refuses offsets of a group that has members, and so does this, before
//! anything is changed; a member that Kafka has forgotten (a stopped machine that wakes up) is fenced by the new link.
//!
//! `plan` decides and is pure, `place` asks, `perform` does, `way_out` says the command that goes on for messages.

mod perform;
mod place;
mod plan;
mod survey;
mod way_out;

use std::sync::Arc;

pub use perform::{Done, Prepared, SeekError, prepare};
pub use plan::{Effect, Refusal, Step};
pub use survey::{Standing, survey};
pub(crate) use way_out::{WayOut, quoted};

use crate::identity::ConsumerName;

/// Where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// This offset, of every partition meant.
    Offset(i64),
    /// The first record at or after this time, milliseconds since the epoch; the end where there is none.
    Time(i64),
    /// The oldest record that is there.
    Start,
    /// Behind the newest record.
    End,
    /// The topic was deleted and made again: the oldest record of the new one.
    TopicRecreated,
    /// Offsets are gone that were not read: the oldest record that is there, for partitions that stand before it.
    OffsetsLost,
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seek {
    /// Whose place.
    pub consumer: ConsumerName,
    /// Which topics; none named = all of the consumer's.
    pub topics: Vec<Arc<str>>,
    /// Which partitions of them; none named = all.
    pub partitions: Vec<i32>,
    /// Where to.
    pub to: To,
    /// Records may be passed over that were never applied.
    pub pass_over: bool,
}
