//! Whether a group has shared its partitions out as it should, and which member mends it where it has not. Pure; the caller
//! has the clock.
//!
//! The member that shares out asks a broker for the partitions. Where that broker does not know the topic just then (it was
//! deleted and is made again, or the broker has just started), members keep what they have and nobody gets the rest; and
//! since the topic looks to each of them as before when they look again, nobody asks for another share. Whoever leaves and
//! joins has it done anew.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use super::{super::PartitionName, raw_group::Member};

/// What is wrong, and is this member's to mend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// These have no owner.
    Unowned(Vec<PartitionName>),
    /// It has none, and others have several.
    Spare,
}

/// What is wrong in a group where nothing is being shared out, if it is `me` who is to mend it: the member whose leaving
/// costs least. A static member cannot: the group takes it back with what it had. `partitions` are those of the topics of
/// this member's.
pub(super) fn wrong(me: &str, members: &[Member], partitions: &[PartitionName]) -> Option<Wrong> {
    let mine = members.iter().find(|member| member.id == me && !member.is_static)?;
    let owned: HashSet<_> = members.iter().flat_map(|member| &member.partitions).collect();
    let unowned: Vec<_> = partitions.iter().filter(|name| !owned.contains(name)).cloned().collect();
    if !unowned.is_empty() {
        let able = members.iter().filter(|member| !member.is_static);
        let mends = able.min_by_key(|member| (member.partitions.len(), &member.id))?;
        return (mends.id == me).then_some(Wrong::Unowned(unowned));
    }
    let several = |member: &Member| member.partitions.iter().filter(|name| partitions.contains(name)).count() > 1;
    (mine.partitions.is_empty() && members.iter().any(several)).then_some(Wrong::Spare)
}

/// How long it must have been wrong.
const LASTS: Duration = Duration::from_secs(8);
/// How long a member waits at least before it mends again; twice as long each time.
const PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// When to mend.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    since: Option<Instant>,
    /// When it was mended last, and how long to wait after that.
    mended: Option<(Instant, Duration)>,
}

impl Sharing {
    /// It is wrong, or not. Whether to mend it now.
    pub(super) fn is_due(&mut self, now: Instant, wrong: bool) -> bool {
        if !wrong {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        let waits = self.mended.is_some_and(|(when, pause)| now.saturating_duration_since(when) < pause);
        if waits || now.saturating_duration_since(since) < LASTS {
            return false;
        }
        let pause = self.mended.map_or(PAUSE, |(_, pause)| (pause * 2).min(LONGEST_PAUSE));
        (self.since, self.mended) = (None, Some((now, pause)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(numbers: &[i32]) -> Vec<PartitionName> {
        numbers.iter().map(|&partition| PartitionName { topic: "orders".into(), partition }).collect()
    }

    fn member(id: &str, numbers: &[i32]) -> Member {
        let (client, host) = (String::new(), String::new());
        Member { id: id.into(), client, host, is_static: false, partitions: names(numbers) }
    }

    #[test]
    fn a_fair_share_is_left_alone_and_spare_members_are_normal() {
        let members = [member("a", &[0]), member("b", &[1]), member("c", &[])];
        for me in ["a", "b", "c", "nobody"] {
            assert_eq!(wrong(me, &members, &names(&[0, 1])), None, "{me}");
        }
    }

    #[test]
    fn the_one_whom_it_costs_least_mends_what_nobody_owns() {
        let members = [member("a", &[0, 1]), member("c", &[2]), member("b", &[3])];
        let all = names(&[0, 1, 2, 3, 4]);
        assert_eq!(wrong("b", &members, &all), Some(Wrong::Unowned(names(&[4]))));
        assert_eq!((wrong("a", &members, &all), wrong("c", &members, &all)), (None, None));
        let fixed = [Member { is_static: true, ..member("b", &[]) }, member("a", &[0])];
        assert_eq!(wrong("b", &fixed, &names(&[0, 1])), None, "it would get back what it had");
        assert_eq!(wrong("a", &fixed, &names(&[0, 1])), Some(Wrong::Unowned(names(&[1]))));
    }

    #[test]
    fn whoever_got_nothing_while_others_have_several_asks_for_its_share() {
        let members = [member("a", &[0, 1, 2]), member("b", &[3, 4, 5]), member("c", &[])];
        let all = names(&[0, 1, 2, 3, 4, 5]);
        assert_eq!(wrong("c", &members, &all), Some(Wrong::Spare));
        assert_eq!(wrong("a", &members, &all), None);
    }

    #[test]
    fn it_is_mended_once_it_lasts_and_ever_more_seldom() {
        let (mut sharing, start) = (Sharing::default(), Instant::now());
        let mended: Vec<u64> =
            (0..300).filter(|&second| sharing.is_due(start + Duration::from_secs(second), second != 4)).collect();
        assert_eq!(mended, [13, 43, 103, 223], "seconds; it was right for a moment at the fourth");
    }
}
