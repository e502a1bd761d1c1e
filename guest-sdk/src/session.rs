//! The life of one instance: configure, extract-keys, compute, once each. Used by [`crate::export!`].

use crate::{
    Context, Message, Plugin, Rows, Stop,
    bindings::tidegate::plugin::types::{Accepted, ComputeResult, Computed, KeyResult, Rejection},
};

/// A configured plugin, and the events between the two calls.
#[derive(Debug)]
pub struct Session<P: Plugin> {
    plugin: P,
    events: Vec<Option<P::Event>>,
}

impl<P: Plugin> Session<P> {
    /// Reads the settings and configures.
    ///
    /// # Errors
    /// The plugin's own words, or what is wrong with the JSON.
    pub fn configure(settings: &str) -> Result<Self, String> {
        #[cfg(target_arch = "wasm32")]
        crate::log::say_why_a_panic_ends_the_instance();
        let settings = serde_json::from_str(settings).map_err(|error| error.to_string())?;
        Ok(Self { plugin: P::configure(settings)?, events: Vec::new() })
    }

    /// Parses each message and says who it is.
    pub fn extract_keys(&mut self, batch: &[Message]) -> Vec<KeyResult> {
        self.events = Vec::with_capacity(batch.len());
        let mut keys = Vec::with_capacity(batch.len());
        for message in batch {
            let (event, key) = match self.plugin.parse(message) {
                Ok(event) => {
                    let identity = self.plugin.key(&event);
                    (Some(event), KeyResult::Identity(identity))
                }
                Err(Stop::Skip(why)) => (None, KeyResult::Skip(why)),
                Err(Stop::Reject { code, message }) => (None, KeyResult::Reject(Rejection { code, message })),
            };
            self.events.push(event);
            keys.push(key);
        }
        keys
    }

    /// Computes the rows of the events that the host wants.
    pub fn compute(&mut self, accepted: &[Accepted]) -> Computed {
        let mut rows = Rows::default();
        let mut results = Vec::with_capacity(accepted.len());
        for one in accepted {
            let event = usize::try_from(one.index).ok().and_then(|index| self.events.get_mut(index)?.take());
            let Some(event) = event else {
                // The host asks once, and only for what had an identity.
                let message = "the host asked for an event that has no identity, or twice".to_owned();
                results.push(ComputeResult::Reject(Rejection { code: "sdk".to_owned(), message }));
                continue;
            };
            let context = Context { record_time_ms: one.record_time_ms, seed: one.seed };
            let stop = self.plugin.compute(event, &context, &mut rows);
            let changes = rows.take();
            results.push(match stop {
                Ok(()) => ComputeResult::Changes(changes),
                Err(Stop::Skip(why)) => ComputeResult::Skip(why),
                Err(Stop::Reject { code, message }) => ComputeResult::Reject(Rejection { code, message }),
            });
        }
        Computed { shapes: rows.shapes(), results }
    }
}
