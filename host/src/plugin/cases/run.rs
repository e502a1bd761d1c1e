//! Asking a plugin, as the path of a record does.

use std::{collections::HashMap, path::Path, sync::Arc};

use serde_json::Value as Json;
use uuid::Uuid;

use super::{
    Answer, Case, CasesError, Difference, Input, RowChange, Says, Who, compare::as_far_as, grants, read_folder,
};
use crate::{
    config::{Payload, PluginLimits, Tombstones},
    identity::Fingerprint,
    merge::TargetSpec,
    outcome::{Change, Evaluated, Verdict},
    plugin::{EvaluateContext, Message, Plugin, PluginError, evaluate, granted_columns},
    record::{Batch, Record, Run, TopicPartition},
};

/// Who writes a case of a tombstone wants to know what the plugin says of it.
const TOMBSTONES: Tombstones = Tombstones::Plugin;

/// What became of a folder's cases.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// One per case, in the order of the cases.
    pub cases: Vec<CaseReport>,
}

/// What became of a case.
#[derive(Clone, Debug)]
pub struct CaseReport {
    /// The case's name.
    pub name: String,
    /// What the plugin answered, where it came to that.
    pub actual: Option<Answer>,
    /// What is wrong; `None` where nothing is.
    pub finding: Option<Finding>,
}

/// What is wrong with a case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// Another answer than expected.
    #[error("another answer than expected:\n{0}")]
    Wrong(Difference),
    /// Nothing is expected.
    #[error("the case says nothing of what is expected: write it, or let `tidegate plugin test --update` do so")]
    Open,
    /// Two answers in two fresh instances.
    #[error("the plugin is not deterministic: a second instance gives another answer to the same input:\n{0}")]
    Unstable(Difference),
    /// Another answer where other inputs came before.
    #[error("the answer depends on what else is in the batch:\n{0}")]
    Company(Difference),
    /// No answer.
    #[error("{0}")]
    Broke(String),
}

impl Report {
    /// Of cases whose plugin cannot be had.
    #[must_use]
    pub fn broken(cases: &[Case], why: &PluginError) -> Self {
        Self { cases: cases.iter().map(|case| broke(case, why.to_string())).collect() }
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failed().next().is_none()
    }

    /// The cases with which something is wrong.
    pub fn failed(&self) -> impl Iterator<Item = (&str, &Finding)> {
        self.cases.iter().filter_map(|case| Some((case.name.as_str(), case.finding.as_ref()?)))
    }
}

/// Runs every case of a folder on a plugin, under the settings that the case says. `granted` is what a consumer's
/// configuration lets it write, `None` where there is no configuration: then the plugin may write what it describes. Blocks
/// while the plugin computes.
///
/// # Errors
/// Where the folder cannot be read. What is wrong with the plugin is in the report.
pub fn run_folder(
    folder: &Path,
    plugin: &dyn Plugin,
    granted: Option<&Arc<[TargetSpec]>>,
) -> Result<Report, CasesError> {
    let cases: Vec<Case> = read_folder(folder)?.into_iter().map(|(_, case)| case).collect();
    Ok(run(&cases, plugin, granted))
}

/// Runs these cases. See [`run_folder`].
#[must_use]
pub fn run(cases: &[Case], plugin: &dyn Plugin, granted: Option<&Arc<[TargetSpec]>>) -> Report {
    let mut reports: Vec<Option<CaseReport>> = vec![None; cases.len()];
    // Cases that can share an instance.
    let mut groups: Vec<(&Json, Payload, Vec<usize>)> = Vec::new();
    for (place, case) in cases.iter().enumerate() {
        let like =
            |group: &&mut (&Json, Payload, Vec<usize>)| group.0 == &case.settings && group.1 == case.input.payload;
        match groups.iter_mut().find(like) {
            Some((_, _, places)) => places.push(place),
            None => groups.push((&case.settings, case.input.payload, vec![place])),
        }
    }
    for (settings, payload, places) in groups {
        let these: Vec<&Case> = places.iter().map(|&place| &cases[place]).collect();
        let group = match plugin.with_settings(settings) {
            Ok(plugin) => Asking::new(plugin, payload, &these, granted).group(&these),
            Err(error) => these.iter().map(|case| broke(case, error.to_string())).collect(),
        };
        for (place, report) in places.into_iter().zip(group) {
            reports[place] = Some(report);
        }
    }
    Report { cases: reports.into_iter().flatten().collect() }
}

fn broke(case: &Case, why: String) -> CaseReport {
    CaseReport { name: case.name.clone(), actual: None, finding: Some(Finding::Broke(why)) }
}

/// A plugin that is asked about cases of the same settings.
struct Asking {
    plugin: Arc<dyn Plugin>,
    context: EvaluateContext,
}

impl Asking {
    fn new(plugin: Arc<dyn Plugin>, payload: Payload, cases: &[&Case], granted: Option<&Arc<[TargetSpec]>>) -> Self {
        let targets = granted.cloned().unwrap_or_else(|| {
            let messages: Vec<_> = cases.iter().filter_map(|case| case.input.message()).collect();
            grants::derive(plugin.as_ref(), &messages).into()
        });
        let context = EvaluateContext {
            payload,
            tombstones: TOMBSTONES,
            sources: HashMap::new(),
            targets,
            limits: PluginLimits::default(),
            // A case may well be about an input that breaks the plugin.
            max_broken: usize::MAX,
        };
        Self { plugin, context }
    }

    fn group(&self, cases: &[&Case]) -> Vec<CaseReport> {
        let mut reports: Vec<CaseReport> = cases.iter().map(|case| self.alone(case)).collect();
        if cases.len() < 2 || reports.iter().any(|report| report.actual.is_none()) {
            return reports;
        }
        // In other company and another order than anything before.
        let reversed: Vec<&Input> = cases.iter().rev().map(|case| &case.input).collect();
        match self.ask(&reversed) {
            Ok(answers) => {
                for (report, together) in reports.iter_mut().rev().zip(answers) {
                    let difference = report.actual.as_ref().and_then(|alone| difference(alone, &together));
                    if let (Some(difference), None) = (difference, &report.finding) {
                        report.finding = Some(Finding::Company(difference));
                    }
                }
            }
            Err(error) => {
                let why = format!("each case alone is fine, all of them in one batch are not: {error}");
                reports[0].finding.get_or_insert(Finding::Broke(why));
            }
        }
        reports
    }

    fn alone(&self, case: &Case) -> CaseReport {
        let twice = || {
            let first = self.ask(&[&case.input])?.pop();
            let second = self.ask(&[&case.input])?.pop();
            Ok::<_, PluginError>(first.zip(second))
        };
        let (first, second) = match twice() {
            Ok(Some(answers)) => answers,
            Ok(None) => return broke(case, "the plugin gave no answer".to_owned()),
            Err(error) => return broke(case, error.to_string()),
        };
        let finding = match (difference(&first, &second), &case.expected) {
            (Some(difference), _) => Some(Finding::Unstable(difference)),
            (None, None) => Some(Finding::Open),
            (None, Some(expected)) => Difference::between(expected, &first).map(Finding::Wrong),
        };
        CaseReport { name: case.name.clone(), actual: Some(first), finding }
    }

    /// One answer per input, from fresh instances.
    fn ask(&self, inputs: &[&Input]) -> Result<Vec<Answer>, PluginError> {
        let batch = batch(inputs);
        let sources = batch.runs.iter().zip(inputs);
        let sources = sources.map(|(run, input)| (Arc::clone(&run.partition.topic), Arc::from(input.source.as_str())));
        let context = EvaluateContext { sources: sources.collect(), ..self.context.clone() };
        let evaluated = evaluate(self.plugin.as_ref(), &batch, &context)?;
        Ok(evaluated.into_iter().zip(inputs).map(|(one, input)| self.answer(one, input)).collect())
    }

    fn answer(&self, evaluated: Evaluated, input: &Input) -> Answer {
        let of_payload = Fingerprint::of(input.body.as_deref());
        let identity = evaluated.identity.map(|identity| Who {
            message_id: identity.message_id.as_str().to_owned(),
            aggregate_id: identity.aggregate_id.as_str().to_owned(),
            occurred_at_us: identity.occurred_at_us,
            fingerprint: (identity.fingerprint != of_payload).then_some(identity.fingerprint.0),
        });
        let says = match evaluated.verdict {
            Verdict::Apply(changes) => Says::Apply(changes.into_iter().map(|change| self.row(change)).collect()),
            Verdict::Skip(reason) => Says::Skip(Some(reason)),
            Verdict::Reject(rejection) => Says::Reject(rejection.code, Some(rejection.message)),
        };
        Answer { identity, says }
    }

    fn row(&self, change: Change) -> RowChange {
        let spec = &self.context.targets[change.target];
        let columns = granted_columns(spec, change.operation).into_iter().map(str::to_owned);
        RowChange { operation: change.operation, target: spec.name.clone(), row: columns.zip(change.values).collect() }
    }
}

/// A trap's words may name addresses or numbers of messages in the batch; who rejects by itself has to say the same again.
fn difference(first: &Answer, second: &Answer) -> Option<Difference> {
    let by_host = |answer: &Answer| matches!(&answer.says, Says::Reject(code, _) if code.starts_with("plugin-"));
    let without = |answer: &Answer| match &answer.says {
        Says::Reject(code, _) if by_host(answer) => {
            let open = Answer { identity: None, says: Says::Reject(code.clone(), None) };
            as_far_as(&open, answer)
        }
        _ => answer.clone(),
    };
    Difference::between(&without(first), &without(second))
}

/// Each input in a partition of its own: it may have a source of its own.
fn batch(inputs: &[&Input]) -> Batch {
    let run = |place: usize| Run {
        partition: Arc::new(TopicPartition {
            cluster_id: Arc::from("cases"),
            topic_id: Uuid::nil(),
            topic: Arc::from(place.to_string()),
            partition: 0,
        }),
        generation: 0,
        first_offset: 0,
        next_offset: 1,
        records: place..place + 1,
    };
    Batch { runs: (0..inputs.len()).map(run).collect(), records: inputs.iter().map(|input| input.record()).collect() }
}

impl Input {
    fn record(&self) -> Record {
        Record {
            offset: 0,
            timestamp_ms: self.record_time_ms,
            key: self.key.clone(),
            payload: self.body.clone(),
            headers: self.headers.clone(),
        }
    }

    /// As the plugin sees it; `None` where it is not asked, since the body is no text and it wants text.
    #[must_use]
    pub fn message(&self) -> Option<Message> {
        Message::of(&self.record(), &Arc::from(self.source.as_str()), self.payload, TOMBSTONES).ok()
    }

    /// The input that a plugin sees as this message, of a record of this time.
    #[must_use]
    pub fn seen(message: Message, payload: Payload, record_time_ms: Option<i64>) -> Self {
        let body = message.body.bytes().cloned();
        let Message { source, key, headers, .. } = message;
        Self { source: source.as_ref().to_owned(), payload, key, body, headers, record_time_ms }
    }
}
