//! A consumer's shadow: loaded beside the rules in force, promoted to them through the same gates, or dropped.

use std::sync::Arc;

use super::{launch::Launch, locked};
use crate::{config, pipeline::Shadow, plugin::EvaluateContext};

impl Launch {
    /// Has the shadow be what the settings say. What goes wrong concerns the shadow alone.
    pub(super) async fn shade(&self) {
        let settings = self.settings();
        let Some(candidate) = settings.shadow.clone() else {
            self.shadow.set(None);
            return;
        };
        let name = settings.name.clone();
        let shaded = Arc::new(config::Consumer { plugin: candidate, shadow: None, ..(*settings).clone() });
        match self.load(&shaded).await {
            Ok(plugin) if self.shadow.get().is_some_and(|shadow| shadow.digest() == plugin.digest()) => {}
            Ok(plugin) => {
                tracing::info!(consumer = %name, sha256 = %crate::key_gate::short(&plugin.digest()), "a shadow looks on");
                match Shadow::new(plugin, EvaluateContext::of(&shaded), self.metrics.clone()) {
                    Ok(shadow) => self.shadow.set(Some(Arc::new(shadow))),
                    Err(error) => tracing::warn!(consumer = %name, "there is no shadow: it gets no thread: {error}"),
                }
            }
            Err(error) => {
                tracing::warn!(consumer = %name, "there is no shadow: {error}");
                self.shadow.set(None);
            }
        }
    }

    /// The shadow's plugin becomes the consumer's, if it passes what every plugin has to pass. Until the file says so,
    /// too, a restart or another look at the file goes back. `false` where there is no shadow.
    pub(super) fn promote(&self) -> bool {
        let settings = self.settings();
        let Some(plugin) = settings.shadow.clone() else { return false };
        *locked(&self.wanted) = Some(Arc::new(config::Consumer { plugin, shadow: None, ..(*settings).clone() }));
        self.told.notify_one();
        true
    }

    /// No shadow any more, until the file is read again. `false` where there is none.
    pub(super) fn drop_shadow(&self) -> bool {
        let mut settings = locked(&self.settings);
        if settings.shadow.is_none() {
            return false;
        }
        *settings = Arc::new(config::Consumer { shadow: None, ..(**settings).clone() });
        drop(settings);
        self.shadow.set(None);
        true
    }
}
