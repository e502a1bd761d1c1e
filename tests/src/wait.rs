//! Waiting for what a running system does, bounded by its *progress*: a slow machine may take its time, a stuck one fails.

use std::{fmt::Debug, time::Duration};

use tokio::time::{Instant, sleep};

/// How long nothing may change. Longer than any pause the system makes by design: a session time-out, a back-off.
const STALL: Duration = Duration::from_secs(90);

/// Asks `probe` again and again until `done` likes its answer, and returns that. What the answer is made of should
/// change as long as there is progress, such as a count.
///
/// # Panics
/// Where the answer has not changed for a minute and a half.
pub async fn until<T: PartialEq + Debug>(
    what: &str,
    mut probe: impl AsyncFnMut() -> T,
    done: impl Fn(&T) -> bool,
) -> T {
    let mut last = probe().await;
    let mut changed = Instant::now();
    let mut pause = Duration::from_millis(10);
    while !done(&last) {
        assert!(changed.elapsed() < STALL, "waiting until {what}: stuck at {last:?} for {} s", STALL.as_secs());
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(200));
        let now = probe().await;
        if now != last {
            last = now;
            changed = Instant::now();
        }
    }
    last
}

/// [`until`] for a plain condition.
///
/// # Panics
/// Where it has not come true for a minute and a half.
pub async fn until_true(what: &str, probe: impl AsyncFnMut() -> bool) {
    until(what, probe, |&is| is).await;
}
