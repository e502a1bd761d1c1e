//! Questions to the broker that the client's safe interface does not have: it sends them as admin requests, whose answers
//! come as events. What is asked is asked here, once; [`super::raw_group`] asks about groups in the same way.
#![allow(unsafe_code, reason = "the client's DescribeTopics has no safe wrapper")]

use std::{
    ffi::{CStr, CString, c_char, c_int},
    sync::Arc,
    time::Duration,
};

use rdkafka::{
    bindings as rd,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
};
use uuid::Uuid;

/// Sends an admin request and waits for its answer, up to `timeout`, so never on the poll thread outside a rebalance.
/// `send` is given client, options and the queue for the answer; `read` an answer without an error.
///
/// # Errors
/// The broker's or the client's words, where there is no answer.
///
/// # Safety
/// `send` must make a request of this operation with just what it is given; what it points to must outlive this call.
/// `read` must copy what it wants of the event, and not destroy it.
pub(super) unsafe fn ask<C: ConsumerContext, T>(
    consumer: &BaseConsumer<C>,
    operation: rd::rd_kafka_admin_op_t,
    timeout: Duration,
    send: impl FnOnce(*mut rd::rd_kafka_t, *const rd::rd_kafka_AdminOptions_t, *mut rd::rd_kafka_queue_t),
    read: impl FnOnce(*mut rd::rd_kafka_event_t) -> Result<T, String>,
) -> Result<T, String> {
    let milliseconds = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
    // SAFETY: the client is alive; everything made here is destroyed here.
    unsafe {
        let client = consumer.client().native_ptr();
        let options = rd::rd_kafka_AdminOptions_new(client, operation);
        let mut text = [0 as c_char; 256];
        rd::rd_kafka_AdminOptions_set_request_timeout(options, milliseconds, text.as_mut_ptr(), text.len());
        // A queue of its own: the client's callbacks are not served here.
        let queue = rd::rd_kafka_queue_new(client);
        send(client, options, queue);
        let event = rd::rd_kafka_queue_poll(queue, milliseconds.saturating_add(500));
        let answer = if event.is_null() {
            Err("no answer".to_owned())
        } else if rd::rd_kafka_event_error(event) != rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            Err(words(rd::rd_kafka_event_error_string(event)))
        } else {
            read(event)
        };
        if !event.is_null() {
            rd::rd_kafka_event_destroy(event);
        }
        rd::rd_kafka_queue_destroy(queue);
        rd::rd_kafka_AdminOptions_destroy(options);
        answer
    }
}

/// # Safety
/// `text` is null or a C string.
pub(super) unsafe fn words(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// What the broker says of a topic's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TopicId {
    /// It is this.
    Known(Uuid),
    /// There is no such topic.
    Gone,
    /// The broker would not say, with its words.
    Refused(String),
}

/// The ids of these topics, in any order. Waits for the answer up to `timeout`, so never on the poll thread outside a
/// rebalance.
///
/// # Errors
/// Where there was no answer at all.
pub(super) fn topic_ids<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topics: &[Arc<str>],
    timeout: Duration,
) -> Result<Vec<(Arc<str>, TopicId)>, String> {
    let names: Vec<CString> = topics.iter().filter_map(|topic| CString::new(topic.as_bytes()).ok()).collect();
    let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    // SAFETY: the names outlive the request, and the collection is destroyed after it.
    unsafe {
        let collection = rd::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
        let operation = rd::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
        let send = |client, options, queue| rd::rd_kafka_DescribeTopics(client, collection, options, queue);
        let answer = ask(consumer, operation, timeout, send, |event| Ok(described(event)));
        rd::rd_kafka_TopicCollection_destroy(collection);
        answer
    }
}

/// # Safety
/// `event` is a DescribeTopics result without an error, not destroyed.
unsafe fn described(event: *mut rd::rd_kafka_event_t) -> Vec<(Arc<str>, TopicId)> {
    let mut answers = Vec::new();
    // SAFETY: the caller's promise; all that is pointed to is owned by the event and copied out.
    unsafe {
        let mut count = 0;
        let result = rd::rd_kafka_event_DescribeTopics_result(event);
        let topics = rd::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        for index in 0..count {
            let topic = *topics.add(index);
            let name = words(rd::rd_kafka_TopicDescription_name(topic));
            let error = rd::rd_kafka_TopicDescription_error(topic);
            let id = match rd::rd_kafka_error_code(error) {
                rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => {
                    let id = rd::rd_kafka_TopicDescription_topic_id(topic);
                    let high = rd::rd_kafka_Uuid_most_significant_bits(id).cast_unsigned();
                    let low = rd::rd_kafka_Uuid_least_significant_bits(id).cast_unsigned();
                    TopicId::Known(Uuid::from_u64_pair(high, low))
                }
                rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART => TopicId::Gone,
                _ => TopicId::Refused(words(rd::rd_kafka_error_string(error))),
            };
            answers.push((Arc::from(name), id));
        }
    }
    answers
}
