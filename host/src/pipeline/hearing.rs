//! How long a lane waits for its group to hear of what it has committed.
//!
//! A kill costs what the group has not heard of: so a lane takes no more records while two of its batches are unconfirmed.
//! A coordinator that is away must not hold up what the database could do: so it waits once, and not for every batch.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;

/// How long a lane waits for the group to confirm offsets before it takes more records.
pub(super) const CONFIRMED_WITHIN: Duration = Duration::from_secs(5);

/// What the group has confirmed of a lane's commits.
pub(super) struct Hearing {
    /// The number of the last offset commit that the group has confirmed.
    confirmed: watch::Receiver<u64>,
    /// The newest that was waited for in vain: until the group has confirmed it, nothing is waited for.
    unheard: Arc<AtomicU64>,
    within: Duration,
}

impl Hearing {
    pub(super) fn new(confirmed: watch::Receiver<u64>, within: Duration) -> Self {
        Self { confirmed, unheard: Arc::default(), within }
    }

    /// Resolves once the group has confirmed the commit of this number, or has not for long; `None` where there is nothing
    /// to wait for.
    pub(super) fn of(&self, told: u64) -> Option<impl Future<Output = ()> + Send + use<>> {
        let heard = *self.confirmed.borrow();
        if heard >= told || heard < self.unheard.load(Ordering::Relaxed) {
            return None;
        }
        let (mut confirmed, unheard, within) = (self.confirmed.clone(), Arc::clone(&self.unheard), self.within);
        Some(async move {
            tokio::select! {
                // An error means that the consumer is gone.
                _ = confirmed.wait_for(|number| *number >= told) => {}
                () = tokio::time::sleep(within) => drop(unheard.fetch_max(told, Ordering::Relaxed)),
            }
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_group_that_confirms_nothing_is_waited_for_once_and_not_at_every_batch() {
        let (group, confirmed) = watch::channel(0);
        let hearing = Hearing::new(confirmed, Duration::from_millis(10));
        hearing.of(1).unwrap().await;
        assert!((2..50).all(|told| hearing.of(told).is_none()), "it is known not to answer");
        // It answers again: what it has not heard of is waited for again.
        group.send_replace(1);
        assert!(hearing.of(1).is_none());
        let next = hearing.of(50).unwrap();
        group.send_replace(50);
        next.await;
        assert!(hearing.of(51).is_some(), "that one was heard of in time");
    }
}
