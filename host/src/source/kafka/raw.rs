//! Speaks C to the Kafka client: a queue per lane read in batches, positions, commits. Beside it only [`super::raw_admin`] and
//! [`super::raw_group`] do.
//!
//! The client's safe interface makes an event, a lock and a reference count per message; its batch call halves the
//! CPU time, and its error entries say which partition they are of. The batch call has a defect, though: it counts an
//! *error entry* as a consumed record, so the client's own position ends up one beyond it, and at the next rebalance
//! (which pauses and resumes every partition) the record at that offset is left out in silence. End-of-partition events
//! are such entries: they stay off, and where a partition ends is read from [`positions`]. Any other error entry makes
//! its partition begin anew. Three rules keep the rest sound:
//!
//! - every message that the client returns is destroyed (a leaked one makes the client's own destruction wait for ever):
//!   [`Messages`] does it in `Drop`, and what is kept of a message is copied before;
//! - a queue goes before its client: [`LaneQueue`] holds the consumer;
//! - what a result points into (header lists) is copied before the result is destroyed.
#![allow(unsafe_code, reason = "the client's batch consume has no safe wrapper")]

use std::{
    ffi::{CStr, CString, c_int},
    ptr,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use rdkafka::{
    Offset, TopicPartitionList, bindings as rd,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::{KafkaError, RDKafkaErrorCode},
};

use super::super::{Lost, PartitionName, Piece};
use crate::record::{Header, Record};

/// The queue onto which all partitions of one lane are forwarded.
pub(super) struct LaneQueue<C: ConsumerContext + 'static> {
    queue: ptr::NonNull<rd::rd_kafka_queue_t>,
    consumer: Arc<BaseConsumer<C>>,
}

// SAFETY: the client's queues may be used from any thread, and several; the pointer is owned by this value.
unsafe impl<C: ConsumerContext + 'static> Send for LaneQueue<C> {}
// SAFETY: as above.
unsafe impl<C: ConsumerContext + 'static> Sync for LaneQueue<C> {}

impl<C: ConsumerContext + 'static> LaneQueue<C> {
    /// A new queue of this consumer's client.
    pub(super) fn new(consumer: &Arc<BaseConsumer<C>>) -> Self {
        // SAFETY: the client lives as long as `consumer`; queue_new aborts rather than return null.
        let queue = unsafe { rd::rd_kafka_queue_new(consumer.client().native_ptr()) };
        let Some(queue) = ptr::NonNull::new(queue) else { unreachable!("the client never returns a null queue") };
        Self { queue, consumer: Arc::clone(consumer) }
    }

    /// Lets this partition's records, ends and errors arrive here. Before the partition is assigned: afterwards a part
    /// of them may already stand in the main queue, and the order is broken.
    pub(super) fn forward(&self, name: &PartitionName) {
        // A topic's name from the client never has a NUL in it.
        let Ok(topic) = CString::new(name.topic.as_bytes()) else { return };
        // SAFETY: client and lane queue are alive; the reference that get_partition gives is given back at once, the
        // client keeps its own.
        unsafe {
            let queue =
                rd::rd_kafka_queue_get_partition(self.consumer.client().native_ptr(), topic.as_ptr(), name.partition);
            if !queue.is_null() {
                rd::rd_kafka_queue_forward(queue, self.queue.as_ptr());
                rd::rd_kafka_queue_destroy(queue);
            }
        }
    }

    /// Makes a read that waits return early.
    pub(super) fn wake(&self) {
        // SAFETY: the queue is alive.
        unsafe { rd::rd_kafka_queue_yield(self.queue.as_ptr()) }
    }

    /// Reads up to `max` entries into `into`, waiting up to `timeout` *for all of them*. Says how many it read.
    pub(super) fn read(&self, timeout: Duration, max: usize, into: &mut Reading) -> usize {
        into.buffer.clear();
        into.buffer.reserve(max);
        let timeout = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: the buffer has room for `max` pointers, of which the client writes the first `read`; `Messages` takes
        // them over before anything else can happen.
        let messages = unsafe {
            let read = rd::rd_kafka_consume_batch_queue(self.queue.as_ptr(), timeout, into.buffer.as_mut_ptr(), max);
            into.buffer.set_len(usize::try_from(read).unwrap_or(0));
            Messages(&mut into.buffer)
        };
        let read = messages.0.len();
        copy(&messages, &mut into.found);
        read
    }
}

impl<C: ConsumerContext + 'static> Drop for LaneQueue<C> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once, before the consumer that is held here.
        unsafe { rd::rd_kafka_queue_destroy(self.queue.as_ptr()) }
    }
}

/// What a lane reads into, over several reads.
#[derive(Default)]
pub(super) struct Reading {
    buffer: Vec<*mut rd::rd_kafka_message_t>,
    /// What was read.
    pub(super) found: Found,
}

/// What was read, copied.
#[derive(Default)]
pub(super) struct Found {
    /// By partition, in the order of their first entry.
    pub(super) pieces: Vec<Piece>,
    /// Partitions with an error that passes, with its words: they must begin anew.
    pub(super) shaken: Vec<(PartitionName, String)>,
    /// Keys, payloads and headers so far.
    pub(super) bytes: usize,
    /// Records so far.
    pub(super) records: usize,
}

/// Messages that the client gave; destroyed with this.
struct Messages<'a>(&'a mut Vec<*mut rd::rd_kafka_message_t>);

impl Drop for Messages<'_> {
    fn drop(&mut self) {
        for message in self.0.drain(..) {
            // SAFETY: each pointer came from the client's batch call and is destroyed once.
            unsafe { rd::rd_kafka_message_destroy(message) }
        }
    }
}

/// A span of the arena that is being filled.
#[derive(Clone, Copy)]
struct Span(usize, usize);

impl Span {
    fn of(self, arena: &Bytes) -> Bytes {
        arena.slice(self.0..self.1)
    }
}

struct Arena(Vec<u8>);

impl Arena {
    /// # Safety
    /// `data` is null or points to `length` readable bytes.
    unsafe fn copy(&mut self, data: *const u8, length: usize) -> Option<Span> {
        if data.is_null() {
            return None;
        }
        let from = self.0.len();
        // SAFETY: the caller's promise.
        self.0.extend_from_slice(unsafe { std::slice::from_raw_parts(data, length) });
        Some(Span(from, self.0.len()))
    }
}

/// A record before its arena is frozen.
struct Draft {
    piece: usize,
    offset: i64,
    timestamp_ms: Option<i64>,
    key: Option<Span>,
    payload: Option<Span>,
    headers: Vec<(String, Option<Span>)>,
}

fn copy(messages: &Messages<'_>, into: &mut Found) {
    let pieces = &mut into.pieces;
    let mut arena = Arena(Vec::with_capacity(arena_size(messages)));
    let mut drafts = Vec::with_capacity(messages.0.len());
    let mut last = usize::MAX;
    for message in messages.0.iter() {
        // SAFETY: valid until `messages` is dropped.
        let message = unsafe { &**message };
        // SAFETY: `rkt` may be null for errors that are of no topic.
        let Some(piece) = (unsafe { piece_of(message, pieces, &mut last) }) else { continue };
        match message.err {
            // SAFETY: the message is valid, and was given by the client.
            rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => {
                drafts.push(unsafe { draft(message, piece, &mut arena) });
            }
            // SAFETY: an error entry of the client's.
            error => {
                let reason = unsafe { reason(message) };
                match lost(error, &reason) {
                    Some(lost) => pieces[piece].lost = Some(lost),
                    None => into.shaken.push((pieces[piece].name.clone(), reason)),
                }
            }
        }
    }
    let arena = Bytes::from(arena.0);
    into.bytes += arena.len();
    into.records += drafts.len();
    for draft in drafts {
        let headers = draft.headers.into_iter();
        pieces[draft.piece].records.push(Record {
            offset: draft.offset,
            timestamp_ms: draft.timestamp_ms,
            key: draft.key.map(|span| span.of(&arena)),
            payload: draft.payload.map(|span| span.of(&arena)),
            headers: headers.map(|(name, value)| Header { name, value: value.map(|span| span.of(&arena)) }).collect(),
        });
    }
}

fn arena_size(messages: &Messages<'_>) -> usize {
    // SAFETY: valid until `messages` is dropped.
    messages.0.iter().map(|message| unsafe { (**message).len + (**message).key_len }).sum()
}

/// # Safety
/// `message` was given by the client and is not destroyed.
unsafe fn piece_of(message: &rd::rd_kafka_message_t, pieces: &mut Vec<Piece>, last: &mut usize) -> Option<usize> {
    if message.rkt.is_null() {
        return None;
    }
    // SAFETY: the topic lives as long as the message; its name is a C string.
    let topic = unsafe { CStr::from_ptr(rd::rd_kafka_topic_name(message.rkt)) };
    let same =
        |piece: &Piece| piece.name.partition == message.partition && piece.name.topic.as_bytes() == topic.to_bytes();
    if !pieces.get(*last).is_some_and(same) {
        *last = pieces.iter().position(same).unwrap_or_else(|| {
            let name = PartitionName { topic: topic.to_string_lossy().into(), partition: message.partition };
            pieces.push(Piece::of(name));
            pieces.len() - 1
        });
    }
    Some(*last)
}

/// # Safety
/// `message` was given by the client, is no error, and is not destroyed.
unsafe fn draft(message: &rd::rd_kafka_message_t, piece: usize, arena: &mut Arena) -> Draft {
    let mut kind = rd::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
    // SAFETY: key and payload are null or as long as they say; the message is valid.
    let (timestamp, key, payload, headers) = unsafe {
        let timestamp = rd::rd_kafka_message_timestamp(message, &raw mut kind);
        let key = arena.copy(message.key.cast(), message.key_len);
        let payload = arena.copy(message.payload.cast(), message.len);
        (timestamp, key, payload, headers(message, arena))
    };
    let known = kind != rd::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE && timestamp >= 0;
    Draft { piece, offset: message.offset, timestamp_ms: known.then_some(timestamp), key, payload, headers }
}

/// # Safety
/// As [`draft`].
unsafe fn headers(message: &rd::rd_kafka_message_t, arena: &mut Arena) -> Vec<(String, Option<Span>)> {
    let mut list = ptr::null_mut();
    let mut copied = Vec::new();
    // SAFETY: the list is owned by the message, its names are C strings, its values as long as they say.
    unsafe {
        if rd::rd_kafka_message_headers(message, &raw mut list) != rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            return copied;
        }
        for index in 0.. {
            let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
            let found = rd::rd_kafka_header_get_all(list, index, &raw mut name, &raw mut value, &raw mut size);
            if found != rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                break;
            }
            let name = CStr::from_ptr(name).to_string_lossy().into_owned();
            copied.push((name, arena.copy(value.cast(), size)));
        }
    }
    copied
}

/// # Safety
/// `message` is an error entry of the client's.
unsafe fn reason(message: &rd::rd_kafka_message_t) -> String {
    // SAFETY: the client's own accessor, valid as long as the message.
    let text = unsafe { rd::rd_kafka_message_errstr(message) };
    if text.is_null() {
        return format!("{:?}", message.err);
    }
    // SAFETY: a C string.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Whether an error entry of a partition ends it. Others pass by themselves, but leave the client's position wrong.
fn lost(error: rd::rd_kafka_resp_err_t, reason: &str) -> Option<Lost> {
    use rd::rd_kafka_resp_err_t as code;
    match error {
        code::RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET | code::RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE => {
            Some(Lost::Offset(reason.to_owned()))
        }
        code::RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED
        | code::RD_KAFKA_RESP_ERR__BAD_MSG
        | code::RD_KAFKA_RESP_ERR__BAD_COMPRESSION
        | code::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED
        | code::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE => Some(Lost::Unreadable(reason.to_owned())),
        _ => None,
    }
}

/// Up to where the client handed these partitions out, including offsets that carry no record; those of which nothing
/// was handed out yet are absent. Asks nobody.
pub(super) fn positions<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    names: &[PartitionName],
) -> Vec<(PartitionName, i64)> {
    let mut list = TopicPartitionList::new();
    for name in names {
        list.add_partition(&name.topic, name.partition);
    }
    // SAFETY: client and list are alive; the call fills the list's offsets in.
    unsafe { rd::rd_kafka_position(consumer.client().native_ptr(), list.ptr()) };
    let position = |name: &PartitionName| match list.find_partition(&name.topic, name.partition)?.offset() {
        Offset::Offset(offset) => Some((name.clone(), offset)),
        _ => None,
    };
    names.iter().filter_map(position).collect()
}

/// Sends a commit whose answer comes to the context's `commit_callback`, from the consumer's own poll. The safe interface's
/// asynchronous commit has no answer at all: the client gives one only to a callback in its configuration, which that
/// interface never sets.
pub(super) fn commit<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    offsets: &TopicPartitionList,
) -> Result<(), KafkaError> {
    // SAFETY: client, list and queue are alive; the client copies the list, and keeps its own reference to the queue.
    let error = unsafe {
        let client = consumer.client().native_ptr();
        let queue = rd::rd_kafka_queue_get_consumer(client);
        if queue.is_null() {
            return Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::UnknownGroup));
        }
        let error = rd::rd_kafka_commit_queue(client, offsets.ptr(), queue, None, ptr::null_mut());
        rd::rd_kafka_queue_destroy(queue);
        error
    };
    if error == rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
        Ok(())
    } else {
        Err(KafkaError::ConsumerCommit(error.into()))
    }
}

/// Commits and waits for the answer, up to `timeout`. The safe interface's synchronous commit waits as long as the client
/// tries, which is a minute and more where a broker hangs.
///
/// # Errors
/// The broker's, or that there was no answer; the commit may come to pass all the same.
pub(super) fn commit_within<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    offsets: &TopicPartitionList,
    timeout: Duration,
) -> Result<(), KafkaError> {
    use rd::rd_kafka_resp_err_t as code;
    let milliseconds = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
    // SAFETY: client and list are alive and the client copies the list; the queue is this call's own, and an answer that
    // comes after its destruction is dropped by the client.
    let error = unsafe {
        let client = consumer.client().native_ptr();
        let queue = rd::rd_kafka_queue_new(client);
        let mut error = rd::rd_kafka_commit_queue(client, offsets.ptr(), queue, None, ptr::null_mut());
        if error == code::RD_KAFKA_RESP_ERR_NO_ERROR {
            let event = rd::rd_kafka_queue_poll(queue, milliseconds);
            error = if event.is_null() { code::RD_KAFKA_RESP_ERR__TIMED_OUT } else { rd::rd_kafka_event_error(event) };
            if !event.is_null() {
                rd::rd_kafka_event_destroy(event);
            }
        }
        rd::rd_kafka_queue_destroy(queue);
        error
    };
    if error == code::RD_KAFKA_RESP_ERR_NO_ERROR { Ok(()) } else { Err(KafkaError::ConsumerCommit(error.into())) }
}

/// Whether the group has taken this client in. Its callbacks tell it too, but under the newer protocol not a member that
/// gets no partition. Asks the client, not the broker.
pub(super) fn is_member<C: ConsumerContext>(consumer: &BaseConsumer<C>) -> bool {
    // SAFETY: the client is alive; the answer is this call's own, and destroyed here.
    unsafe {
        let group = rd::rd_kafka_consumer_group_metadata(consumer.client().native_ptr());
        if group.is_null() {
            return false;
        }
        let generation = rd::rd_kafka_consumer_group_metadata_generation_id(group);
        // Taken away, as by a broker that knows no such member, before another generation is known.
        let id = rd::rd_kafka_consumer_group_metadata_member_id(group);
        let named = !id.is_null() && !CStr::from_ptr(id).is_empty();
        rd::rd_kafka_consumer_group_metadata_destroy(group);
        named && generation > 0
    }
}

/// The cluster's id, where the broker says it in time.
pub(super) fn cluster_id<C: ConsumerContext>(consumer: &BaseConsumer<C>, timeout: Duration) -> Option<Arc<str>> {
    let milliseconds = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
    // SAFETY: the client is alive; the text is the client's, copied, then given back.
    unsafe {
        let client = consumer.client().native_ptr();
        let text = rd::rd_kafka_clusterid(client, milliseconds);
        if text.is_null() {
            return None;
        }
        let id = CStr::from_ptr(text).to_string_lossy().as_ref().into();
        rd::rd_kafka_mem_free(client, text.cast());
        Some(id)
    }
}
