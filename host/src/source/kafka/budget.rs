//! How long the group may be kept waiting. The client calls back while it polls; as long as a callback goes on, nobody
//! else gets the partitions, and after `max.poll.interval.ms` the group goes on without this member.

use std::time::{Duration, Instant};

/// How long one question to the broker may take at most.
const QUESTION: Duration = Duration::from_secs(5);

/// The time of one callback, begun when this is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    begun: Instant,
    whole: Duration,
}

impl Budget {
    /// Of this long, from now on.
    pub(super) fn new(whole: Duration) -> Self {
        Self { begun: Instant::now(), whole }
    }

    /// What is left for work. A quarter is kept for what comes last: a commit.
    pub(super) fn work(&self) -> Duration {
        self.left_at(Instant::now(), self.whole / 4 * 3)
    }

    /// What is left in all.
    pub(super) fn left(&self) -> Duration {
        self.left_at(Instant::now(), self.whole)
    }

    /// How long the next question to the broker may take.
    pub(super) fn question(&self) -> Duration {
        self.work().min(QUESTION)
    }

    fn left_at(&self, now: Instant, whole: Duration) -> Duration {
        whole.saturating_sub(now.saturating_duration_since(self.begun))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_questions_together_leave_a_quarter() {
        let budget = Budget::new(Duration::from_secs(20));
        let mut now = budget.begun;
        let mut asked = 0;
        // Each question takes all that it may.
        loop {
            let question = budget.left_at(now, budget.whole / 4 * 3).min(QUESTION);
            if question.is_zero() {
                break;
            }
            now += question;
            asked += 1;
        }
        assert_eq!((asked, now - budget.begun), (3, Duration::from_secs(15)));
        assert_eq!(budget.left_at(now, budget.whole), Duration::from_secs(5));
        assert_eq!(budget.left_at(now + Duration::from_secs(60), budget.whole), Duration::ZERO);
    }
}
