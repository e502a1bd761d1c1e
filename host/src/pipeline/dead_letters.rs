//! Dead letters in the log: that there are some, where the first is and where to read on, without a line for each.
//! The clock comes in.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::store::FirstDead;

/// One line in so much time, whatever dies.
const EVERY: Duration = Duration::from_secs(10);

/// What there is to tell of one consumer.
#[derive(Debug, Default)]
pub(super) struct DeadLetterLog(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    told: Option<Instant>,
    /// Since then.
    count: u64,
    first: Option<FirstDead>,
}

/// One line of the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    count: u64,
    first: FirstDead,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, first } = self;
        let plural = if *count == 1 { "" } else { "s" };
        write!(f, "{count} dead letter{plural}, the first: {first}; see `SELECT … FROM dead_letters`")
    }
}

impl DeadLetterLog {
    /// A batch with this many dead letters, and the first of them, was committed.
    pub(super) fn add(&self, count: u64, first: Option<&FirstDead>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.count += count;
        if state.first.is_none() {
            state.first = first.cloned();
        }
    }

    /// The line that is due, if one is.
    pub(super) fn due(&self, now: Instant) -> Option<Line> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.told.is_some_and(|told| now.saturating_duration_since(told) < EVERY) {
            return None;
        }
        let first = state.first.take()?;
        let count = std::mem::take(&mut state.count);
        state.told = Some(now);
        Some(Line { count, first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::PartitionName;

    fn first(offset: i64) -> FirstDead {
        let partition = PartitionName { topic: "orders".into(), partition: 3 };
        FirstDead { code: "bad-value".to_owned(), place: partition.to_string(), offset }
    }

    #[test]
    fn one_line_in_ten_seconds_and_none_is_forgotten() {
        let log = DeadLetterLog::default();
        let start = Instant::now();
        let due = |seconds| log.due(start + Duration::from_secs(seconds)).map(|line| line.to_string());
        assert_eq!(due(0), None, "nothing died");
        log.add(0, None);
        assert_eq!(due(0), None);
        log.add(1, Some(&first(7)));
        let line = "1 dead letter, the first: bad-value at orders[3]@7; see `SELECT … FROM dead_letters`";
        assert_eq!(due(0).as_deref(), Some(line));
        log.add(2, Some(&first(8)));
        log.add(40, Some(&first(90)));
        assert_eq!(due(9), None);
        let line = "42 dead letters, the first: bad-value at orders[3]@8; see `SELECT … FROM dead_letters`";
        assert_eq!(due(10).as_deref(), Some(line));
        assert_eq!(due(99), None, "each is told once");
    }
}
