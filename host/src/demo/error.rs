//! What keeps the demo from running, each with the way out.

/// Why the demo could not run to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum DemoError {
    /// Something in the options or around them.
    #[error("{0}")]
    Usage(String),
    /// A file, a folder.
    #[error("{what} {path}: {source}")]
    File {
        /// What was being done.
        what: &'static str,
        /// To which file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The broker.
    #[error("broker at {servers}: {what}: {message}")]
    Broker {
        /// Where it is.
        servers: String,
        /// What was being done.
        what: &'static str,
        /// What the client said.
        message: String,
    },
    /// The database.
    #[error("database: {what}: {message}")]
    Database {
        /// What was being done.
        what: String,
        /// What the driver said; it does not repeat the URL.
        message: String,
    },
    /// The configuration that the demo itself wrote.
    #[error("the demo's configuration: {0}")]
    Config(String),
    /// The host did not start, or a consumer stopped.
    #[error("{0}")]
    Host(String),
    /// Ctrl-C or SIGTERM before the end.
    #[error("interrupted; nothing is proven")]
    Interrupted,
    /// One of the others, once there was something to look at.
    #[error("{source}\nwhat there is, the log among it: {folder}")]
    Begun {
        /// What ended it.
        source: Box<DemoError>,
        /// The demo's folder.
        folder: String,
    },
    /// Nothing moves any more.
    #[error("nothing has moved for {seconds} s, and not everything is consumed:\n{positions}")]
    Stalled {
        /// How long it was watched.
        seconds: u64,
        /// Consumer, partition, position and end, one a line.
        positions: String,
    },
}

impl DemoError {
    /// The process's exit code: 2 for what the user gave, 3 for the environment, 1 for
    /// what failed while running, 130 for an interrupt.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Begun { source, .. } => source.exit_code(),
            Self::Usage(_) => 2,
            Self::File { .. } | Self::Broker { .. } | Self::Database { .. } => 3,
            Self::Interrupted => 130,
            Self::Config(_) | Self::Host(_) | Self::Stalled { .. } => 1,
        }
    }
}
