//! The host as `tidegate run` starts it, in this process.

use std::path::Path;

use super::error::DemoError;

/// A running host.
pub(super) struct Host {}

impl Host {
    /// Loads the configuration, migrates the database and starts the consumers.
    pub(super) async fn start(config: &Path) -> Result<Self, DemoError> {
        let config = crate::config::load(config).map_err(|e| DemoError::Config(e.to_string()))?;
        let _ = config;
        Err(DemoError::Host("this build has no host to run yet".into()))
    }

    /// Why a consumer has stopped.
    pub(super) fn trouble(&self) -> Option<String> {
        None
    }

    /// Where metrics are served.
    pub(super) fn metrics_url(&self) -> Option<String> {
        None
    }

    /// Stops reading, applies what was read, commits, leaves the groups.
    pub(super) async fn drain(self) {}
}
