//! Asks a plugin who the samples are.

use std::fmt;

use super::{KeyFault, SHOWN};
use crate::{
    identity::{AggregateId, Identity, MessageId},
    plugin::{EvaluateContext, Input, Plugin, PluginError, identities},
    record::Record,
    store::KeySample,
};

/// An input whose keys are not what they were. Shows ids, never payloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What they were.
    pub was: (MessageId, AggregateId),
    /// What they would be.
    pub is: (MessageId, AggregateId),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((was, was_of), (is, is_of)) = (&self.was, &self.is);
        if was == is {
            write!(f, "message id {was}: aggregate id {was_of} becomes {is_of}")
        } else {
            write!(f, "message id {was} becomes {is}")
        }
    }
}

/// What became of the samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Samples that were tried.
    pub compared: usize,
    /// How many get other keys.
    pub changed: usize,
    /// How many get none: the plugin skips or refuses them, or breaks. A copy of such an input is not applied either, so
    /// that nothing is applied twice.
    pub lost: usize,
    /// Inputs whose keys were others the second time.
    pub unstable: Vec<Difference>,
    /// The first that changed.
    pub shown: Vec<Difference>,
    /// The samples with the identity that this plugin gives them.
    pub rekeyed: Vec<KeySample>,
}

impl Comparison {
    pub(super) fn fault(&self) -> Option<KeyFault> {
        if !self.unstable.is_empty() {
            return Some(KeyFault::Unstable { shown: self.unstable.clone() });
        }
        if self.changed > 0 {
            let Self { compared, changed, shown, .. } = self.clone();
            return Some(KeyFault::Changed { changed, compared, shown });
        }
        (self.compared > 0 && self.lost == self.compared).then_some(KeyFault::Lost { compared: self.compared })
    }
}

/// Runs the samples through a plugin, twice, each time in fresh instances. CPU work: off the async runtime.
///
/// # Errors
/// What is no sample's fault.
pub fn compare(
    plugin: &dyn Plugin,
    samples: &[KeySample],
    context: &EvaluateContext,
) -> Result<Comparison, PluginError> {
    let inputs = inputs(samples);
    let first = identities(plugin, &inputs, context)?;
    let second = identities(plugin, &inputs, context)?;
    let mut comparison = Comparison { compared: samples.len(), ..Comparison::default() };
    for (sample, (first, second)) in samples.iter().zip(first.into_iter().zip(second)) {
        let was = (sample.message_id.clone(), sample.aggregate_id.clone());
        let Some(is) = first.map(ids) else {
            comparison.lost += 1;
            continue;
        };
        if let Some(again) = second.map(ids).filter(|again| *again != is)
            && comparison.unstable.len() < SHOWN
        {
            comparison.unstable.push(Difference { was: is.clone(), is: again });
        }
        let (message_id, aggregate_id) = is.clone();
        comparison.rekeyed.push(KeySample { message_id, aggregate_id, ..sample.clone() });
        if is != was {
            comparison.changed += 1;
            if comparison.shown.len() < SHOWN {
                comparison.shown.push(Difference { was, is });
            }
        }
    }
    Ok(comparison)
}

fn ids(identity: Identity) -> (MessageId, AggregateId) {
    (identity.message_id, identity.aggregate_id)
}

/// Samples as a plugin may be shown them again.
#[must_use]
pub fn inputs(samples: &[KeySample]) -> Vec<Input> {
    samples.iter().map(input).collect()
}

fn input(sample: &KeySample) -> Input {
    let record = Record {
        offset: 0,
        timestamp_ms: None,
        key: sample.key.clone(),
        payload: sample.payload.clone(),
        headers: sample.headers.clone(),
    };
    Input { source: sample.source.as_str().into(), record }
}
