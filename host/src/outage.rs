//! What went wrong a moment ago and still does need not be told again. Pure; the clock comes in.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// So long without a word of it, and a trouble is taken for over. Longer than any pause between two tries.
const OVER: Duration = Duration::from_secs(60);
/// So many troubles are remembered.
const MANY: usize = 64;

/// Troubles that were told, with when each showed itself last.
#[derive(Debug, Default)]
pub(crate) struct Outages(HashMap<String, Instant>);

impl Outages {
    /// Whether a trouble is new: the first of its outage. `trouble` tells it from others; the words that follow
    /// "(after", with which the Kafka client counts time and repetitions, do not.
    pub(crate) fn begins(&mut self, now: Instant, trouble: &str) -> bool {
        self.0.retain(|_, last| now.saturating_duration_since(*last) < OVER);
        if self.0.len() >= MANY {
            self.0.clear();
        }
        let trouble = trouble.split(" (after ").next().unwrap_or_default();
        self.0.insert(trouble.to_owned(), now).is_none()
    }
}

/// How often something is told that goes on and on.
const AGAIN: Duration = Duration::from_secs(60);

/// One thing that waits, and what it was last told to wait for: told anew when that changes, and every minute while it
/// does not.
#[derive(Debug, Default)]
pub(crate) struct Told(Option<(String, Instant)>);

impl Told {
    /// Whether this is worth telling.
    pub(crate) fn is_news(&mut self, now: Instant, what: &str) -> bool {
        let known =
            self.0.as_ref().is_some_and(|(told, when)| told == what && now.saturating_duration_since(*when) < AGAIN);
        if !known {
            self.0 = Some((what.to_owned(), now));
        }
        !known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_once() {
        let mut outages = Outages::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(outages.begins(at(0), "refused (after 3ms in state CONNECT)"));
        assert!(!outages.begins(at(50), "refused (after 0ms in state CONNECT, 1 identical error(s) suppressed)"));
        assert!(outages.begins(at(51), "no such topic"), "another trouble");
        assert!(!outages.begins(at(100), "refused"), "it went on all the time");
        assert!(outages.begins(at(161), "refused"), "it was over for a minute");
    }

    #[test]
    fn what_somebody_waits_for_is_told_when_it_changes_and_every_minute() {
        let (mut told, start) = (Told::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let news = |told: &mut Told, seconds, what| told.is_news(at(seconds), what);
        assert!(news(&mut told, 0, "no broker"));
        assert!(!news(&mut told, 10, "no broker"));
        assert!(news(&mut told, 20, "no topic"));
        assert!(news(&mut told, 21, "no broker"), "it was told before, but something else in between");
        assert!(!news(&mut told, 80, "no broker"));
        assert!(news(&mut told, 81, "no broker"), "it goes on");
    }
}
