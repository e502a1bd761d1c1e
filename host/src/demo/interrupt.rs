//! Ctrl-C and SIGTERM.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error::DemoError;

/// From its making on, the process is not ended by these signals.
pub(super) struct Interrupt {
    ctrl_c: Signal,
    terminate: Signal,
}

impl Interrupt {
    pub(super) fn listen() -> Result<Self, DemoError> {
        let listen = |kind| signal(kind).map_err(|e| DemoError::Usage(format!("cannot listen for signals: {e}")));
        Ok(Self { ctrl_c: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// The next one.
    pub(super) async fn wait(&mut self) {
        tokio::select! {
            _ = self.ctrl_c.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
