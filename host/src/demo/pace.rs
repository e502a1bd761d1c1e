//! How far the producer may run ahead. The embedded broker keeps 5 MiB of a partition and drops the oldest beyond that
//! without a word, so what is published and not yet in a checkpoint of every consumer stays well below.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::story::Feed;

/// Bytes of a partition, by its keys and payloads, that no checkpoint covers yet.
const ROOM: usize = 2 << 20;
/// What a record costs in the broker beside its key and payload, generously.
const OVERHEAD: usize = 100;

/// The records of one partition between the slowest consumer and the producer.
#[derive(Debug, Default)]
struct Window {
    /// The first offset in it.
    first: i64,
    sizes: VecDeque<usize>,
    bytes: usize,
}

impl Window {
    fn sent(&mut self, size: usize) {
        self.sizes.push_back(size + OVERHEAD);
        self.bytes += size + OVERHEAD;
    }

    fn consumed(&mut self, next_offset: i64) {
        while self.first < next_offset {
            let Some(size) = self.sizes.pop_front() else { break };
            self.first += 1;
            self.bytes -= size;
        }
    }
}

/// Shared between the producer's thread, which asks for room, and the watcher of the checkpoints, which makes it.
#[derive(Debug, Default)]
pub(super) struct Pace {
    windows: Mutex<BTreeMap<(Feed, i32), Window>>,
    changed: Condvar,
}

impl Pace {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Feed, i32), Window>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes room for a record of this size, or waits for at most `wait` and says no.
    pub(super) fn take(&self, feed: Feed, partition: i32, size: usize, wait: Duration) -> bool {
        let full = |windows: &mut BTreeMap<_, Window>| windows.entry((feed, partition)).or_default().bytes >= ROOM;
        let (mut windows, _) =
            self.changed.wait_timeout_while(self.lock(), wait, |w| full(w)).unwrap_or_else(PoisonError::into_inner);
        let window = windows.entry((feed, partition)).or_default();
        let room = window.bytes < ROOM;
        if room {
            window.sent(size);
        }
        room
    }

    /// Every consumer of this partition has a checkpoint up to `next_offset`.
    pub(super) fn consumed(&self, feed: Feed, partition: i32, next_offset: i64) {
        self.lock().entry((feed, partition)).or_default().consumed(next_offset);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_partition_waits_for_its_slowest_consumer() {
        let pace = Pace::default();
        let no_wait = Duration::ZERO;
        let mut sent = 0;
        while pace.take(Feed::Orders, 0, 900, no_wait) {
            sent += 1;
        }
        assert_eq!(sent, (ROOM).div_ceil(1000), "1000 bytes each, overhead included");
        assert!(pace.take(Feed::Orders, 1, 900, no_wait), "other partitions have room");
        assert!(pace.take(Feed::Payments, 0, 900, no_wait), "and so has the other topic");
        pace.consumed(Feed::Orders, 0, 1);
        assert!(pace.take(Feed::Orders, 0, 900, no_wait));
        assert!(!pace.take(Feed::Orders, 0, 900, no_wait));
    }

    #[test]
    fn a_checkpoint_beyond_the_last_record_is_fine() {
        let mut window = Window::default();
        window.sent(1);
        window.consumed(5);
        assert_eq!((window.first, window.bytes), (1, 0));
        window.consumed(0);
        assert_eq!(window.first, 1);
    }
}
