//! Questions to the broker inside a rebalance, which waits for the answers: each may take seconds where brokers are slow,
//! and a new topic takes one for each partition. So their time is bounded together.

use std::time::{Duration, Instant};

use crate::{
    class::Class,
    source::{LogEnds, PartitionName, SourceError},
};

/// A log that is asked nothing more once the time is over. A question that was begun is finished, so the whole takes as
/// much longer as one question may.
pub(super) struct InTime<'a> {
    log: &'a dyn LogEnds,
    clock: &'a dyn Fn() -> Instant,
    until: Instant,
}

impl<'a> InTime<'a> {
    /// From now on, for so long.
    pub(super) fn new(log: &'a dyn LogEnds, patience: Duration, clock: &'a dyn Fn() -> Instant) -> Self {
        Self { log, clock, until: clock() + patience }
    }

    /// Whether there is time left.
    ///
    /// # Errors
    /// Transient, where there is none.
    pub(super) fn check(&self) -> Result<(), SourceError> {
        if (self.clock)() < self.until {
            return Ok(());
        }
        Err(SourceError {
            context: "find the start point".to_owned(),
            message: "the broker and the database take long for each partition; this one's turn comes next".to_owned(),
            class: Class::Transient,
        })
    }
}

impl LogEnds for InTime<'_> {
    fn bounds(&self, name: &PartitionName) -> Result<(i64, i64), SourceError> {
        self.check()?;
        self.log.bounds(name)
    }

    fn at_time(&self, name: &PartitionName, time_ms: i64) -> Result<i64, SourceError> {
        self.check()?;
        self.log.at_time(name, time_ms)
    }

    fn partitions(&self, topic: &str) -> Result<i32, SourceError> {
        self.check()?;
        self.log.partitions(topic)
    }
}
