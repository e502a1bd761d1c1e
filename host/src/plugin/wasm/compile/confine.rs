//! Limits that a process puts on itself.

use std::{io, time::Duration};

/// No more than so much CPU time (a second later it is killed) and memory; no files written, no core dump, no new
/// privileges, and no life after its parent.
#[cfg(unix)]
#[allow(unsafe_code, reason = "plain C calls; std does not set limits")]
pub(super) fn confine(cpu: Duration, memory: u64) -> io::Result<()> {
    let seconds = cpu.as_secs().max(1);
    let limit = |soft: u64, hard: u64| libc::rlimit { rlim_cur: soft, rlim_max: hard };
    let (cpu, memory, none) = (limit(seconds, seconds + 1), limit(memory, memory), limit(0, 0));
    // SAFETY: each limit is valid for the call, which only reads it; the others take no memory.
    let done = unsafe {
        #[cfg(target_os = "linux")]
        let also =
            [libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)];
        #[cfg(not(target_os = "linux"))]
        let also = [0, 0];
        also.into_iter().all(|done| done == 0)
            && libc::setrlimit(libc::RLIMIT_CPU, &raw const cpu) == 0
            && libc::setrlimit(libc::RLIMIT_DATA, &raw const memory) == 0
            && libc::setrlimit(libc::RLIMIT_FSIZE, &raw const none) == 0
            && libc::setrlimit(libc::RLIMIT_CORE, &raw const none) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(unix))]
pub(super) fn confine(_: Duration, _: u64) -> io::Result<()> {
    Err(io::Error::other("this system has no limits for a process"))
}
