//! Named places to crash at, for the tests that kill a host at every step. Compiled in by the feature `failpoints`.
//!
//! `TIDEGATE_FAILPOINT=after-ledger` aborts the process at the first pass of that point, `after-ledger:5` at the fifth.
//! The points, in the order of a batch: `before-begin`, `after-begin`, `after-ledger`, `after-write`, `careful` (between
//! two segments of careful mode), `before-checkpoint`, `before-commit`, `after-commit`.

/// A place to crash at. Nothing without the feature.
macro_rules! failpoint {
    ($name:literal) => {
        #[cfg(feature = "failpoints")]
        $crate::store::failpoint::pass($name);
    };
}
pub(super) use failpoint;

/// Counts a pass, and aborts where it is the one that the environment names.
#[cfg(feature = "failpoints")]
pub(super) fn pass(name: &str) {
    use std::sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    };
    static WANTED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSES: AtomicU64 = AtomicU64::new(0);
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("TIDEGATE_FAILPOINT").ok()?;
        let (name, pass) = text.split_once(':').unwrap_or((&text, "1"));
        Some((name.to_owned(), pass.parse().unwrap_or(1)))
    });
    if let Some((wanted, at)) = wanted
        && wanted == name
        && PASSES.fetch_add(1, Ordering::Relaxed) + 1 == *at
    {
        eprintln!("failpoint {name}: aborting");
        std::process::abort();
    }
}
