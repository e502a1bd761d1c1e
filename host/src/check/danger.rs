//! The danger signs: ways in which an idempotent consumer quietly stops being one. Each has a stable code; the codes
//! are never reused.

use serde::Serialize;

/// A danger sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Danger {
    /// TG001.
    PositionAsKey,
    /// TG002.
    LedgerWithoutConsumer,
    /// TG003.
    OtherTransaction,
    /// TG004.
    RetentionTooShort,
    /// TG005.
    NoDuplicateMetric,
    /// TG006.
    NoUniqueKey,
    /// TG007.
    Accumulating,
    /// TG008.
    RunIdAsInputId,
    /// TG009.
    KeysChanged,
    /// TG010.
    NotDeterministic,
}

/// Whether a danger sign stops a consumer from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// Messages would be applied twice or lost.
    Error,
    /// It is a decision; somebody should have made it.
    Warning,
}

impl Danger {
    /// All of them, by code.
    pub const ALL: [Self; 10] = [
        Self::PositionAsKey,
        Self::LedgerWithoutConsumer,
        Self::OtherTransaction,
        Self::RetentionTooShort,
        Self::NoDuplicateMetric,
        Self::NoUniqueKey,
        Self::Accumulating,
        Self::RunIdAsInputId,
        Self::KeysChanged,
        Self::NotDeterministic,
    ];

    /// The stable code.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::PositionAsKey => "TG001",
            Self::LedgerWithoutConsumer => "TG002",
            Self::OtherTransaction => "TG003",
            Self::RetentionTooShort => "TG004",
            Self::NoDuplicateMetric => "TG005",
            Self::NoUniqueKey => "TG006",
            Self::Accumulating => "TG007",
            Self::RunIdAsInputId => "TG008",
            Self::KeysChanged => "TG009",
            Self::NotDeterministic => "TG010",
        }
    }

    /// What it is, in a few words.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::PositionAsKey => "offset or line number used as the key",
            Self::LedgerWithoutConsumer => "ledger without the consumer's name",
            Self::OtherTransaction => "ledger and business change in different transactions",
            Self::RetentionTooShort => "ledger forgets what may come again",
            Self::NoDuplicateMetric => "nobody can see duplicates",
            Self::NoUniqueKey => "no unique key on the target",
            Self::Accumulating => "accumulating writes",
            Self::RunIdAsInputId => "run id used as, or mixed with, the input id",
            Self::KeysChanged => "keys changed between two plugin versions",
            Self::NotDeterministic => "plugin is not deterministic",
        }
    }

    /// Whether it stops a consumer.
    #[must_use]
    pub fn weight(self) -> Weight {
        match self {
            Self::NoDuplicateMetric | Self::Accumulating => Weight::Warning,
            _ => Weight::Error,
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn way_out(self) -> &'static str {
        match self {
            Self::PositionAsKey => {
                "take the id that the producer put into the event; a position names a copy, not the event"
            }
            Self::LedgerWithoutConsumer => {
                "restore the primary key (consumer_name, message_id) of processed_messages; two consumers process the \
                 same message independently"
            }
            Self::OtherTransaction => {
                "make the target a permanent table of the ledger's own database, so that both commit together"
            }
            Self::RetentionTooShort => {
                "raise `ledger.retention` (or \"forever\"), or let the topic keep less; what is forgotten is applied again"
            }
            Self::NoDuplicateMetric => {
                "give [http] an address and scrape /metrics: a sudden rise of duplicates is how a producer's fault shows"
            }
            Self::NoUniqueKey => {
                "add a unique index over exactly the target's key, all its columns NOT NULL: it keeps the result right \
                 where a duplicate is not found"
            }
            Self::Accumulating => {
                "store the amounts as rows and add them up when reading, or be sure that the ledger outlives every \
                 replay: this target relies on it alone"
            }
            Self::RunIdAsInputId => "the input id names the input, whatever run carries it; keep the run id out of it",
            Self::KeysChanged => {
                "deploy the plugin of before; or, where other keys are meant, accept them once with `tidegate run \
                 --accept-key-change CONSUMER`, or `tidegate consumers reload` with it: under other keys every message looks new"
            }
            Self::NotDeterministic => {
                "take clocks, randomness and iteration order of hash maps out of the plugin; `record-time-ms` and \
                 `seed` are the same at every attempt"
            }
        }
    }

    /// Whether only a broker or a database can show it.
    #[must_use]
    pub fn needs_services(self) -> bool {
        matches!(
            self,
            Self::LedgerWithoutConsumer
                | Self::OtherTransaction
                | Self::RetentionTooShort
                | Self::NoUniqueKey
                | Self::KeysChanged
        )
    }

    /// Why it cannot happen here at all, where that is so.
    #[must_use]
    pub fn excluded(self) -> Option<&'static str> {
        match self {
            Self::RunIdAsInputId => Some("run ids have tables of their own, and a plugin never sees one"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn docs_checks_md_has_each_of_them_and_no_other() {
        let text = include_str!("../../../docs/checks.md");
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.starts_with("| TG"))
            .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
            .collect();
        let told: Vec<_> = rows.iter().map(|row| row[0]).collect();
        assert_eq!(told, Danger::ALL.map(Danger::code));
        for (row, danger) in rows.iter().zip(Danger::ALL) {
            let weight = match (danger.excluded(), danger.weight()) {
                (Some(_), _) => "",
                (None, Weight::Error) => "✗",
                (None, Weight::Warning) => "!",
            };
            let online = if danger.needs_services() { " *online*" } else { "" };
            assert_eq!((row.len(), row[1]), (4, format!("{weight}{online}").as_str()), "{}", danger.code());
            assert!(row[2].starts_with(danger.title()), "{}: {} is no {}", danger.code(), row[2], danger.title());
            assert!(!row[3].is_empty(), "{} has a way out", danger.code());
        }
    }

    #[test]
    fn codes_are_stable_and_distinct() {
        let codes: Vec<_> = Danger::ALL.iter().map(|danger| danger.code()).collect();
        let expected: Vec<_> = (1..=10).map(|n| format!("TG{n:03}")).collect();
        assert_eq!(codes, expected);
        let titles: BTreeSet<_> = Danger::ALL.iter().map(|danger| danger.title()).collect();
        assert_eq!(titles.len(), Danger::ALL.len());
        assert!(Danger::ALL.iter().all(|danger| !danger.way_out().is_empty()));
    }
}
