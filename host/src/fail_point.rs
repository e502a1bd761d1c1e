//! Fail points: named places on the path of a record where a test ends or freezes the process from within, at the n-th
//! time that it comes by.
//!
//! They exist only with the cargo feature `fail-points`, in a build with debug assertions: in every other build
//! [`reach`] is empty and nothing reads the environment. `TIDEGATE_FAIL_POINT=after-commit:3:kill` arms one point.

macro_rules! points {
    ($($(#[doc = $doc:literal])* $point:ident = $name:literal,)*) => {
        /// A place on the path of a record.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum FailPoint {
            $($(#[doc = $doc])* $point,)*
        }

        impl FailPoint {
            /// All of them, in the order of the path.
            pub const ALL: &[Self] = &[$(Self::$point,)*];

            /// Its name in `TIDEGATE_FAIL_POINT`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$point => $name,)*
                }
            }
        }
    };
}

points! {
    /// A lane has taken records from its queue.
    Polled = "polled",
    /// The plugin has said who they are.
    Extracted = "extracted",
    /// They have verdicts and are ready for the database.
    Computed = "computed",
    /// The transaction is open and has the consumer's lock.
    Begun = "begun",
    /// The ledger's insert is done.
    LedgerWritten = "ledger-written",
    /// One statement over the rows of one target is done.
    TargetWritten = "target-written",
    /// Careful mode: a savepoint stands, nothing was written behind it.
    SavepointSet = "savepoint-set",
    /// Careful mode: a segment is written, its savepoint not released.
    BeforeRelease = "before-release",
    /// Careful mode: a segment failed and was undone.
    SavepointUndone = "savepoint-undone",
    /// The ledger rows of dead records are taken back.
    TakenBack = "taken-back",
    /// Attempts, conflicts and dead letters are written.
    NotesWritten = "notes-written",
    /// The chain is extended.
    CheckpointWritten = "checkpoint-written",
    /// All is written; COMMIT comes next.
    BeforeCommit = "before-commit",
    /// The database has committed; the group knows nothing of it.
    AfterCommit = "after-commit",
    /// The offsets are on their way to the group, not answered.
    OffsetsSent = "offsets-sent",
    /// The group has the offsets.
    OffsetsCommitted = "offsets-committed",
    /// A revoke has come; the lanes still work.
    RevokeBegun = "revoke-begun",
    /// The lanes have let go; the group does not have their last offsets.
    RevokeDrained = "revoke-drained",
    /// The group has them; the partitions are not given back.
    RevokeCommitted = "revoke-committed",
    /// At the end: everything at hand is finished, the offsets not committed.
    StopDrained = "stop-drained",
    /// At the end: the offsets are committed, the member has not left.
    StopCommitted = "stop-committed",
    /// A partition's chain was begun; nothing is assigned to the client yet.
    GenesisWritten = "genesis-written",
    /// A chain was moved back to the group's offset; nothing is assigned to the client yet.
    ChainMoved = "chain-moved",
    /// The client has its partitions, with where they begin.
    Assigned = "assigned",
}

/// What happens at an armed point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The process kills itself (SIGKILL): nothing is flushed, answered or rolled back.
    Kill,
    /// The process freezes (SIGSTOP), with all that it holds, until somebody sends SIGCONT.
    Stop,
    /// The thread hangs, and never goes on.
    Hang,
    /// The thread panics, as a bug would make it, with the words of `TIDEGATE_FAIL_POINT_WORDS`.
    Panic,
}

impl Action {
    /// Its name in `TIDEGATE_FAIL_POINT`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Hang => "hang",
            Self::Panic => "panic",
        }
    }
}

/// The environment variable that arms a point: `POINT:HIT:ACTION`.
pub const VARIABLE: &str = "TIDEGATE_FAIL_POINT";
/// The one with the words of [`Action::Panic`].
pub const WORDS: &str = "TIDEGATE_FAIL_POINT_WORDS";

/// The path has come to this point. Does nothing, unless this point is armed and this is its turn.
#[inline]
pub(crate) fn reach(point: FailPoint) {
    #[cfg(all(feature = "fail-points", debug_assertions))]
    armed::reach(point);
    #[cfg(not(all(feature = "fail-points", debug_assertions)))]
    let _ = point;
}

/// Arms the point that the environment names, if it names one.
///
/// # Errors
/// With what is wrong and the names that there are.
pub(crate) fn arm() -> Result<(), String> {
    #[cfg(all(feature = "fail-points", debug_assertions))]
    armed::arm()?;
    Ok(())
}

#[cfg(all(feature = "fail-points", debug_assertions))]
mod armed {
    use std::{
        env,
        sync::{
            OnceLock,
            atomic::{AtomicU64, Ordering},
        },
    };

    use super::{Action, FailPoint, VARIABLE, WORDS};

    #[derive(Debug)]
    pub(super) struct Armed {
        pub(super) point: FailPoint,
        pub(super) turn: u64,
        pub(super) action: Action,
        hits: AtomicU64,
    }

    static ARMED: OnceLock<Armed> = OnceLock::new();

    pub(super) fn arm() -> Result<(), String> {
        let Some(text) = env::var_os(VARIABLE) else { return Ok(()) };
        let armed = parse(&text.to_string_lossy())?;
        eprintln!("fail point {}: armed, {} at hit {}", armed.point.name(), armed.action.name(), armed.turn);
        // A second time in one process changes nothing.
        let _ = ARMED.set(armed);
        Ok(())
    }

    pub(super) fn parse(text: &str) -> Result<Armed, String> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let Some(&point) = FailPoint::ALL.iter().find(|point| point.name() == name) else {
            let names: Vec<_> = FailPoint::ALL.iter().map(|point| point.name()).collect();
            return Err(format!("{VARIABLE}: there is no fail point {name:?}; there are {}", names.join(", ")));
        };
        let turn = parts.next().unwrap_or("1");
        let Some(turn) = turn.parse().ok().filter(|&turn| turn > 0) else {
            return Err(format!("{VARIABLE}: {turn:?} is no number of a hit, such as 1 for the first"));
        };
        let action = match (parts.next().unwrap_or("kill"), parts.next()) {
            ("kill", None) => Action::Kill,
            ("stop", None) => Action::Stop,
            ("hang", None) => Action::Hang,
            ("panic", None) => Action::Panic,
            _ => {
                return Err(format!(
                    "{VARIABLE}: {text:?} is not POINT:HIT:ACTION with the action kill, stop, hang or panic"
                ));
            }
        };
        Ok(Armed { point, turn, action, hits: AtomicU64::new(0) })
    }

    pub(super) fn reach(point: FailPoint) {
        let Some(armed) = ARMED.get().filter(|armed| armed.point == point) else { return };
        if armed.hits.fetch_add(1, Ordering::SeqCst) + 1 == armed.turn {
            eprintln!("fail point {}: reached", point.name());
            match armed.action {
                Action::Kill => raise(libc::SIGKILL),
                Action::Stop => raise(libc::SIGSTOP),
                Action::Hang => loop {
                    std::thread::park();
                },
                Action::Panic => bug(),
            }
        }
    }

    #[allow(clippy::panic, reason = "what tests want to see contained")]
    fn bug() {
        panic!("{}", env::var(WORDS).unwrap_or_default());
    }

    /// To this very thread, so that it does not take another step; neither signal can be caught, both meet the process.
    #[allow(unsafe_code, reason = "a plain C call; std has no signals")]
    fn raise(signal: libc::c_int) {
        // SAFETY: raise takes a number and touches no memory.
        let _ = unsafe { libc::raise(signal) };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn each_point_has_a_name_of_its_own() {
        let mut names: Vec<_> = FailPoint::ALL.iter().map(|point| point.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FailPoint::ALL.len());
    }

    #[cfg(all(feature = "fail-points", debug_assertions))]
    #[test]
    fn one_point_is_armed_by_its_name() {
        let armed = armed::parse("after-commit:3:stop").unwrap();
        assert_eq!((armed.point, armed.turn, armed.action), (FailPoint::AfterCommit, 3, Action::Stop));
        let armed = armed::parse("polled").unwrap();
        assert_eq!((armed.point, armed.turn, armed.action), (FailPoint::Polled, 1, Action::Kill));
    }

    #[cfg(all(feature = "fail-points", debug_assertions))]
    #[test]
    fn what_is_none_is_refused_with_what_there_is() {
        let error = armed::parse("after-comit:1:kill").unwrap_err();
        assert!(error.contains("after-comit") && error.contains("after-commit, offsets-sent"), "{error}");
        for text in ["polled:0:kill", "polled:x:kill", "polled:1:bang", "polled:1:kill:again", ""] {
            assert!(armed::parse(text).is_err(), "{text}");
        }
    }
}
