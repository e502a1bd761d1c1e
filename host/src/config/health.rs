//! `[health]`: after how long without progress the process says so.

use std::{ops::RangeInclusive, time::Duration};

use super::{consumer::PlacedConsumer, document::Place, quantity::show_duration, schema, section::Section};

const RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);

/// The watchdog's patience.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthBounds {
    /// Kafka or the database has not answered for so long: not ready. A broker that moves its leaders, or a database that
    /// fails over, may be quicker.
    pub silent_after: Duration,
    /// A lane with work has finished none of it, or a partition that is behind has not moved, for so long: not ready.
    pub stuck_after: Duration,
    /// The thread that serves a group has not come round for so long: not alive. It does not come back.
    pub dead_after: Duration,
}

impl Default for HealthBounds {
    fn default() -> Self {
        Self {
            silent_after: Duration::from_secs(15),
            stuck_after: Duration::from_secs(25),
            dead_after: Duration::from_secs(600),
        }
    }
}

/// Reads the section; says where `dead_after` stands.
pub(super) fn read(root: &Section<'_>) -> (HealthBounds, Option<Place>) {
    let default = HealthBounds::default();
    let Some(section) = root.section("health", &schema::HEALTH) else { return (default, None) };
    let bounds = HealthBounds {
        silent_after: section.duration("silent_after", default.silent_after, RANGE),
        stuck_after: section.duration("stuck_after", default.stuck_after, RANGE),
        dead_after: section.duration("dead_after", default.dead_after, RANGE),
    };
    (bounds, Some(section.place_of("dead_after")))
}

/// A process must not be called dead, and killed, in the middle of a revoke.
pub(super) fn check(root: &Section<'_>, bounds: HealthBounds, place: Option<&Place>, consumers: &[PlacedConsumer]) {
    let Some(longest) = consumers.iter().max_by_key(|consumer| consumer.consumer.revoke_deadline) else { return };
    let deadline = longest.consumer.revoke_deadline;
    if bounds.dead_after > deadline {
        return;
    }
    let Some(place) = place.or(longest.revoke_deadline.as_ref()) else { return };
    let (dead, revoke) = (show_duration(bounds.dead_after), show_duration(deadline));
    let message = format!("`dead_after` ({dead}) is not more than `revoke_deadline` ({revoke}) of {}", longest.path);
    let help = "raise `dead_after`, or lower `revoke_deadline`: whoever restarts what /livez calls dead would do it in the \
                middle of a revoke";
    root.error("time-outs", place, "health.dead_after", message, help);
}
