//! Who is in a group: the client's DescribeConsumerGroups, which answers for both group protocols, has no safe wrapper.
#![allow(unsafe_code, reason = "see the module")]

use std::{
    ffi::{CStr, CString},
    slice,
    time::Duration,
};

use rdkafka::{
    bindings as rd,
    consumer::{BaseConsumer, ConsumerContext},
};

use super::{
    super::PartitionName,
    raw_admin::{ask, words},
};

/// A member of a group, as the broker knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The broker's name for it.
    pub id: String,
    /// Its `client.id`.
    pub client: String,
    /// Where it connects from.
    pub host: String,
    /// Whether it is a static one (`group.instance.id`).
    pub is_static: bool,
    /// What the group has given it.
    pub partitions: Vec<PartitionName>,
}

/// A group, as the broker knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    /// Its members have what they were given; nothing is being shared out.
    pub(super) stable: bool,
    pub(super) members: Vec<Member>,
}

/// A group; empty where there is no such group. Waits for the answer up to `timeout`.
///
/// # Errors
/// The broker's or the client's words, where there is no answer.
pub(super) fn group<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    group: &str,
    timeout: Duration,
) -> Result<Group, String> {
    let name = CString::new(group).map_err(|_| "the group's name has a NUL in it".to_owned())?;
    let mut names = [name.as_ptr()];
    let operation = rd::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS;
    // SAFETY: the name outlives the request.
    unsafe {
        let send = |client, options, queue| {
            rd::rd_kafka_DescribeConsumerGroups(client, names.as_mut_ptr(), names.len(), options, queue);
        };
        ask(consumer, operation, timeout, send, |event| described(event))
    }
}

/// # Safety
/// `event` is a DescribeConsumerGroups result without an error, not destroyed.
unsafe fn described(event: *mut rd::rd_kafka_event_t) -> Result<Group, String> {
    use rd::rd_kafka_resp_err_t as code;
    let mut found = Group::default();
    // SAFETY: the caller's promise; all that is pointed to is owned by the event and copied out.
    unsafe {
        let mut count = 0;
        let result = rd::rd_kafka_event_DescribeConsumerGroups_result(event);
        let groups = rd::rd_kafka_DescribeConsumerGroups_result_groups(result, &raw mut count);
        for index in 0..count {
            let group = *groups.add(index);
            let error = rd::rd_kafka_ConsumerGroupDescription_error(group);
            match rd::rd_kafka_error_code(error) {
                code::RD_KAFKA_RESP_ERR_NO_ERROR => {}
                // Nobody has ever joined it, or the broker has forgotten it.
                code::RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND => continue,
                _ => return Err(words(rd::rd_kafka_error_string(error))),
            }
            let state = rd::rd_kafka_ConsumerGroupDescription_state(group);
            found.stable = state == rd::rd_kafka_consumer_group_state_t::RD_KAFKA_CONSUMER_GROUP_STATE_STABLE;
            for index in 0..rd::rd_kafka_ConsumerGroupDescription_member_count(group) {
                let member = rd::rd_kafka_ConsumerGroupDescription_member(group, index);
                found.members.push(Member {
                    id: words(rd::rd_kafka_MemberDescription_consumer_id(member)),
                    client: words(rd::rd_kafka_MemberDescription_client_id(member)),
                    host: words(rd::rd_kafka_MemberDescription_host(member)),
                    is_static: !rd::rd_kafka_MemberDescription_group_instance_id(member).is_null(),
                    partitions: partitions(member),
                });
            }
        }
    }
    Ok(found)
}

/// # Safety
/// `member` is one of an event that is not destroyed.
unsafe fn partitions(member: *const rd::rd_kafka_MemberDescription_t) -> Vec<PartitionName> {
    // SAFETY: the caller's promise; assignment and list are the event's, the elements as many as the list says, the topics
    // C strings, and all of it is copied.
    unsafe {
        let assignment = rd::rd_kafka_MemberDescription_assignment(member);
        if assignment.is_null() {
            return Vec::new();
        }
        let list = rd::rd_kafka_MemberAssignment_partitions(assignment);
        if list.is_null() || (*list).elems.is_null() {
            return Vec::new();
        }
        let elements = slice::from_raw_parts((*list).elems, usize::try_from((*list).cnt).unwrap_or(0));
        let name = |element: &rd::rd_kafka_topic_partition_t| PartitionName {
            topic: CStr::from_ptr(element.topic).to_string_lossy().as_ref().into(),
            partition: element.partition,
        };
        elements.iter().map(name).collect()
    }
}
