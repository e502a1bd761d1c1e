//! What a consumer depends on and cannot reach. Pure; the clock comes in.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

/// What a consumer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependency {
    /// The Kafka cluster.
    Kafka,
    /// The database.
    Database,
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kafka => "Kafka",
            Self::Database => "database",
        })
    }
}

/// Who does not answer, since when, and in which words that was last noticed.
#[derive(Debug, Default)]
pub(super) struct Away(BTreeMap<Dependency, (Instant, String)>);

impl Away {
    /// It has answered.
    pub(super) fn answers(&mut self, dependency: Dependency) {
        self.0.remove(&dependency);
    }

    /// It has not answered. It counts from the first time in a row.
    pub(super) fn silent(&mut self, dependency: Dependency, now: Instant, why: String) {
        let since = self.0.get(&dependency).map_or(now, |(since, _)| *since);
        self.0.insert(dependency, (since, why));
    }

    /// What has been away for longer than this.
    pub(super) fn reasons(&self, now: Instant, tolerated: Duration) -> impl Iterator<Item = (Dependency, String)> {
        self.0.iter().filter_map(move |(dependency, (since, why))| {
            let away = now.saturating_duration_since(*since);
            (away >= tolerated).then(|| (*dependency, format!("has not answered for {} s: {why}", away.as_secs())))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERATED: Duration = Duration::from_secs(15);

    #[test]
    fn an_outage_counts_from_its_first_sign_and_ends_with_the_first_answer() {
        let (start, mut away) = (Instant::now(), Away::default());
        let said =
            |away: &Away, later| away.reasons(start + later, TOLERATED).map(|(_, text)| text).collect::<Vec<_>>();
        away.silent(Dependency::Kafka, start, "refused".into());
        assert_eq!(said(&away, Duration::ZERO), [""; 0], "a moment is no outage");
        away.silent(Dependency::Kafka, start + TOLERATED / 2, "timed out".into());
        assert_eq!(said(&away, TOLERATED), ["has not answered for 15 s: timed out"]);
        away.answers(Dependency::Database);
        assert_eq!(said(&away, TOLERATED).len(), 1, "somebody else's answer");
        away.answers(Dependency::Kafka);
        assert_eq!(said(&away, TOLERATED * 9), [""; 0]);
    }
}
