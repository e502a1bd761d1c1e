//! The metamorphic gate: who an input is does not depend on its company, its place in a batch or where it came from
//! (Invariant 4). Held on the kept samples before a plugin runs, and on sampled batches while it does. Which relations
//! there are says [`crate::plugin::metamorphic`].

use std::fmt;

use super::SHOWN;
use crate::{
    identity::Identity,
    outcome::Evaluated,
    plugin::{
        EvaluateContext, Input, Plugin, PluginError, identities,
        metamorphic::{Relation, violated},
    },
    record::{Batch, Header},
};

/// Inputs that one live batch is looked at by.
const LIVE: usize = 32;
/// Inputs that are asked about alone: each takes an instance.
const ALONE: usize = 4;

/// Keys that depend on what they must not depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// What was done to the batch.
    pub relation: Relation,
    /// The message ids: in the batch, and after that.
    pub shown: Vec<(Option<String>, Option<String>)>,
}

impl Moved {
    /// As an error of the plugin's: it stops the consumer.
    #[must_use]
    pub fn of(&self, plugin: &dyn Plugin) -> PluginError {
        PluginError::KeysMoved { plugin: plugin.description().name.clone(), message: self.to_string() }
    }
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = |id: &Option<String>| id.clone().unwrap_or_else(|| "none".to_owned());
        let one = |(was, is): &(Option<String>, Option<String>)| {
            if was == is {
                format!("message id {} with another aggregate, time or fingerprint", id(was))
            } else {
                format!("message id {} becomes {}", id(was), id(is))
            }
        };
        let shown: Vec<String> = self.shown.iter().map(one).collect();
        write!(f, "{}: {}", self.relation, shown.join("; "))
    }
}

/// Holds the keys that a plugin gave these inputs against those after every relation, the same once more among them.
///
/// # Errors
/// What is no input's fault. The inner: keys that moved.
pub fn hold(
    plugin: &dyn Plugin,
    inputs: &[Input],
    keys: &[Option<Identity>],
    context: &EvaluateContext,
) -> Result<Result<(), Moved>, PluginError> {
    against(plugin, inputs, keys, context, &Relation::ALL)
}

/// Holds the keys that a live batch was just given against those after one relation. Only inputs with a key are looked
/// at: what broke the plugin in company is the batch's own business.
///
/// # Errors
/// As [`hold`].
pub fn hold_live(
    plugin: &dyn Plugin,
    batch: &Batch,
    evaluated: &[Evaluated],
    context: &EvaluateContext,
    relation: Relation,
) -> Result<Result<(), Moved>, PluginError> {
    let keyed: Vec<usize> = (0..evaluated.len()).filter(|&i| evaluated[i].identity.is_some()).collect();
    let step = keyed.len().div_ceil(LIVE).max(1);
    let looked_at: Vec<usize> = keyed.into_iter().step_by(step).collect();
    let input = |&i: &usize| Input {
        source: context.source_of(&batch.run_of(i).partition.topic),
        record: batch.records[i].clone(),
    };
    let inputs: Vec<Input> = looked_at.iter().map(input).collect();
    let keys: Vec<_> = looked_at.iter().map(|&i| evaluated[i].identity.clone()).collect();
    against(plugin, &inputs, &keys, context, &[relation])
}

fn against(
    plugin: &dyn Plugin,
    inputs: &[Input],
    keys: &[Option<Identity>],
    context: &EvaluateContext,
    relations: &[Relation],
) -> Result<Result<(), Moved>, PluginError> {
    let id = |identity: &Option<Identity>| identity.as_ref().map(|identity| identity.message_id.to_string());
    let mut ask = |inputs: &[Input]| identities(plugin, &inputs.iter().map(elsewhere).collect::<Vec<_>>(), context);
    let violated = violated(inputs, keys, relations, ALONE, &mut ask)?;
    Ok(violated.map_or(Ok(()), |(relation, moved)| {
        let shown = moved.iter().take(SHOWN).map(|(place, key)| (id(&keys[*place]), id(key))).collect();
        Err(Moved { relation, shown })
    }))
}

/// The input as if a mirror or a retry topic had delivered it. A plugin sees nothing of this.
fn elsewhere(input: &Input) -> Input {
    let mut moved = input.clone();
    moved.record.offset = moved.record.offset.wrapping_add(1_000_003);
    let offset = Header { name: "x-original-offset".to_owned(), value: Some(moved.record.offset.to_string().into()) };
    moved.record.headers.push(offset);
    moved
}
