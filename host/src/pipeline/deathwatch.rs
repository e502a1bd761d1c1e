//! A thread or a task of a consumer's that dies of a panic stops that consumer at once, and says so: without it the others
//! would wait for what never comes.

use std::{sync::Arc, thread};

use super::lane::Shared;

/// Lives as long as the work that it watches. Dropped by a panic, it stops the consumer.
pub(super) struct Deathwatch {
    shared: Arc<Shared>,
    what: String,
}

impl Deathwatch {
    /// Over a part of this consumer, such as "the poll thread".
    pub(super) fn over(shared: &Arc<Shared>, what: impl Into<String>) -> Self {
        Self { shared: Arc::clone(shared), what: what.into() }
    }
}

impl Drop for Deathwatch {
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        let reason = format!(
            "{} died of a bug in tidegate, and nothing of what it had in hand was committed; the log says where",
            self.what
        );
        // Whoever supervises the consumer may be what died.
        self.shared.health.stopped(reason.clone());
        self.shared.metrics.running(false);
        self.shared.fail(reason);
    }
}
