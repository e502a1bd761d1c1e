//! `tidegate check`: everything that can be known before a consumer runs, with codes for the danger signs.

pub mod danger;
mod grant;
mod offline;
mod probe;
mod report;
mod retention;

pub use offline::{Plugins, check as offline};
pub use report::{Line, Mark, Report};
