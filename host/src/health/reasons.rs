//! What is wrong with a consumer, in words, from what its pipeline has told.

use std::{collections::BTreeMap, time::Instant};

use serde::Serialize;

use super::{
    consumer::{ConsumerHealth, Lane, PartitionState, Phase},
    rules::{PluginReport, ReloadReport},
};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Whose.
    pub consumer: String,
    /// `consumer`, `lane 0`, `orders[3]`, `group`.
    pub about: String,
    /// What is wrong and, where known, what to do.
    pub text: String,
}

/// A consumer's state, for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConsumerReport {
    /// Its name.
    pub consumer: String,
    /// starting, running, paused, stopped, drained.
    pub phase: &'static str,
    /// Its lanes, in order.
    pub lanes: Vec<LaneReport>,
    /// Its partitions: reading, waiting, stopped.
    pub partitions: BTreeMap<String, &'static str>,
    /// Offsets behind the end of the log, as far as known.
    pub lag: BTreeMap<String, i64>,
    /// The plugin that rules; `None` = none was ready yet.
    pub plugin: Option<PluginReport>,
    /// What became of the last reload; `None` = there was none.
    pub last_reload: Option<ReloadReport>,
    /// What is wrong.
    pub reasons: Vec<Reason>,
}

/// A lane's state, for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LaneReport {
    /// idle, working, retrying.
    pub state: &'static str,
    /// Batches at hand.
    pub batches: usize,
}

impl ConsumerHealth {
    pub(super) fn live(&self, now: Instant) -> bool {
        let state = self.lock();
        let ended = matches!(state.phase, Phase::Stopped(_) | Phase::Drained);
        ended || state.polled.is_none_or(|polled| now.saturating_duration_since(polled) < self.bounds.dead_after)
    }

    pub(super) fn reasons(&self, now: Instant) -> Vec<Reason> {
        let state = self.lock();
        let reason = |about: String, text: String| Reason { consumer: self.name.to_string(), about, text };
        let whole = |text: &str| reason("consumer".to_owned(), text.to_owned());
        let mut reasons = Vec::new();
        match &state.phase {
            Phase::Starting => {
                reasons.push(whole(&format!("has not joined its group yet{}", state.waits_for())));
            }
            Phase::Running => {}
            Phase::Stopped(why) => return vec![whole(&format!("stopped: {why}"))],
            Phase::Drained => return vec![whole("is shutting down")],
        }
        reasons.extend(
            state
                .away
                .reasons(now, self.bounds.silent_after)
                .map(|(dependency, text)| reason(dependency.to_string(), text)),
        );
        if state.paused {
            let name = &self.name;
            reasons.push(whole(&format!(
                "is paused and takes no records: `tidegate consumers resume {name}`, or POST /v1/consumers/{name}/resume, \
                 goes on"
            )));
        }
        let unserved = state.polled.map(|polled| now.saturating_duration_since(polled)).unwrap_or_default();
        if unserved >= self.unserved_after {
            reasons.push(reason("group".to_owned(), format!("was not served for {} s", unserved.as_secs())));
        }
        let out = state.out_since.map(|since| now.saturating_duration_since(since));
        if let (Phase::Running, Some(out)) = (&state.phase, out)
            && out >= self.bounds.silent_after
        {
            let trouble = state.trouble.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
            let text = format!("is not let in again for {} s after it was missed{trouble}", out.as_secs());
            reasons.push(reason("group".to_owned(), text));
        }
        for (number, lane) in state.lanes.iter().enumerate() {
            let about = format!("lane {number}");
            let stands = now.saturating_duration_since(lane.since);
            if let Some(why) = &lane.retrying {
                reasons.push(reason(about, format!("tries its batch again: {why}")));
            } else if lane.in_flight > 0 && stands >= self.bounds.stuck_after {
                reasons.push(reason(about, format!("has had work for {} s and finished none of it", stands.as_secs())));
            }
        }
        for (topic, why) in &state.missing {
            // Each of its partitions says so, where it has any.
            if !state.partitions.keys().any(|name| name.topic == *topic) {
                reasons.push(reason(format!("topic {topic}"), why.clone()));
            }
        }
        for (name, partition) in &state.partitions {
            match partition {
                PartitionState::Reading => {
                    let still = state.behind.reason(name, now, self.bounds.stuck_after).filter(|_| !state.paused);
                    reasons.extend(still.map(|text| reason(name.to_string(), text)));
                }
                PartitionState::Waiting(why) => {
                    reasons.push(reason(name.to_string(), format!("waits for its start point: {why}")));
                }
                PartitionState::Stopped(why) => reasons.push(reason(name.to_string(), format!("is stopped: {why}"))),
            }
        }
        reasons
    }

    pub(super) fn report(&self, now: Instant) -> ConsumerReport {
        let reasons = self.reasons(now);
        let state = self.lock();
        let phase = match &state.phase {
            Phase::Starting => "starting",
            Phase::Running if state.paused => "paused",
            Phase::Running => "running",
            Phase::Stopped(_) => "stopped",
            Phase::Drained => "drained",
        };
        let partition = |partition: &PartitionState| match partition {
            PartitionState::Reading => "reading",
            PartitionState::Waiting(_) => "waiting",
            PartitionState::Stopped(_) => "stopped",
        };
        let lane = |lane: &Lane| LaneReport {
            state: match (&lane.retrying, lane.in_flight) {
                (Some(_), _) => "retrying",
                (None, 0) => "idle",
                (None, _) => "working",
            },
            batches: lane.in_flight,
        };
        ConsumerReport {
            consumer: self.name.to_string(),
            phase,
            lanes: state.lanes.iter().map(lane).collect(),
            partitions: state.partitions.iter().map(|(name, p)| (name.to_string(), partition(p))).collect(),
            lag: state.lag.iter().map(|(name, records)| (name.to_string(), *records)).collect(),
            plugin: state.plugin.clone(),
            last_reload: state.last_reload.clone(),
            reasons,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{
        config::HealthBounds,
        health::{Dependency, consumer::STUCK_POLL},
        identity::ConsumerName,
        source::{PartitionName, StopReason},
    };

    const STUCK_LANE: Duration = Duration::from_secs(25);
    const DEAD_POLL: Duration = Duration::from_secs(600);

    fn consumer() -> Arc<ConsumerHealth> {
        ConsumerHealth::new(ConsumerName::new("c").unwrap(), 2)
    }

    fn name(partition: i32) -> PartitionName {
        PartitionName { topic: "t".into(), partition }
    }

    fn texts(consumer: &ConsumerHealth, later: Duration) -> Vec<String> {
        let reasons = consumer.reasons(Instant::now() + later);
        reasons.into_iter().map(|reason| format!("{}: {}", reason.about, reason.text)).collect()
    }

    #[test]
    fn ready_once_it_is_in_its_group() {
        let consumer = consumer();
        consumer.trouble("no broker".into());
        assert_eq!(texts(&consumer, Duration::ZERO), ["consumer: has not joined its group yet: no broker"]);
        consumer.doing(Some("asking again".to_owned()));
        let both = "has not joined its group yet: asking again; so far: no broker";
        assert_eq!(texts(&consumer, Duration::ZERO), [format!("consumer: {both}")]);
        assert_eq!(consumer.waits_for().as_deref(), Some(": asking again; so far: no broker"));
        consumer.assigned(&[]);
        assert_eq!((texts(&consumer, Duration::ZERO), consumer.waits_for()), (vec![], None));
        consumer.stopped("first".into());
        consumer.stopped("second".into());
        assert_eq!(texts(&consumer, Duration::ZERO), ["consumer: stopped: first"]);
    }

    #[test]
    fn paused_is_not_ready_and_a_restart_forgets_why_it_stopped() {
        let consumer = consumer();
        consumer.assigned(&[]);
        consumer.paused(true);
        let phase = || consumer.report(Instant::now()).phase;
        assert_eq!(phase(), "paused");
        let said = texts(&consumer, Duration::ZERO);
        assert!(said.len() == 1 && said[0].contains("/v1/consumers/c/resume"), "{said:?}");
        consumer.lane_took(0);
        consumer.stopped("poison".into());
        assert_eq!(phase(), "stopped");
        consumer.restarting();
        consumer.paused(false);
        assert_eq!((phase(), consumer.stop_reason()), ("starting", None));
        consumer.assigned(&[]);
        assert_eq!(texts(&consumer, STUCK_LANE), [""; 0], "a batch of before is nobody's work");
    }

    #[test]
    fn a_stopped_partition_is_named_and_the_others_go_on() {
        let consumer = consumer();
        consumer.assigned(&[name(0), name(1)]);
        consumer.partition_stopped(&name(1), &StopReason::TopicGone { topic: "t".into() }, Some("do this".into()));
        let said = texts(&consumer, Duration::ZERO);
        assert!(
            said.len() == 1 && said[0].starts_with("t[1]: is stopped: topic t does not exist any more"),
            "{said:?}"
        );
        assert_eq!(consumer.partitions(), (1, 1));
        consumer.revoked(&[name(1)]);
        assert_eq!(texts(&consumer, Duration::ZERO), [""; 0]);
    }

    #[test]
    fn a_missing_topic_is_named_until_it_is_there_whoever_gets_its_partitions() {
        let consumer = consumer();
        let topic: Arc<str> = "t".into();
        consumer.assigned(&[]);
        assert!(consumer.topic_missing(&topic, "create it".into()) && !consumer.topic_missing(&topic, "again".into()));
        assert_eq!(texts(&consumer, Duration::ZERO), ["topic t: create it"]);
        consumer.partition_stopped(&name(0), &StopReason::TopicGone { topic: topic.clone() }, None);
        assert!(matches!(&texts(&consumer, Duration::ZERO)[..], [one] if one.starts_with("t[0]: is stopped")));
        consumer.revoked(&[name(0)]);
        assert!(consumer.topic_found("t") && !consumer.topic_found("t"));
        assert_eq!(texts(&consumer, Duration::ZERO), [""; 0], "another member may have its partitions");
    }

    #[test]
    fn a_lane_is_stuck_only_with_work() {
        let consumer = consumer();
        consumer.assigned(&[]);
        consumer.polled();
        assert_eq!(texts(&consumer, STUCK_LANE), [""; 0], "idle is not stuck");
        consumer.lane_took(1);
        assert_eq!(texts(&consumer, STUCK_POLL).len(), 2, "the lane, and the group that nobody serves in this test");
        consumer.lane_retrying(1, "no database".into());
        assert_eq!(texts(&consumer, Duration::ZERO), ["lane 1: tries its batch again: no database"]);
        consumer.lane_finished(1);
        assert_eq!(texts(&consumer, Duration::ZERO), [""; 0]);
    }

    #[test]
    fn whoever_does_not_answer_and_whatever_does_not_move_is_told_after_a_while() {
        let consumer = consumer();
        consumer.assigned(&[name(0), name(1)]);
        consumer.silent(Dependency::Database, "refused".into());
        assert!(consumer.lag(&name(0), 5, 3) && consumer.lag(&name(1), 5, 0));
        let later = Duration::from_secs(30);
        assert_eq!(texts(&consumer, Duration::ZERO), [""; 0]);
        let said = texts(&consumer, later);
        assert!(said.len() == 2 && said[0].starts_with("database: has not answered for 30 s: refused"), "{said:?}");
        assert!(said[1].starts_with("t[0]: is 3 offsets behind and has not moved for 30 s"), "{said:?}");
        consumer.answers(Dependency::Database);
        consumer.revoked(&[name(0)]);
        assert_eq!(texts(&consumer, later), [""; 0]);
        assert!(!consumer.lag(&name(0), 5, 3), "another's by now");
        assert_eq!(texts(&consumer, later), [""; 0]);
    }

    #[test]
    fn whoever_is_out_of_its_group_says_so_after_a_while() {
        let consumer = consumer();
        consumer.assigned(&[]);
        consumer.member(true);
        consumer.member(false);
        consumer.member(false);
        consumer.trouble("the group is full".into());
        assert_eq!(texts(&consumer, Duration::from_secs(1)), [""; 0], "a rebalance");
        let said = texts(&consumer, Duration::from_secs(20));
        assert!(said.len() == 1 && said[0].starts_with("group: is not let in again for 20 s"), "{said:?}");
        assert!(said[0].ends_with(": the group is full"), "{said:?}");
        consumer.member(true);
        assert_eq!(texts(&consumer, Duration::from_secs(20)), [""; 0]);
    }

    #[test]
    fn patience_is_the_configuration_s() {
        let secs = Duration::from_secs;
        let bounds = HealthBounds { silent_after: secs(2), stuck_after: secs(3), dead_after: secs(100) };
        let name = ConsumerName::new("c").unwrap();
        let consumer = ConsumerHealth::watched(name, 1, bounds, secs(1));
        consumer.assigned(&[]);
        consumer.polled();
        consumer.silent(Dependency::Kafka, "refused".into());
        assert_eq!(texts(&consumer, secs(1)), [""; 0]);
        assert_eq!(texts(&consumer, secs(2)).len(), 1);
        consumer.lane_took(0);
        assert_eq!(texts(&consumer, secs(3)).len(), 2);
        let later = Instant::now() + secs(101);
        assert!(!consumer.live(later));
        assert!(
            texts(&consumer, secs(101)).iter().any(|text| text.starts_with("group: was not served")),
            "and says why"
        );
    }

    #[test]
    fn only_a_poll_thread_that_hangs_calls_for_a_restart() {
        let consumer = consumer();
        let later = Instant::now() + DEAD_POLL * 2;
        consumer.trouble("no database".into());
        assert!(consumer.live(later), "a restart does not bring the database back");
        consumer.polled();
        assert!(!consumer.live(later));
        consumer.stopped("no".into());
        assert!(consumer.live(later), "nor does it help a consumer that stopped for a reason");
    }
}
