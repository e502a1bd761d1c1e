//! How long the transactions of a database may take, and the order that this stands in with a group's time-outs: each gives
//! up before the next one notices.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    Dialect, consumer::PlacedConsumer, document::Place, document::Reading, quantity::show_duration, section::Section,
};

/// The keys, each with a value less than the next one's.
pub(super) const KEYS: [&str; 3] = ["lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"];
const RANGE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3_600);

/// Time-outs, each longer than the one before: a waiting statement gives up before it is cancelled, a statement before
/// the idle transaction is ended, and all before a lane must have drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// How long a statement waits for a lock: `lock_timeout`.
    pub lock: Duration,
    /// How long a statement runs: `statement_timeout`.
    pub statement: Duration,
    /// How long a transaction waits for its next statement: `idle_in_transaction_session_timeout`. Ends the transaction
    /// of a host that was stopped between two statements.
    pub idle: Duration,
    /// How long the server sends into silence: `tcp_user_timeout`. Ends the transaction of a host that was stopped while
    /// it was being answered, which no other time-out covers.
    pub tcp: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self::of([None; 3], None)
    }
}

impl Timeouts {
    /// What is given, and defaults that fit below it and below the shortest revoke deadline of the database's consumers.
    fn of([lock, statement, idle]: [Option<Duration>; 3], deadline: Option<Duration>) -> Self {
        let below = |limit: Option<Duration>, numerator, denominator| {
            limit.map_or(Duration::MAX, |limit| limit.saturating_mul(numerator) / denominator)
        };
        let idle = idle.unwrap_or_else(|| Duration::from_secs(15).min(below(deadline, 7, 8)));
        let statement = statement.unwrap_or_else(|| Duration::from_secs(10).min(below(Some(idle), 6, 7)));
        let lock = lock.unwrap_or_else(|| Duration::from_secs(2).min(below(Some(statement), 1, 2)));
        Self { lock, statement, idle, tcp: Duration::from_secs(10).min(below(Some(idle), 2, 3)) }
    }

    fn in_order(&self) -> [Duration; 3] {
        [self.lock, self.statement, self.idle]
    }
}

/// What a database's section says of its time-outs, and where.
#[derive(Clone, Debug, Default)]
pub(super) struct Given([Option<(Duration, Place)>; 3]);

/// Reads them.
pub(super) fn read(section: &Section<'_>, dialect: Dialect) -> Given {
    let defaults = Timeouts::default().in_order();
    let mut given = Given::default();
    for ((slot, key), default) in given.0.iter_mut().zip(KEYS).zip(defaults) {
        if !section.has(key) {
            continue;
        }
        let place = section.place_of(key);
        if dialect == Dialect::Sqlite {
            let message = format!("`{key}` on SQLite, which has no such time-out");
            section.error(
                "time-outs",
                &place,
                key,
                message,
                "take it out: SQLite waits five seconds for its one writer",
            );
        } else {
            *slot = Some((section.duration(key, default, RANGE), place));
        }
    }
    given
}

/// Fills in what is not given, and reports what does not stand in order. `consumers` are the database's, with their revoke
/// deadlines; `path` is the database's.
pub(super) fn settle<'a>(
    reading: &Reading<'_>,
    given: &Given,
    path: &str,
    consumers: impl Iterator<Item = &'a PlacedConsumer>,
) -> Timeouts {
    let first = consumers.min_by_key(|consumer| consumer.consumer.revoke_deadline);
    let deadline = first.map(|consumer| consumer.consumer.revoke_deadline);
    let timeouts = Timeouts::of(given.0.each_ref().map(|one| one.as_ref().map(|(value, _)| *value)), deadline);
    let values = timeouts.in_order();
    let shown =
        |value: Duration, given: bool| format!("{}{}", show_duration(value), if given { "" } else { ", the default" });
    for (at, key) in KEYS.iter().enumerate() {
        let (next, limit, why) = match (KEYS.get(at + 1), first) {
            (Some(next), _) => {
                (format!("`{next}` ({})", shown(values[at + 1], given.0[at + 1].is_some())), values[at + 1], WHY[at])
            }
            (None, Some(consumer)) => {
                let deadline = consumer.consumer.revoke_deadline;
                let shown = shown(deadline, consumer.revoke_deadline.is_some());
                (format!("`revoke_deadline` ({shown}) of {}", consumer.path), deadline, WHY[at])
            }
            (None, None) => continue,
        };
        if values[at] < limit {
            continue;
        }
        // A default gives way to what is given below it, so one of the two stands there.
        let places = [at, at + 1].map(|at| given.0.get(at).and_then(Option::as_ref).map(|(_, place)| place));
        let [own, next_place] = places;
        let Some(place) = own.or(next_place).or_else(|| first.and_then(|consumer| consumer.revoke_deadline.as_ref()))
        else {
            continue;
        };
        let (value, next_key) = (shown(values[at], own.is_some()), KEYS.get(at + 1).unwrap_or(&"revoke_deadline"));
        let message = format!("`{key}` ({value}) is not less than {next}");
        let above = if at + 1 == KEYS.len() { ", with session.timeout.ms above it" } else { "" };
        let help = format!("lower `{key}`, or raise `{next_key}`{above}: {why}");
        reading.error("time-outs", place, &format!("{path}.{key}"), &message, Some(&help));
    }
    timeouts
}

/// Why each must be less than the next.
const WHY: [&str; 3] = [
    "a statement that waits for a lock gives up by itself before it is cancelled",
    "a statement is cancelled before its transaction counts as idle",
    "a transaction of a host that hangs ends before its partitions are given to another one",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_stand_in_order_below_any_deadline() {
        let secs = Duration::from_secs;
        let usual = Timeouts { lock: secs(2), statement: secs(10), idle: secs(15), tcp: secs(10) };
        assert_eq!(Timeouts::default(), usual);
        assert_eq!(Timeouts::of([None; 3], Some(secs(20))), usual);
        for deadline in [secs(1), secs(3), secs(5), secs(12), secs(600)] {
            let t = Timeouts::of([None; 3], Some(deadline));
            assert!(t.lock < t.statement && t.statement < t.idle && t.idle < deadline && t.tcp < t.idle, "{t:?}");
        }
    }

    #[test]
    fn defaults_give_way_to_what_is_given() {
        let ms = Duration::from_millis;
        let t = Timeouts::of([None, Some(ms(900)), None], Some(ms(20_000)));
        assert_eq!((t.lock, t.statement, t.idle), (ms(450), ms(900), ms(15_000)));
        let t = Timeouts::of([None, None, Some(ms(700))], None);
        assert_eq!((t.lock, t.statement, t.idle), (ms(300), ms(600), ms(700)));
    }
}
