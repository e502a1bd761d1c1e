//! The CPU time of this thread: what a budget is held against. Wall-clock time would make poison of any record that a
//! busy machine takes long for (Invariant 6).

use std::time::Duration;

/// CPU time that this thread has used since it began.
#[allow(unsafe_code, reason = "a plain C call; std has no clock of a thread's CPU time")]
pub(super) fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call, which only writes to it.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    debug_assert_eq!(done, 0, "every supported system has this clock");
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_advances_by_work_and_not_by_waiting() {
        let start = thread_time();
        std::thread::sleep(Duration::from_millis(50));
        let waited = thread_time() - start;
        assert!(waited < Duration::from_millis(50), "{waited:?}");
        let mut n = 0_u64;
        while thread_time() - start <= waited + Duration::from_millis(5) {
            n = std::hint::black_box(n + 1);
        }
    }
}
