//! R3.1: the ledger must remember for longer than anything can come again. Pure; the figures come from the broker.

use std::time::Duration;

use crate::config::{FOREVER, Ledger, show_duration};

/// How long a broker keeps what is in a topic, from the topic's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TopicRetention {
    /// `retention.ms`; `None` = -1, no limit.
    pub(super) retention: Option<Duration>,
    /// `segment.ms`: a record goes only with its whole segment, which stays open for up to so long.
    pub(super) segment: Duration,
    /// `cleanup.policy` has `delete`. Without it (only `compact`) the newest record of each key stays for ever.
    pub(super) deletes: bool,
}

/// Closed segments are looked for every five minutes and deleted after another; a day is generous, and forgives clocks.
const MARGIN: Duration = Duration::from_secs(86_400);

impl TopicRetention {
    /// How old a record can be that the broker still delivers; `None` = any age.
    #[must_use]
    pub(super) fn oldest(&self) -> Option<Duration> {
        if !self.deletes {
            return None;
        }
        let oldest = self.retention?.saturating_add(self.segment).saturating_add(MARGIN);
        (oldest < FOREVER).then_some(oldest)
    }
}

/// Why the ledger forgets too early for a topic; `None` where it does not.
#[must_use]
pub(super) fn too_short(topic: &str, kept: TopicRetention, ledger: Ledger) -> Option<String> {
    let shown = show_duration(ledger.retention);
    let Some(oldest) = kept.oldest() else {
        let why = if kept.deletes { "without a limit" } else { "for ever, compacted" };
        return (ledger.retention < FOREVER).then(|| {
            format!("{topic} is kept {why}, the ledger remembers for {shown}: set ledger.retention = \"forever\"")
        });
    };
    let needed = oldest.saturating_add(ledger.replay_window);
    (ledger.retention <= needed).then(|| {
        format!(
            "{topic} may still deliver what is {} old (retention.ms + segment.ms + a day), and operators may replay {} \
             more, but the ledger remembers for {shown}: set ledger.retention above {}",
            show_duration(oldest),
            show_duration(ledger.replay_window),
            show_duration(needed)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::OlderThanRetention;

    const DAY: Duration = Duration::from_secs(86_400);

    fn ledger(days: u32) -> Ledger {
        let older_than_retention = OlderThanRetention::DeadLetter;
        Ledger { retention: days * DAY, replay_window: 2 * DAY, older_than_retention }
    }

    fn kept(retention: Option<Duration>, deletes: bool) -> TopicRetention {
        TopicRetention { retention, segment: 7 * DAY, deletes }
    }

    #[test]
    fn everything_that_can_come_again_counts() {
        // 7 d retention + 7 d open segment + 1 d margin + 2 d replay.
        let week = kept(Some(7 * DAY), true);
        let said = too_short("orders", week, ledger(17)).unwrap_or_default();
        assert!(said.contains("what is 15d old") && said.contains("above 17d"), "{said}");
        assert_eq!(too_short("orders", week, ledger(18)), None);
    }

    #[test]
    fn compacted_and_unlimited_topics_need_a_ledger_that_never_forgets() {
        for kept in [kept(None, true), kept(Some(DAY), false), kept(Some(Duration::MAX), true)] {
            assert!(too_short("orders", kept, ledger(3650)).is_some_and(|said| said.contains("\"forever\"")));
            assert_eq!(too_short("orders", kept, Ledger { retention: FOREVER, ..ledger(1) }), None);
        }
    }
}
