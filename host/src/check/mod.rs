//! `tidegate check`: everything that can be known before a consumer runs, with codes for the danger signs.

mod broker;
pub mod danger;
mod grant;
mod offline;
mod online;
mod probe;
mod report;
mod retention;
mod start;

pub(crate) use grant::mismatches as grant_mismatches;
pub use offline::{Load, Plugins, check as offline};
pub use online::check as online;
pub(crate) use probe::messages as made_up_messages;
pub use report::{Line, Mark, Report};
pub use start::{Topics, no_topic, servers, topics_of};
