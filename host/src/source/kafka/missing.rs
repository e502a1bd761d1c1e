//! When a topic that a broker does not know counts as gone: once brokers have said so for a while. One answer is not
//! enough, for a broker that has just started may know nothing yet, and a partition that is stopped stays stopped until
//! an operator comes. Pure; the caller has the clock.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// How far apart the first and the last such answer must be. Much longer than a broker needs to learn its topics.
const SURE: Duration = Duration::from_secs(10);
/// What was not asked for so long is asked from the beginning: the earlier answer may have been another broker's start.
const STALE: Duration = Duration::from_secs(30);

/// Topics that brokers have lately said they do not know.
#[derive(Debug, Default)]
pub(super) struct Missing(HashMap<Arc<str>, Answers>);

/// The first and the last of answers in a row.
#[derive(Clone, Copy, Debug)]
struct Answers {
    first: Instant,
    last: Instant,
}

impl Missing {
    /// A broker knows the topic.
    pub(super) fn found(&mut self, topic: &str) {
        self.0.remove(topic);
    }

    /// A broker does not know the topic. Whether it counts as gone now; otherwise it is to be asked again.
    pub(super) fn missed(&mut self, topic: &Arc<str>, now: Instant) -> bool {
        let answers = self.0.entry(Arc::clone(topic)).or_insert(Answers { first: now, last: now });
        if now.saturating_duration_since(answers.last) > STALE {
            answers.first = now;
        }
        answers.last = now;
        now.saturating_duration_since(answers.first) >= SURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells a fresh `Missing` of answers at these seconds, `true` = the topic is known; gives what each miss decides.
    fn decisions(answers: &[(u64, bool)]) -> Vec<bool> {
        let (mut missing, start, topic) = (Missing::default(), Instant::now(), Arc::from("orders"));
        let mut decided = Vec::new();
        for &(second, known) in answers {
            if known {
                missing.found(&topic);
            } else {
                decided.push(missing.missed(&topic, start + Duration::from_secs(second)));
            }
        }
        decided
    }

    #[test]
    fn one_answer_is_not_enough_and_ten_seconds_of_them_are() {
        assert_eq!(decisions(&[(0, false)]), [false], "a broker that has just started");
        assert_eq!(decisions(&[(0, false), (1, false), (9, false)]), [false; 3]);
        assert_eq!(decisions(&[(0, false), (10, false)]), [false, true]);
        assert_eq!(decisions(&[(0, false), (5, false), (11, false), (12, false)]), [false, false, true, true]);
    }

    #[test]
    fn a_topic_that_shows_itself_begins_anew() {
        assert_eq!(
            decisions(&[(0, false), (9, true), (12, false), (21, false), (22, false)]),
            [false, false, false, true]
        );
    }

    #[test]
    fn answers_that_lie_far_apart_do_not_count_together() {
        assert_eq!(decisions(&[(0, false), (3_600, false), (3_610, false)]), [false, false, true]);
    }

    #[test]
    fn topics_do_not_share_their_answers() {
        let (mut missing, start) = (Missing::default(), Instant::now());
        missing.missed(&"orders".into(), start);
        assert!(!missing.missed(&"payments".into(), start + SURE));
        assert!(missing.missed(&"orders".into(), start + SURE));
    }
}
