//! `tidegate run --dry-run`: what would become of the messages in the topics. Joins no group, asks no database, writes nothing.

use std::{collections::HashSet, fmt::Write as _};

use serde_json::json;

use super::{
    Exit,
    arguments::RunOptions,
    console::{answer, complain},
    reading,
};
use crate::{
    config::{Config, Consumer},
    identity::MessageId,
    outcome::{Change, Evaluated, Verdict},
    plugin::{EvaluateContext, Plugin, Runtime, cases, evaluate, granted_columns},
    record::{Batch, Run, TopicPartition},
    source::kafka::{Begin, Seen},
    value::Value,
};

/// Records of one batch.
const BATCH: usize = 500;

/// Runs every consumer of the configuration, or the one that is named, on what its topics hold.
pub(super) fn run(config: &Config, options: &RunOptions) -> Exit {
    let begin = match options.from.as_deref().map_or(Ok(Begin::Oldest), reading::begin) {
        Ok(begin) => begin,
        Err(why) => {
            complain(&format!("error: --from {why}"));
            return Exit::Invalid;
        }
    };
    let wanted = |consumer: &&Consumer| options.consumer.as_ref().is_none_or(|name| consumer.name.as_str() == name);
    let consumers: Vec<&Consumer> = config.consumers.iter().filter(wanted).collect();
    if consumers.is_empty() {
        let names: Vec<_> = config.consumers.iter().map(|consumer| consumer.name.as_str()).collect();
        complain(&format!("error: --consumer: there is no such consumer; there is: {}", names.join(", ")));
        return Exit::Invalid;
    }
    let runtime = match Runtime::of(config) {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("cannot start the plugin runtime: {error}"));
            return Exit::Environment;
        }
    };
    for consumer in consumers {
        let plugin = match runtime.load(&consumer.plugin) {
            Ok(plugin) => plugin,
            Err(error) => {
                complain(&format!("error: {}: {error}", consumer.name));
                return Exit::Invalid;
            }
        };
        let mut show = Show::new(consumer, options.json);
        let (exit, why) = match show.all(config, plugin.as_ref(), begin, options.max.unwrap_or(u64::MAX)) {
            Ok(()) => (Exit::Fine, None),
            Err((exit, why)) => (exit, Some(why)),
        };
        show.ending();
        if let Some(why) = why {
            complain(&format!("error: {}: {why}", consumer.name));
            return exit;
        }
    }
    Exit::Fine
}

/// What one consumer's records come to.
struct Show<'a> {
    consumer: &'a Consumer,
    context: EvaluateContext,
    json: bool,
    ids: HashSet<MessageId>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    read: u64,
    apply: u64,
    again: u64,
    skip: u64,
    reject: u64,
    changes: usize,
}

impl<'a> Show<'a> {
    fn new(consumer: &'a Consumer, json: bool) -> Self {
        Self { consumer, context: EvaluateContext::of(consumer), json, ids: HashSet::new(), counts: Counts::default() }
    }

    fn all(&mut self, config: &Config, plugin: &dyn Plugin, begin: Begin, most: u64) -> Result<(), (Exit, String)> {
        let environment = |error: crate::source::SourceError| (Exit::Environment, error.to_string());
        let mut topics = reading::open(config, self.consumer, begin).map_err(environment)?;
        while self.counts.read < most {
            let left = usize::try_from(most - self.counts.read).unwrap_or(usize::MAX);
            let seen = topics.read(left.min(BATCH)).map_err(environment)?;
            if seen.is_empty() {
                break;
            }
            let (batch, places) = batch(seen);
            let evaluated =
                evaluate(plugin, &batch, &self.context).map_err(|error| (Exit::Failed, error.to_string()))?;
            for place in places {
                self.counts.read += 1;
                self.record(&batch.position_of(place), &evaluated[place]);
            }
        }
        Ok(())
    }

    fn record(&mut self, position: &str, evaluated: &Evaluated) {
        let id = evaluated.identity.as_ref().map(|identity| identity.message_id.clone());
        let again = match (&evaluated.verdict, &id) {
            (Verdict::Apply(_), Some(id)) => !self.ids.insert(id.clone()),
            _ => false,
        };
        match &evaluated.verdict {
            _ if again => self.counts.again += 1,
            Verdict::Apply(changes) => {
                self.counts.apply += 1;
                self.counts.changes += changes.len();
            }
            Verdict::Skip(_) => self.counts.skip += 1,
            Verdict::Reject(_) => self.counts.reject += 1,
        }
        answer(&if self.json {
            self.as_json(position, evaluated, again)
        } else {
            self.as_text(position, evaluated, again)
        });
    }

    fn as_text(&self, position: &str, evaluated: &Evaluated, again: bool) -> String {
        let id = evaluated.identity.as_ref().map_or("–", |identity| identity.message_id.as_str());
        let mut text = format!("{position}  {id}  ");
        match &evaluated.verdict {
            Verdict::Apply(_) if again => text.push_str("the same id as before: a duplicate"),
            Verdict::Apply(changes) if changes.is_empty() => text.push_str("applied, changes nothing"),
            Verdict::Apply(changes) => {
                for (number, change) in changes.iter().enumerate() {
                    text.push_str(if number == 0 { "" } else { "\n    " });
                    let row: Vec<_> = self
                        .row(change, cases::render_value)
                        .into_iter()
                        .map(|(column, value)| format!("{column} = {value}"))
                        .collect();
                    let (operation, table) = self.place(change);
                    let _ = write!(text, "{operation} {table}: {}", row.join(", "));
                }
            }
            Verdict::Skip(why) => {
                let _ = write!(text, "skipped: {why}");
            }
            Verdict::Reject(rejection) => {
                let _ = write!(text, "dead letter: {}: {}", rejection.code, rejection.message);
            }
        }
        text
    }

    fn as_json(&self, position: &str, evaluated: &Evaluated, again: bool) -> String {
        let identity = evaluated.identity.as_ref();
        let mut line = json!({
            "consumer": self.consumer.name.as_str(), "position": position,
            "message_id": identity.map(|identity| identity.message_id.as_str()),
            "aggregate_id": identity.map(|identity| identity.aggregate_id.as_str()),
            "again": again,
        });
        let change = |change: &Change| {
            let (operation, table) = self.place(change);
            let row: serde_json::Map<_, _> = self.row(change, cases::render_value_json).into_iter().collect();
            json!({"operation": operation, "table": table, "row": row})
        };
        match &evaluated.verdict {
            Verdict::Apply(changes) => line["changes"] = changes.iter().map(change).collect(),
            Verdict::Skip(why) => line["skip"] = why.as_str().into(),
            Verdict::Reject(no) => line["reject"] = json!({"code": no.code, "message": no.message}),
        }
        line.to_string()
    }

    fn place(&self, change: &Change) -> (&'static str, String) {
        (cases::operation_word(change.operation), self.context.targets[change.target].table.to_string())
    }

    /// Columns and values, as golden cases write them: with their kinds.
    fn row<T>(&self, change: &Change, render: fn(&Value) -> T) -> Vec<(String, T)> {
        let columns = granted_columns(&self.context.targets[change.target], change.operation);
        columns.into_iter().map(str::to_owned).zip(change.values.iter().map(render)).collect()
    }

    fn ending(&self) {
        let Counts { read, apply, again, skip, reject, changes } = self.counts;
        let name = &self.consumer.name;
        let text = format!(
            "{name}: {read} read: {apply} would be applied with {changes} changes of rows, {again} came again, {skip} skipped, \
             {reject} dead letters. Nothing was written; what the ledger knows already was not asked"
        );
        if self.json { complain(&text) } else { answer(&text) }
    }
}

/// Records of several partitions as a lane has them: one run per partition. Answers as well where each stands that was
/// read, in the order of reading.
fn batch(seen: Vec<Seen>) -> (Batch, Vec<usize>) {
    let mut order: Vec<usize> = (0..seen.len()).collect();
    order.sort_by(|&a, &b| {
        let at = |place: usize| (&seen[place].topic, seen[place].partition);
        at(a).cmp(&at(b))
    });
    let mut places = vec![0; seen.len()];
    order.iter().enumerate().for_each(|(place, &read)| places[read] = place);
    let mut seen: Vec<Option<Seen>> = seen.into_iter().map(Some).collect();
    let mut batch = Batch::default();
    for one in order.into_iter().filter_map(|place| seen[place].take()) {
        let place = batch.records.len();
        let (offset, next) = (one.record.offset, one.record.offset + 1);
        batch.records.push(one.record);
        match batch.runs.last_mut() {
            Some(run) if run.partition.topic == one.topic && run.partition.partition == one.partition => {
                run.next_offset = next;
                run.records.end = place + 1;
            }
            _ => batch.runs.push(Run {
                partition: std::sync::Arc::new(TopicPartition {
                    cluster_id: "".into(),
                    topic_id: uuid::Uuid::nil(),
                    topic: one.topic,
                    partition: one.partition,
                }),
                generation: 0,
                first_offset: offset,
                next_offset: next,
                records: place..place + 1,
            }),
        }
    }
    (batch, places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    #[test]
    fn records_are_told_in_the_order_of_reading() {
        let seen = [("b", 0, 5), ("a", 1, 7), ("b", 0, 6), ("a", 0, 1)].map(|(topic, partition, offset)| Seen {
            topic: topic.into(),
            partition,
            record: Record { offset, timestamp_ms: None, key: None, payload: None, headers: vec![] },
        });
        let (batch, places) = batch(seen.into());
        let told: Vec<_> = places.iter().map(|&place| batch.position_of(place)).collect();
        assert_eq!(told, ["b:0:5", "a:1:7", "b:0:6", "a:0:1"]);
        assert_eq!(batch.runs.len(), 3);
    }
}
