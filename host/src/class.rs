//! What to do about an error. Every seam's error type answers `class()`.

/// Decided by SQLSTATE or code, never by message text. Unknown is fatal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Back off, then the same batch again. Never a dead letter (Invariant 6).
    Transient,
    /// This record's own fault, once shown alone: its dead letter goes into the same transaction.
    Poison,
    /// Stop the consumer loudly, commit nothing.
    Fatal,
}
