//! The host as `tidegate run` starts it, in this process.

use std::path::Path;

use super::error::DemoError;
use crate::{
    app::App,
    config, http,
    store::{self},
};

/// A running host.
pub(super) struct Host {
    app: App,
    server: Option<http::Server>,
}

impl Host {
    /// Loads the configuration, migrates the database and starts the consumers.
    pub(super) async fn start(file: &Path) -> Result<Self, DemoError> {
        let config = config::load(file).map_err(|e| DemoError::Config(e.to_string()))?;
        for database in config.databases.values() {
            let store = store::open(database).map_err(|e| DemoError::Host(e.to_string()))?;
            store.migrate().await.map_err(|e| DemoError::Host(format!("migrate {}: {e}", store.place())))?;
        }
        let http = config.http.clone();
        let app = App::start(config).map_err(|e| DemoError::Host(e.to_string()))?;
        let view = http::View::of(&app, http.token);
        let server = match http.listen {
            None => None,
            Some(address) => Some(http::Server::start(address, None, view).await.map_err(|e| {
                DemoError::Usage(format!("cannot listen on {address} ({e}): choose another address with --listen"))
            })?),
        };
        Ok(Self { app, server })
    }

    /// Why a consumer, or a partition of one, has stopped for good.
    pub(super) fn trouble(&self) -> Option<String> {
        let stopped = self.app.report().into_iter().filter(|consumer| {
            consumer.phase == "stopped" || consumer.partitions.values().any(|state| *state == "stopped")
        });
        let lines: Vec<_> = stopped
            .flat_map(|consumer| consumer.reasons)
            .map(|reason| format!("{}: {}: {}", reason.consumer, reason.about, reason.text))
            .collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// Where metrics are served.
    pub(super) fn metrics_url(&self) -> Option<String> {
        self.server.as_ref().map(|server| format!("http://{}/metrics", server.address()))
    }

    /// Stops reading, applies what was read, commits, leaves the groups.
    pub(super) async fn drain(self) {
        self.app.drain().await;
    }
}
