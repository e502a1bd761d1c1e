//! A batch before the plugin is asked.

use super::EvaluateContext;
use crate::{outcome::Evaluated, plugin::Message, record::Batch};

/// A batch, sorted into what the plugin is asked about and what is decided without it.
pub(super) struct Prepared {
    /// One per record; `None` where the plugin is asked.
    pub(super) verdicts: Vec<Option<Evaluated>>,
    /// What the plugin is asked about.
    pub(super) messages: Vec<Message>,
    /// Each message's record.
    pub(super) places: Vec<usize>,
}

/// Sorts a batch.
pub(super) fn prepare(batch: &Batch, context: &EvaluateContext) -> Prepared {
    let mut prepared = Prepared {
        verdicts: vec![None; batch.records.len()],
        messages: Vec::with_capacity(batch.records.len()),
        places: Vec::with_capacity(batch.records.len()),
    };
    for run in &batch.runs {
        let source = context.source_of(&run.partition.topic);
        for place in run.records.clone() {
            match Message::of(&batch.records[place], &source, context.payload, context.tombstones) {
                Ok(message) => {
                    prepared.messages.push(message);
                    prepared.places.push(place);
                }
                Err(verdict) => prepared.verdicts[place] = Some(Evaluated { identity: None, verdict }),
            }
        }
    }
    prepared
}
