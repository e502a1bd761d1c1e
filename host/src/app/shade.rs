//! A consumer's shadow: loaded beside the rules in force, promoted to them through the same gates, or dropped.

use std::sync::Arc;

use super::{launch::Launch, locked, orders::Promotion, watch};
use crate::{config, pipeline::Shadow};

impl Launch {
    /// Has the shadow be what the settings say. What goes wrong concerns the shadow alone.
    pub(super) async fn shade(&self) {
        loop {
            let settings = self.settings();
            let shadow = self.shadow_of(&settings).await;
            // An operator may have dropped it while it was compiled; under the lock nobody does.
            let now = locked(&self.settings);
            if Arc::ptr_eq(&now, &settings) {
                return self.shadow.set(shadow);
            }
        }
    }

    /// The shadow of these settings; the one that looks on already, where it is made of just that.
    async fn shadow_of(&self, settings: &config::Consumer) -> Option<Arc<Shadow>> {
        let Some(plugin) = settings.shadow.clone() else {
            self.shading.reads([]);
            return None;
        };
        self.shading.reads(watch::files(&plugin));
        let name = &settings.name;
        let shaded = Arc::new(config::Consumer { plugin, shadow: None, ..settings.clone() });
        let plugin = match self.load(&shaded).await {
            Ok(plugin) => plugin,
            Err(error) => {
                tracing::warn!(consumer = %name, "there is no shadow: {error}");
                return None;
            }
        };
        let there = self.shadow.get();
        if there.as_ref().is_some_and(|shadow| shadow.is_made_of(&plugin.digest(), &shaded)) {
            return there;
        }
        tracing::info!(consumer = %name, sha256 = %crate::key_gate::short(&plugin.digest()), "a shadow looks on");
        match Shadow::new(plugin, shaded, self.metrics.clone()) {
            Ok(shadow) => Some(Arc::new(shadow)),
            Err(error) => {
                tracing::warn!(consumer = %name, "there is no shadow: it gets no thread: {error}");
                None
            }
        }
    }

    /// The shadow's plugin becomes the consumer's, if it passes what every plugin has to pass. Until the
    /// configuration says so, too, a restart goes back, or the next time that it is read. `false` where there is no shadow.
    pub(super) fn promote(&self) -> bool {
        let settings = locked(&self.settings);
        let Some(plugin) = settings.shadow.clone() else { return false };
        // What an operator has seen, and not what lies there by then.
        let digest = self.shadow.get().map(|shadow| shadow.digest());
        drop(settings);
        self.orders.promote(Promotion { plugin, digest });
        true
    }

    /// No shadow any more, until the file is read again. `false` where there is none.
    pub(super) fn drop_shadow(&self) -> bool {
        let mut settings = locked(&self.settings);
        if settings.shadow.is_none() {
            return false;
        }
        *settings = Arc::new(config::Consumer { shadow: None, ..(**settings).clone() });
        self.shadow.set(None);
        true
    }
}
