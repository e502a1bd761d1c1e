//! Letting go of a client without hanging with it.
//!
//! Destroying a client waits for its threads. Where brokers go away or come back meanwhile, librdkafka may lose count of
//! who still uses a broker, and a thread of it then never ends: whoever waits for it never goes on either.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

/// How long the end of a client is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Clients whose end nobody waits for any more.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// How many clients of this process have not come to their end in time, and have not yet.
pub(crate) fn left_behind() -> usize {
    LEFT.load(Ordering::Relaxed)
}

/// Something whose destructor may hang. Dropped, it is destroyed on a thread of its own; after [`PATIENCE`] whoever drops
/// it goes on without it, and the log says so.
pub(crate) struct Closing<T: Send + 'static> {
    /// Taken by the destructor.
    client: Option<T>,
    patience: Duration,
}

impl<T: Send + 'static> Closing<T> {
    pub(crate) fn new(client: T) -> Self {
        Self { client: Some(client), patience: PATIENCE }
    }
}

impl<T: Send + 'static> Deref for Closing<T> {
    type Target = T;

    #[allow(clippy::unreachable, reason = "only the destructor takes it")]
    fn deref(&self) -> &T {
        self.client.as_ref().unwrap_or_else(|| unreachable!())
    }
}

impl<T: Send + 'static> Drop for Closing<T> {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        let (closed, end) = mpsc::channel::<()>();
        // Set by whoever gives up, or is through, first; the other one then knows.
        let over = Arc::new(AtomicBool::new(false));
        let destroy = {
            let over = Arc::clone(&over);
            move || {
                drop(client);
                if over.swap(true, Ordering::AcqRel) {
                    LEFT.fetch_sub(1, Ordering::Relaxed);
                }
                drop(closed);
            }
        };
        // Without a thread it is destroyed here.
        let Ok(_) = thread::Builder::new().name("kafka-close".to_owned()).spawn(destroy) else { return };
        if end.recv_timeout(self.patience) != Err(mpsc::RecvTimeoutError::Timeout) {
            return;
        }
        LEFT.fetch_add(1, Ordering::Relaxed);
        if over.swap(true, Ordering::AcqRel) {
            LEFT.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        tracing::warn!(
            "a Kafka client has not come to its end within {} s: going on without it, its threads stay until they end or \
             the process does",
            self.patience.as_secs()
        );
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Its end waits for a word.
    struct Hanging(mpsc::Receiver<()>, mpsc::Sender<()>);

    impl Drop for Hanging {
        fn drop(&mut self) {
            let _ = self.0.recv();
            let _ = self.1.send(());
        }
    }

    #[test]
    fn whoever_hangs_in_its_end_is_left_and_counted_until_it_comes() {
        let ((word, waits), (tells, ended)) = (mpsc::channel(), mpsc::channel());
        let before = left_behind();
        drop(Closing { client: Some(Hanging(waits, tells)), patience: Duration::from_millis(10) });
        assert_eq!(left_behind(), before + 1);
        word.send(()).unwrap();
        ended.recv().unwrap();
        while left_behind() > before {
            thread::yield_now();
        }
    }

    #[test]
    fn whoever_ends_has_ended_when_it_was_dropped() {
        let ((word, waits), (tells, ended)) = (mpsc::channel(), mpsc::channel());
        let client = Closing::new(Hanging(waits, tells));
        word.send(()).unwrap();
        drop(client);
        assert!(ended.try_recv().is_ok());
    }
}
