//! From a batch to verdicts: one per record, in order, whatever one of them does to the plugin.
//!
//! Synchronous, and pure but for the plugin's own log lines: the same batch gives the same verdicts, however often,
//! in whatever company.

mod context;
mod grant;
mod identify;
mod identities;
mod prepare;

pub use context::EvaluateContext;
use grant::Resolved;
pub(crate) use grant::granted as granted_columns;
pub use identities::{Input, identities};
use prepare::Prepared;

use super::{Accepted, ComputeResult, Computed, Entry, Limit, Message, Plugin, PluginError};
use crate::{
    class::Class,
    fail_point::{FailPoint, reach},
    outcome::{Change, Evaluated, Rejection, Verdict},
    record::Batch,
    value::Value,
};

/// Runs a batch through the plugin: one verdict per record of [`Batch::records`], in order.
///
/// Where the plugin traps, or breaks a limit or the contract, the batch is split, each part in a fresh instance, until
/// the record that does it stands alone. It is rejected only if it fails alone, twice (Invariant 6); its neighbours
/// come out as if it had never been there.
///
/// # Errors
/// What is no record's fault: [`Class::Transient`] (the same batch again, later) or [`Class::Fatal`] (the plugin asks
/// for what it was not granted, or breaks on more records than [`EvaluateContext::max_broken`]).
pub fn evaluate(plugin: &dyn Plugin, batch: &Batch, context: &EvaluateContext) -> Result<Vec<Evaluated>, PluginError> {
    let Prepared { mut verdicts, messages, places } = prepare::prepare(batch, context);
    let mut isolation = Isolation { plugin, context, batch: messages.len(), broken: 0 };
    let times: Vec<Option<i64>> = places.iter().map(|&place| batch.records[place].timestamp_ms).collect();
    let evaluated = isolation.run(&messages, &times)?;
    for (place, one) in places.into_iter().zip(evaluated) {
        verdicts[place] = Some(one);
    }
    let lost = || PluginError::Host { message: "a record came out without a verdict".to_owned() };
    verdicts.into_iter().collect::<Option<Vec<_>>>().ok_or_else(lost)
}

/// Finds the record that breaks a plugin.
struct Isolation<'a> {
    plugin: &'a dyn Plugin,
    context: &'a EvaluateContext,
    /// Messages of the whole batch.
    batch: usize,
    /// Records isolated so far.
    broken: usize,
}

impl Isolation<'_> {
    /// All of these, split as often as it takes.
    fn run(&mut self, messages: &[Message], times: &[Option<i64>]) -> Result<Vec<Evaluated>, PluginError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let Broke { error, .. } = match attempt(self.plugin, messages, times, self.context) {
            Ok(evaluated) => return Ok(evaluated),
            Err(broke) if broke.error.class() == Class::Poison => broke,
            Err(broke) => return Err(*broke.error),
        };
        if messages.len() > 1 {
            let part = part(messages.len(), &error);
            let mut evaluated = Vec::with_capacity(messages.len());
            for (messages, times) in messages.chunks(part).zip(times.chunks(part)) {
                evaluated.extend(self.run(messages, times)?);
            }
            return Ok(evaluated);
        }
        // Invariant 6: alone, and twice.
        match attempt(self.plugin, messages, times, self.context) {
            Err(broke) if broke.error.class() == Class::Poison => self.reject(broke).map(|one| vec![one]),
            Err(broke) => Err(*broke.error),
            Ok(evaluated) => {
                tracing::warn!(plugin = %self.plugin.description().name, %error, "the plugin broke once and not again");
                Ok(evaluated)
            }
        }
    }

    /// The record that stood alone. Who it is stays known where extract-keys said it: if it was applied before, it is a
    /// duplicate still, and if it is corrected, the correction supersedes it.
    fn reject(&mut self, Broke { error, identified }: Broke) -> Result<Evaluated, PluginError> {
        self.broken += 1;
        if self.broken > self.context.max_broken {
            return Err(PluginError::Broken {
                plugin: self.plugin.description().name.clone(),
                broken: self.broken,
                batch: self.batch,
                allowed: self.context.max_broken,
                last: error.to_string(),
            });
        }
        let rejection = Rejection::new(error.code(), error.to_string());
        let identity = identified.into_iter().next().and_then(|one| one.identity);
        Ok(Evaluated { identity, verdict: Verdict::Reject(rejection) })
    }
}

/// So few records have all of their CPU budget at once, and are tried one by one if they exceed it.
const FEW: usize = 64;

/// How many records' CPU time a batch of this size is given before it is looked at in parts. What a looping record burns is
/// this, once a level, so that it is found in seconds; a batch that is slow as a whole pays it once, and passes in parts.
fn patience(records: usize) -> usize {
    if records <= FEW { records } else { records.isqrt() }
}

/// The size of the parts that a batch is split into after an error. What fails at once is cheap to halve. What fails by
/// burning its budget costs that budget on every level: so few levels, of many small parts, whose healthy ones are quick.
fn part(records: usize, error: &PluginError) -> usize {
    match error {
        PluginError::Limit { limit: Limit::Cpu, .. } if records <= FEW => 1,
        PluginError::Limit { limit: Limit::Cpu, .. } => records.div_ceil(records.isqrt()),
        _ => records.div_ceil(2),
    }
}

/// How an attempt ended, and what it knew by then.
struct Broke {
    error: Box<PluginError>,
    /// What extract-keys said, where it came that far.
    identified: Vec<Evaluated>,
}

impl From<PluginError> for Broke {
    fn from(error: PluginError) -> Self {
        Self { error: Box::new(error), identified: Vec::new() }
    }
}

/// All of these in one fresh instance.
fn attempt(
    plugin: &dyn Plugin,
    messages: &[Message],
    times: &[Option<i64>],
    context: &EvaluateContext,
) -> Result<Vec<Evaluated>, Broke> {
    let mut instance = match patience(messages.len()) {
        all if all == messages.len() => plugin.instance(all)?,
        some => plugin.impatient(messages.len(), some)?,
    };
    let broke = |message: String| PluginError::Contract {
        plugin: plugin.description().name.clone(),
        entry: Entry::ExtractKeys,
        batch: messages.len(),
        message,
    };

    let keys = instance.extract_keys(messages)?;
    if keys.len() != messages.len() {
        return Err(broke(format!("{} results for {} messages", keys.len(), messages.len())).into());
    }
    let mut evaluated = Vec::with_capacity(messages.len());
    let mut accepted = Vec::with_capacity(messages.len());
    for (place, (key, message)) in keys.into_iter().zip(messages).enumerate() {
        let one = identify::identify(key, message);
        if let Some(identity) = &one.identity {
            let index = u32::try_from(place).map_err(|_| broke("more messages than it can count".to_owned()))?;
            let seed = identify::seed(&identity.message_id);
            accepted.push(Accepted { index, record_time_ms: times[place], seed });
        }
        evaluated.push(one);
    }

    reach(FailPoint::Extracted);
    // A guest's empty list may carry a bad pointer, so an empty call is never made.
    if accepted.is_empty() {
        return Ok(evaluated);
    }
    let computed = instance.compute(&accepted);
    let checked =
        computed.and_then(|computed| Verdicts { plugin, context, batch: messages.len() }.of(computed, accepted.len()));
    let verdicts = match checked {
        Ok(verdicts) => verdicts,
        Err(error) => return Err(Broke { error: Box::new(error), identified: evaluated }),
    };
    let places = accepted.iter().filter_map(|one| usize::try_from(one.index).ok());
    for (place, verdict) in places.zip(verdicts) {
        evaluated[place].verdict = verdict;
    }
    Ok(evaluated)
}

/// Checks what compute answered.
struct Verdicts<'a> {
    plugin: &'a dyn Plugin,
    context: &'a EvaluateContext,
    batch: usize,
}

impl Verdicts<'_> {
    fn of(&self, computed: Computed, expected: usize) -> Result<Vec<Verdict>, PluginError> {
        if computed.results.len() != expected {
            return Err(self.broke(format!("{} results for {expected} messages", computed.results.len())));
        }
        let shapes = grant::resolve(&computed.shapes, &self.context.targets)
            .map_err(|message| PluginError::NotGranted { plugin: self.name(), message })?;
        computed.results.into_iter().map(|result| self.verdict(result, &shapes)).collect()
    }

    fn verdict(&self, result: ComputeResult, shapes: &[Resolved]) -> Result<Verdict, PluginError> {
        let rows = match result {
            ComputeResult::Changes(rows) => rows,
            ComputeResult::Skip(why) => return Ok(Verdict::Skip(why)),
            ComputeResult::Reject(code, message) => {
                return Ok(Verdict::Reject(Rejection::new(identify::code(code), message)));
            }
        };
        let allowed = self.context.limits.changes_per_event;
        if rows.len() > allowed {
            return Err(PluginError::Limit {
                plugin: self.name(),
                entry: Entry::Compute,
                batch: self.batch,
                limit: Limit::Changes,
                allowed: u64::try_from(allowed).unwrap_or(u64::MAX),
            });
        }
        let changes = rows.into_iter().map(|(shape, values)| self.change(shape, values, shapes));
        changes.collect::<Result<_, _>>().map(Verdict::Apply)
    }

    fn change(&self, shape: u32, values: Vec<Value>, shapes: &[Resolved]) -> Result<Change, PluginError> {
        let resolved = usize::try_from(shape).ok().and_then(|shape| shapes.get(shape));
        let Some(resolved) = resolved else {
            return Err(self.broke(format!("a change names shape {shape} of {}", shapes.len())));
        };
        if values.len() != resolved.columns() {
            let text =
                format!("a change has {} values for the {} columns of shape {shape}", values.len(), resolved.columns());
            return Err(self.broke(text));
        }
        Ok(Change { target: resolved.target, operation: resolved.operation, values: resolved.in_grant_order(values) })
    }

    fn broke(&self, message: String) -> PluginError {
        PluginError::Contract { plugin: self.name(), entry: Entry::Compute, batch: self.batch, message }
    }

    fn name(&self) -> String {
        self.plugin.description().name.clone()
    }
}

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
