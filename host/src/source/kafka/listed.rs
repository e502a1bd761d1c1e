//! Who is in a group of the classic protocol, by the client's old question. Not by DescribeConsumerGroups
//! ([`super::raw_group`]): while its coordinator goes away and comes back, librdkafka 2.12 may meet an assertion of its own in the
//! answer to that one, and end the process. For a command that asks once this is a pity; a host asks all day.

use std::time::Duration;

use rdkafka::{
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    groups::GroupMemberInfo,
};

use super::{
    super::PartitionName,
    raw_group::{Group, Member},
};

/// A group; `None` where nobody answers within `timeout`, there is no such group, or it is one of the newer protocol: there
/// the broker shares out.
pub(super) fn group<C: ConsumerContext>(consumer: &BaseConsumer<C>, group: &str, timeout: Duration) -> Option<Group> {
    let list = consumer.client().fetch_group_list(Some(group), timeout).ok()?;
    let found = list.groups().iter().find(|found| found.name() == group)?;
    let members: Option<Vec<Member>> = found.members().iter().map(member).collect();
    Some(Group { stable: found.state() == "Stable", members: members? })
}

/// `None` where its assignment cannot be read.
fn member(member: &GroupMemberInfo) -> Option<Member> {
    let (id, client) = (member.id().to_owned(), member.client_id().to_owned());
    // The broker makes ids of `client.id`, and of `group.instance.id` where there is one.
    let is_static = !id.strip_prefix(&client).is_some_and(|rest| rest.starts_with('-'));
    let partitions = partitions(member.assignment().unwrap_or_default())?;
    Some(Member { id, client, host: member.client_host().to_owned(), is_static, partitions })
}

/// The partitions in an assignment (Kafka's ConsumerProtocolAssignment: a version, then topics with their partitions; what
/// follows does not matter here). `None` where it is none; nothing at all is an empty one.
fn partitions(bytes: &[u8]) -> Option<Vec<PartitionName>> {
    let mut names = Vec::new();
    if bytes.is_empty() {
        return Some(names);
    }
    let mut rest = Bytes(bytes.get(2..)?);
    for _ in 0..rest.count()? {
        let length = usize::from(u16::from_be_bytes(*rest.take::<2>()?));
        let topic = std::str::from_utf8(rest.0.get(..length)?).ok()?;
        rest.0 = rest.0.get(length..)?;
        for _ in 0..rest.count()? {
            let partition = i32::from_be_bytes(*rest.take::<4>()?);
            names.push(PartitionName { topic: topic.into(), partition });
        }
    }
    Some(names)
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<&[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(head)
    }

    /// How many elements follow: a negative number is none.
    fn count(&mut self) -> Option<i32> {
        self.take::<4>().map(|bytes| i32::from_be_bytes(*bytes).max(0))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Two topics with two and one partitions, and user data behind.
    const ASSIGNED: &[u8] =
        b"\0\x03\0\0\0\x02\0\x02ab\0\0\0\x02\0\0\0\0\0\0\0\x07\0\x01c\0\0\0\x01\0\0\0\x05\xff\xff\xff\xff";

    #[test]
    fn an_assignment_is_read_whole_or_not_at_all() {
        let name = |topic: &str, partition| PartitionName { topic: topic.into(), partition };
        assert_eq!(partitions(ASSIGNED).unwrap(), [name("ab", 0), name("ab", 7), name("c", 5)]);
        assert_eq!(partitions(b"").unwrap(), []);
        assert_eq!(partitions(b"\0\x03\0\0\0\0\xff\xff\xff\xff").unwrap(), []);
        for cut in 1..ASSIGNED.len() - 4 {
            assert_eq!(partitions(&ASSIGNED[..cut]), None, "{cut} bytes of it");
        }
        assert_eq!(partitions(b"\0\x03\x7f\xff\xff\xff"), None, "a count that nothing follows");
    }
}
