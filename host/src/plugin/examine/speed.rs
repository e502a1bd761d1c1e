//! What an event costs. A figure for the author, on the author's machine: nothing is refused for it.

use std::time::Instant;

use crate::plugin::{Accepted, KeyResult, Message, Plugin, PluginError};

/// As a busy lane has them.
const BATCH: usize = 500;
const ROUNDS: usize = 5;

/// Microseconds of one event in batches of 500 of these messages, again and again: instance, keys and rows together; the
/// best of five rounds. `None` where there are no messages.
///
/// # Errors
/// Where the plugin breaks on them.
pub fn micros_per_event(plugin: &dyn Plugin, messages: &[Message]) -> Result<Option<f64>, PluginError> {
    if messages.is_empty() {
        return Ok(None);
    }
    let batch: Vec<Message> = messages.iter().cycle().take(BATCH).cloned().collect();
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let mut instance = plugin.instance(batch.len())?;
        let keys = instance.extract_keys(&batch)?;
        let accepted: Vec<Accepted> = keys
            .iter()
            .zip(0u32..)
            .filter(|(key, _)| matches!(key, KeyResult::Identity(_)))
            .map(|(_, index)| Accepted { index, record_time_ms: None, seed: index })
            .collect();
        if !accepted.is_empty() {
            instance.compute(&accepted)?;
        }
        drop(instance);
        best = best.min(begun.elapsed().as_secs_f64());
    }
    #[allow(clippy::cast_precision_loss, reason = "500")]
    Ok(Some(best * 1e6 / BATCH as f64))
}
