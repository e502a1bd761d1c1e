//! Who inputs are, by extract-keys alone: for the gates that hold keys together.

use std::sync::Arc;

use super::{EvaluateContext, identify};
use crate::{
    class::Class,
    identity::Identity,
    plugin::{Entry, Message, Plugin, PluginError},
    record::Record,
};

/// An input as a plugin may be shown it again: a record under the alias of its topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The alias.
    pub source: Arc<str>,
    /// The record. Its offset and time are not looked at.
    pub record: Record,
}

/// The identity of each input, in order, all in one fresh instance; `None` where the plugin is not asked, gives none, or
/// breaks on the input, which is then found by halving.
///
/// # Errors
/// What is no input's fault.
pub fn identities(
    plugin: &dyn Plugin,
    inputs: &[Input],
    context: &EvaluateContext,
) -> Result<Vec<Option<Identity>>, PluginError> {
    let mut found = vec![None; inputs.len()];
    let (mut messages, mut places) = (Vec::with_capacity(inputs.len()), Vec::with_capacity(inputs.len()));
    for (place, input) in inputs.iter().enumerate() {
        if let Ok(message) = Message::of(&input.record, &input.source, context.payload, context.tombstones) {
            messages.push(message);
            places.push(place);
        }
    }
    for (place, identity) in places.into_iter().zip(halving(plugin, &messages)?) {
        found[place] = identity;
    }
    Ok(found)
}

fn halving(plugin: &dyn Plugin, messages: &[Message]) -> Result<Vec<Option<Identity>>, PluginError> {
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    match extract(plugin, messages) {
        Err(error) if error.class() != Class::Poison => Err(error),
        // Invariant 6: alone and twice, as on the path.
        Err(_) if messages.len() == 1 => match extract(plugin, messages) {
            Err(error) if error.class() == Class::Poison => Ok(vec![None]),
            answer => answer,
        },
        Err(_) => {
            let (head, tail) = messages.split_at(messages.len() / 2);
            let mut found = halving(plugin, head)?;
            found.extend(halving(plugin, tail)?);
            Ok(found)
        }
        Ok(found) => Ok(found),
    }
}

fn extract(plugin: &dyn Plugin, messages: &[Message]) -> Result<Vec<Option<Identity>>, PluginError> {
    let keys = plugin.instance(messages.len())?.extract_keys(messages)?;
    if keys.len() != messages.len() {
        return Err(PluginError::Contract {
            plugin: plugin.description().name.clone(),
            entry: Entry::ExtractKeys,
            batch: messages.len(),
            message: format!("{} results for {} messages", keys.len(), messages.len()),
        });
    }
    Ok(keys.into_iter().zip(messages).map(|(key, message)| identify::identify(key, message).identity).collect())
}
