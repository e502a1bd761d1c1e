//! One run, from an empty folder to the exit code.

use super::{error::DemoError, options::Options};

pub(super) async fn run(_options: &Options, _watched: bool) -> Result<u8, DemoError> {
    Err(DemoError::Host("this build has no host to run yet".into()))
}
