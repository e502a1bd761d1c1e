//! Holds the keys that a plugin gives the samples against those that they had. Pure.

use std::fmt;

use super::{KeyFault, SHOWN};
use crate::{
    identity::{AggregateId, Identity, MessageId},
    plugin::Input,
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
    /// The first that changed.
    pub shown: Vec<Difference>,
    /// The samples with the identity that this plugin gives them.
    pub rekeyed: Vec<KeySample>,
}

impl Comparison {
    pub(super) fn fault(&self) -> Option<KeyFault> {
        if self.changed > 0 {
            let Self { compared, changed, shown, .. } = self.clone();
            return Some(KeyFault::Changed { changed, compared, shown });
        }
        (self.compared > 0 && self.lost == self.compared).then_some(KeyFault::Lost { compared: self.compared })
    }
}

/// `keys` are what a plugin says of [`inputs`], one for each. That it says the same each time is for
/// [`hold`](super::hold) to see.
#[must_use]
pub fn compare(samples: &[KeySample], keys: Vec<Option<Identity>>) -> Comparison {
    let mut comparison = Comparison { compared: samples.len(), ..Comparison::default() };
    for (sample, key) in samples.iter().zip(keys) {
        let was = (sample.message_id.clone(), sample.aggregate_id.clone());
        let Some(is) = key.map(ids) else {
            comparison.lost += 1;
            continue;
        };
        let (message_id, aggregate_id) = is.clone();
        comparison.rekeyed.push(KeySample { message_id, aggregate_id, ..sample.clone() });
        if is != was {
            comparison.changed += 1;
            if comparison.shown.len() < SHOWN {
                comparison.shown.push(Difference { was, is });
            }
        }
    }
    comparison
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
