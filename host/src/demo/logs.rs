//! The host's log goes to a file: the terminal belongs to the bars.

use std::{fs::File, path::Path, sync::Mutex};

use tracing_subscriber::EnvFilter;

use super::error::DemoError;
use crate::cli::logging::with_quiet;

/// Sends the log of this process there. A subscriber that is set already stays.
pub(super) fn to_file(path: &Path) -> Result<(), DemoError> {
    let file = File::create(path).map_err(|source| DemoError::File {
        what: "create",
        path: path.display().to_string(),
        source,
    })?;
    let filter = with_quiet(EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info")));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(Mutex::new(file));
    if subscriber.try_init().is_err() {
        tracing::debug!("the demo's log goes where this process logs already");
    }
    Ok(())
}
