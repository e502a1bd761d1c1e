//! Settings that decide how a consumer is a member of its group, where the client or the broker would find out late, or not
//! at all.

use std::{collections::BTreeMap, ops::RangeInclusive};

use super::{document::Place, section::Section};

/// How often topics may be looked at for new partitions, in ms. The longest is also the default.
pub const REFRESH_MS: RangeInclusive<u64> = 1_000..=30_000;
/// Its setting.
pub const REFRESH: &str = "topic.metadata.refresh.interval.ms";
/// What makes a member a static one.
pub(super) const INSTANCE: &str = "group.instance.id";
/// As the broker has it for topics' names, which it holds these ids against.
const LONGEST_INSTANCE: usize = 249;

/// librdkafka's own defaults, in ms.
pub(super) const SESSION_TIMEOUT_MS: u64 = 45_000;
pub(super) const MAX_POLL_INTERVAL_MS: u64 = 300_000;
const HEARTBEAT_MS: u64 = 3_000;

/// A cluster's settings, as librdkafka takes them.
pub(super) struct Membership<'a>(pub(super) &'a BTreeMap<String, String>);

impl Membership<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    fn ms(&self, key: &str, default: u64) -> u64 {
        self.get(key).and_then(|value| value.trim().parse().ok()).unwrap_or(default)
    }

    /// Whether the broker assigns partitions (KIP-848).
    pub(super) fn newer_protocol(&self) -> bool {
        self.get("group.protocol").is_some_and(|protocol| protocol.eq_ignore_ascii_case("consumer"))
    }

    /// After how long a silent member is thrown out, in ms, and the setting that says so.
    pub(super) fn session_timeout(&self) -> (u64, &'static str) {
        if self.newer_protocol() {
            // The broker's; what it is cannot be known offline.
            return (SESSION_TIMEOUT_MS, "group.consumer.session.timeout.ms of the broker, by default");
        }
        (self.ms("session.timeout.ms", SESSION_TIMEOUT_MS), "session.timeout.ms")
    }

    /// After how long a member that does not come round leaves by itself, in ms.
    pub(super) fn max_poll_interval(&self) -> u64 {
        self.ms("max.poll.interval.ms", MAX_POLL_INTERVAL_MS)
    }

    /// The id of a static member.
    pub(super) fn instance(&self) -> Option<&str> {
        self.get(INSTANCE)
    }
}

/// Reports what cannot be, or would be something else than it seems.
pub(super) fn check(section: &Section<'_>, place: &Place, properties: &BTreeMap<String, String>) {
    let membership = Membership(properties);
    let error = |kind, key: &str, message: String, help: &str| section.error(kind, place, key, message, help);
    if membership.newer_protocol() {
        for key in ["session.timeout.ms", "heartbeat.interval.ms"] {
            if membership.get(key).is_some() {
                let message = format!("`{key}` cannot be set with group.protocol = \"consumer\"");
                error("refused-setting", key, message, "take it out: the broker decides (group.consumer.…)");
            }
        }
        if membership.instance().is_some() {
            // The broker answers UNRELEASED_INSTANCE_ID, which the client holds for fatal.
            let message = format!("`{INSTANCE}` cannot be set with group.protocol = \"consumer\"");
            let help = "take one of the two out: a host that was killed could not come back under its id before the \
                        broker has missed it, and the client would give up for good";
            error("refused-setting", INSTANCE, message, help);
        }
    } else {
        classic(&membership, error);
    }
    if let Some(id) = membership.instance() {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if id.is_empty() || id.len() > LONGEST_INSTANCE || !id.chars().all(fits) || matches!(id, "." | "..") {
            let message = format!("`{INSTANCE}` is no id that a broker takes");
            let help = "1 to 249 of a-z, A-Z, 0-9, \".\", \"_\", \"-\"; one per process, the same after a restart, \
                        such as \"${HOSTNAME}\"";
            error("bad-value", INSTANCE, message, help);
        }
    }
    if membership.get(REFRESH).is_some() && !REFRESH_MS.contains(&membership.ms(REFRESH, 0)) {
        let message = format!("`{REFRESH}` = {} is out of range", membership.get(REFRESH).unwrap_or_default());
        let help = "from 1000 to 30000, which is the default: a partition that nobody notices is not read";
        error("out-of-range", REFRESH, message, help);
    }
}

fn classic(membership: &Membership<'_>, error: impl Fn(&'static str, &str, String, &str)) {
    const ASSIGNOR: &str = "group.remote.assignor";
    if membership.get(ASSIGNOR).is_some() {
        let message = format!("`{ASSIGNOR}` is ignored: the members assign the partitions, by cooperative-sticky");
        error("ignored-setting", ASSIGNOR, message, "set \"group.protocol\" = \"consumer\", or take it out");
    }
    let (session, poll) = (membership.session_timeout().0, membership.max_poll_interval());
    if poll < session {
        let message = format!("`max.poll.interval.ms` ({poll}) is less than `session.timeout.ms` ({session})");
        error(
            "time-outs",
            "max.poll.interval.ms",
            message,
            "raise the one or lower the other; the client does not start so",
        );
    }
    let heartbeat = membership.ms("heartbeat.interval.ms", HEARTBEAT_MS);
    if heartbeat >= session {
        let message =
            format!("`heartbeat.interval.ms` ({heartbeat}) is not less than `session.timeout.ms` ({session})");
        let help = "a member is thrown out between two heartbeats: a third of the session time-out or less is usual";
        error("time-outs", "heartbeat.interval.ms", message, help);
    }
}
