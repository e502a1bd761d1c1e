//! What is wrong with a plugin, found out before it sees a message: for authors, who have events of their own to try it on.
//! The gates of a running host ask less, and of every candidate.

mod keys;
mod sign;
mod speed;

pub use keys::examine_keys;
pub use sign::{Found, Sign};
pub use speed::micros_per_event;
