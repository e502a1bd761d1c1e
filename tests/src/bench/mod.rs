//! What tidegate costs on top of what any idempotent consumer has to do: contestants on the same backlog, one after
//! the other, several rounds. docs/performance.md explains the figures.

mod contest;
mod handwritten;
mod lane;
mod plugins;
mod replaced;
mod report;
mod roof;

pub use contest::{Contest, Contestant, Run, child};
pub use plugins::{plugin_child, plugins};
pub use report::report;

/// How this program was built, as the heads of the tables have it.
#[must_use]
pub fn profile() -> &'static str {
    if cfg!(debug_assertions) { "dev (figures to publish come from a release build)" } else { "release" }
}
