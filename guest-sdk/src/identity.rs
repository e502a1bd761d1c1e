//! Saying who an event is.

use crate::{Identity, Instant};

impl Identity {
    /// The message id (the producer's event id: the key of the deduplication) and the aggregate id (the business object,
    /// for ordering and search). At most 120 characters each, not empty.
    #[must_use]
    pub fn new(message_id: impl Into<String>, aggregate_id: impl Into<String>) -> Self {
        Self { message_id: message_id.into(), aggregate_id: aggregate_id.into(), occurred_at: None, fingerprint: None }
    }

    /// When the event happened: decides whether a late replay is older than the ledger's memory. Say it where the event
    /// carries it.
    #[must_use]
    pub fn occurred_at(mut self, at: impl Into<Instant>) -> Self {
        self.occurred_at = Some(at.into());
        self
    }

    /// What has to be equal in two copies of one event. The default is the whole payload; give this where a copy may
    /// differ in bytes that do not matter (a trace id, the order of JSON keys).
    #[must_use]
    pub fn fingerprint(mut self, content: impl Into<Vec<u8>>) -> Self {
        self.fingerprint = Some(content.into());
        self
    }
}
