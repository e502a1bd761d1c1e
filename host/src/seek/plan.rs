//! What a move comes to for one partition. Pure.

use std::sync::Arc;

use uuid::Uuid;

use super::To;
use crate::{record::TopicPartition, source::PartitionName, store::Tip};

/// What broker and database say of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The partition of the topic as it is now.
    pub(super) partition: Arc<TopicPartition>,
    /// The tip of its chain.
    pub(super) chain: Option<Tip>,
    /// The chain of an earlier topic of that name: its id, and where it stands.
    pub(super) earlier: Option<(Uuid, i64)>,
    /// The group's offset.
    pub(super) kafka: Option<i64>,
    /// The oldest offset that is there.
    pub(super) first: i64,
    /// Where the next record will stand.
    pub(super) end: i64,
    /// Where the time that is wanted begins.
    pub(super) at_time: Option<i64>,
    /// Where the ledger's memory begins, by the records' times; `None` = it has forgotten nothing.
    pub(super) remembered_from: Option<i64>,
}

/// What it means. Offsets are counted, so there may be fewer records: control records and compaction leave gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// Offsets that were read before and are read again: duplicates, if the ledger remembers them.
    pub again: i64,
    /// Those of them that the ledger may have forgotten.
    pub forgotten: i64,
    /// Offsets that are there, were never read, and never will be.
    pub passed_over: i64,
    /// Offsets that were never read and are not there any more.
    pub gone: i64,
}

/// One partition's move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The partition of the topic as it is now.
    pub partition: Arc<TopicPartition>,
    /// The tip of its chain; `None` in a topic that was made again.
    pub chain: Option<Tip>,
    /// The chain of the earlier topic, where it was made again: its id, and where it stands.
    pub earlier: Option<(Uuid, i64)>,
    /// The group's offset.
    pub kafka: Option<i64>,
    /// The oldest offset that is there.
    pub first: i64,
    /// Where the next record will stand.
    pub end: i64,
    /// Where it would go on without this; `None` = nowhere.
    pub from: Option<i64>,
    /// Where it goes on.
    pub to: i64,
    /// What that means.
    pub effect: Effect,
}

impl Step {
    /// Whether the chain has to move.
    #[must_use]
    pub fn moves_chain(&self) -> bool {
        self.chain.is_none_or(|tip| tip.next_offset != self.to)
    }

    /// Whether the group's offset has to be set.
    #[must_use]
    pub fn moves_kafka(&self) -> bool {
        self.kafka != Some(self.to)
    }
}

/// Why a partition is not moved. What is written here ends in a way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The consumer has no checkpoint there.
    #[error("{0} has no checkpoint yet: run the consumer once; `start` in its configuration says where it begins")]
    Unread(PartitionName),
    /// The topic is another one than the checkpoints'.
    #[error(
        "topic {topic} was deleted and made again (topic id {was}, now {now}): offsets of the old one mean nothing in the \
         new one; --topic-recreated accepts that and goes on at the new one's start"
    )]
    Recreated {
        /// Its name.
        topic: Arc<str>,
        /// The id under which the checkpoints stand.
        was: Uuid,
        /// The id that the broker names.
        now: Uuid,
    },
    /// The offset is not in the log.
    #[error("{name} has no offset {offset}: it holds {first} up to {end}, where the next record will stand")]
    Outside {
        /// Where.
        name: PartitionName,
        /// The offset that was asked for.
        offset: i64,
        /// The oldest.
        first: i64,
        /// Where the next record will stand.
        end: i64,
    },
    /// The log is shorter than what was read.
    #[error(
        "{name} was read up to {at}, but its log ends at {end}: it was cut, and which offsets hold other records by now is \
         not known; --start, --time or --offset goes back to before the cut (what is still the same shows as duplicates)"
    )]
    Cut {
        /// Where.
        name: PartitionName,
        /// Where the chain stands.
        at: i64,
        /// Where the log ends.
        end: i64,
    },
    /// Records would be left out.
    #[error(
        "{name} would go from {from} to {to}: {count} offsets that were never read would be passed over, and their records \
         never applied; add --pass-over if that is meant"
    )]
    PassesOver {
        /// Where.
        name: PartitionName,
        /// Where it stands.
        from: i64,
        /// Where it would go.
        to: i64,
        /// How many offsets.
        count: i64,
    },
}

/// Decides; `None` = nothing is to be done there.
pub(super) fn step(place: &Place, to: To, pass_over: bool) -> Result<Option<Step>, Refusal> {
    let name = PartitionName::from(place.partition.as_ref());
    let Some(chain) = place.chain else {
        let Some((was, at)) = place.earlier else { return Err(Refusal::Unread(name)) };
        return if to == To::TopicRecreated {
            Ok(Some(begin(place, was, at)))
        } else {
            Err(Refusal::Recreated { topic: name.topic, was, now: place.partition.topic_id })
        };
    };
    let at = chain.next_offset;
    let wanted = match to {
        To::Offset(offset) => offset,
        To::Time(_) => place.at_time.unwrap_or(place.end),
        To::Start => place.first,
        To::End => place.end,
        To::OffsetsLost if at > place.end => return Err(Refusal::Cut { name, at, end: place.end }),
        To::OffsetsLost if at < place.first => place.first,
        // Nothing to accept there.
        To::OffsetsLost | To::TopicRecreated => return Ok(None),
    };
    if wanted < place.first || wanted > place.end {
        return Err(Refusal::Outside { name, offset: wanted, first: place.first, end: place.end });
    }
    let step = Step {
        partition: Arc::clone(&place.partition),
        chain: Some(chain),
        earlier: None,
        kafka: place.kafka,
        first: place.first,
        end: place.end,
        from: Some(start(place, at)),
        to: wanted,
        effect: effect(place, at, wanted),
    };
    let count = step.effect.passed_over + if to == To::OffsetsLost { 0 } else { step.effect.gone };
    if count > 0 && !pass_over {
        return Err(Refusal::PassesOver { name, from: at, to: wanted, count });
    }
    Ok((step.moves_chain() || step.moves_kafka()).then_some(step))
}

/// Where a host would start: where the chain stands, or behind it where the group's offset is, but not before the log where
/// that was read already.
fn start(place: &Place, chain: i64) -> i64 {
    match place.kafka {
        Some(offset) if offset < chain => offset.max(place.first.min(chain)),
        _ => chain,
    }
}

fn effect(place: &Place, at: i64, to: i64) -> Effect {
    let again = (at.min(place.end) - to).max(0);
    Effect {
        again,
        forgotten: place.remembered_from.map_or(0, |from| (from.min(to + again) - to).max(0)),
        passed_over: (to - at.max(place.first)).max(0),
        gone: (place.first.min(to) - at).max(0),
    }
}

/// The first link in a topic that was made again.
fn begin(place: &Place, was: Uuid, at: i64) -> Step {
    Step {
        partition: Arc::clone(&place.partition),
        chain: None,
        earlier: Some((was, at)),
        kafka: place.kafka,
        first: place.first,
        end: place.end,
        from: None,
        to: place.first,
        effect: Effect::default(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A log of 100 to 200, read up to `at`.
    fn place(at: i64, kafka: Option<i64>) -> Place {
        Place {
            partition: Arc::new(TopicPartition {
                cluster_id: "c".into(),
                topic_id: Uuid::from_u128(2),
                topic: "t".into(),
                partition: 0,
            }),
            chain: Some(Tip { id: Uuid::nil(), seq: 1, next_offset: at }),
            earlier: None,
            kafka,
            first: 100,
            end: 200,
            at_time: Some(150),
            remembered_from: None,
        }
    }

    fn moved(place: &Place, to: To) -> (Option<i64>, i64, Effect) {
        let step = step(place, to, true).unwrap().unwrap();
        (step.from, step.to, step.effect)
    }

    #[test]
    fn back_is_read_again_and_forward_is_passed_over() {
        let here = place(160, Some(160));
        let again = |again| Effect { again, ..Effect::default() };
        let over = |passed_over| Effect { passed_over, ..Effect::default() };
        assert_eq!(moved(&here, To::Offset(120)), (Some(160), 120, again(40)));
        assert_eq!(moved(&here, To::Time(7)), (Some(160), 150, again(10)));
        assert_eq!(moved(&here, To::Start), (Some(160), 100, again(60)));
        assert_eq!(moved(&here, To::End), (Some(160), 200, over(40)));
        assert_eq!(moved(&here, To::Offset(161)), (Some(160), 161, over(1)));
        let refused = step(&here, To::End, false).unwrap_err().to_string();
        assert!(refused.contains("40 offsets") && refused.contains("--pass-over"), "{refused}");
        assert_eq!(step(&here, To::Offset(160), false), Ok(None), "it is there already");
    }

    #[test]
    fn what_the_log_does_not_have_is_no_place_to_go() {
        for offset in [99, 201, -1, i64::MAX] {
            let refused = step(&place(160, None), To::Offset(offset), true);
            assert!(matches!(refused, Err(Refusal::Outside { first: 100, end: 200, .. })), "{offset}: {refused:?}");
        }
        for offset in [100, 200] {
            assert!(step(&place(160, None), To::Offset(offset), true).is_ok(), "{offset}");
        }
    }

    #[test]
    fn lost_offsets_are_given_up_and_nothing_else() {
        let lost = place(40, Some(40));
        assert_eq!(moved(&lost, To::OffsetsLost), (Some(40), 100, Effect { gone: 60, ..Effect::default() }));
        assert!(step(&lost, To::OffsetsLost, false).unwrap().is_some(), "the word is said by the form");
        assert!(matches!(step(&lost, To::Start, false), Err(Refusal::PassesOver { count: 60, .. })));
        let effect = Effect { gone: 60, passed_over: 30, ..Effect::default() };
        assert_eq!(moved(&lost, To::Offset(130)), (Some(40), 130, effect));
        assert_eq!(step(&place(100, Some(100)), To::OffsetsLost, false), Ok(None));
        assert_eq!(step(&place(160, Some(120)), To::OffsetsLost, false), Ok(None), "behind, but all is there");
    }

    #[test]
    fn a_log_that_was_cut_needs_a_person_who_knows_where() {
        let cut = place(250, Some(250));
        assert!(matches!(step(&cut, To::OffsetsLost, true), Err(Refusal::Cut { at: 250, end: 200, .. })));
        assert_eq!(moved(&cut, To::Start), (Some(250), 100, Effect { again: 100, ..Effect::default() }));
        assert_eq!(moved(&cut, To::End), (Some(250), 200, Effect::default()));
    }

    #[test]
    fn a_crash_between_the_two_steps_is_finished_by_the_same_command() {
        let moved = step(&place(200, Some(160)), To::End, false).unwrap().unwrap();
        assert!(!moved.moves_chain() && moved.moves_kafka());
        assert_eq!((moved.from, moved.to, moved.effect), (Some(160), 200, Effect::default()));
        assert_eq!(step(&place(200, Some(200)), To::End, false), Ok(None));
    }

    #[test]
    fn a_topic_that_was_made_again_takes_its_own_word() {
        let mut again = place(0, None);
        again.chain = None;
        assert!(matches!(step(&again, To::Start, true), Err(Refusal::Unread(_))));
        again.earlier = Some((Uuid::from_u128(1), 70));
        assert!(matches!(step(&again, To::Start, true), Err(Refusal::Recreated { .. })));
        let begun = step(&again, To::TopicRecreated, false).unwrap().unwrap();
        assert_eq!((begun.from, begun.to, begun.moves_chain()), (None, 100, true));
        assert_eq!(step(&place(160, Some(160)), To::TopicRecreated, false), Ok(None), "it is the one that is read");
    }

    #[test]
    fn what_the_ledger_has_forgotten_is_counted() {
        let mut old = place(160, Some(160));
        for (from, forgotten) in [(90, 0), (110, 0), (130, 10), (190, 40)] {
            old.remembered_from = Some(from);
            assert_eq!(moved(&old, To::Offset(120)).2.forgotten, forgotten, "{from}");
        }
    }
}
