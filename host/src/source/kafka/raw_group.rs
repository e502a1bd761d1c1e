//! Who is in a group: the client's DescribeConsumerGroups, which answers for both group protocols, has no safe wrapper.
#![allow(unsafe_code, reason = "see the module")]

use std::{ffi::CString, time::Duration};

use rdkafka::{
    bindings as rd,
    consumer::{BaseConsumer, ConsumerContext},
};

use super::raw_admin::{ask, words};

/// A member of a group, as the broker knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The broker's name for it.
    pub id: String,
    /// Its `client.id`.
    pub client: String,
    /// Where it connects from.
    pub host: String,
}

/// The members of a group; none where there is no such group. Waits for the answer up to `timeout`.
///
/// # Errors
/// The broker's or the client's words, where there is no answer.
pub(super) fn members<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    group: &str,
    timeout: Duration,
) -> Result<Vec<Member>, String> {
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
unsafe fn described(event: *mut rd::rd_kafka_event_t) -> Result<Vec<Member>, String> {
    use rd::rd_kafka_resp_err_t as code;
    let mut members = Vec::new();
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
            for index in 0..rd::rd_kafka_ConsumerGroupDescription_member_count(group) {
                let member = rd::rd_kafka_ConsumerGroupDescription_member(group, index);
                members.push(Member {
                    id: words(rd::rd_kafka_MemberDescription_consumer_id(member)),
                    client: words(rd::rd_kafka_MemberDescription_client_id(member)),
                    host: words(rd::rd_kafka_MemberDescription_host(member)),
                });
            }
        }
    }
    Ok(members)
}
