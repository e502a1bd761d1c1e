//! A batch made ready for its transaction, away from the async runtime: values checked, parts dealt out, checkpoint
//! ids made. The same on every retry.

use std::ops::Range;

use bytes::Bytes;
use uuid::Uuid;

use super::{KeySample, applied::CommitAttempt, plan::Plan};
use crate::{
    identity::{Identity, MessageId},
    merge::{Target, TypedChange, type_change},
    outcome::{Evaluated, Outcome, Rejection, Verdict},
    record::{Batch, Header, Run},
};

/// What a record wants, once its values met their columns.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Intent {
    /// These of [`Prepared::changes`].
    Apply(Range<usize>),
    /// Not for this consumer.
    Skip,
    /// To the dead letters.
    Reject {
        /// Why.
        rejection: Rejection,
        /// Whether the breaker counts it as poison: a value did not fit its column (said in the database's stead), or
        /// the record broke the plugin. Not so where the plugin looked at the input and said no.
        poison: bool,
    },
}

/// A record, less its bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) identity: Option<Identity>,
    pub(super) intent: Intent,
}

impl Item {
    pub(super) fn message_id(&self) -> Option<&MessageId> {
        self.identity.as_ref().map(|identity| &identity.message_id)
    }

    /// Whether the event carries a time, and one before this. An event without one is judged by the ledger alone.
    pub(super) fn is_older_than(&self, us: i64) -> bool {
        self.identity.as_ref().and_then(|identity| identity.occurred_at_us).is_some_and(|at| at < us)
    }
}

/// Under what a batch was evaluated.
#[derive(Clone, Copy, Debug)]
pub struct PrepareContext<'a> {
    /// The consumer's targets, as [`crate::outcome::Change::target`] counts them.
    pub targets: &'a [Target],
    /// The plugin's key version. Invariant 10: the batch commits under this one or not at all.
    pub key_version: i32,
    /// SHA-256 of the plugin.
    pub plugin_digest: [u8; 32],
}

/// A batch made ready. Apply it as often as it takes; it carries its checkpoint ids and what is known of earlier
/// attempts to commit it.
#[derive(Debug)]
pub struct Prepared {
    pub(super) batch: Batch,
    pub(super) items: Vec<Item>,
    /// Of all records, in record order.
    pub(super) changes: Vec<TypedChange>,
    /// One per run.
    pub(super) checkpoint_ids: Vec<Uuid>,
    pub(super) key_version: i32,
    pub(super) plugin_digest: [u8; 32],
    /// The plan of a ledger that forgot nothing.
    plan: Plan,
    /// The oldest event, where any carries a time.
    oldest_us: Option<i64>,
    /// Commits whose outcome is unknown.
    pub(super) attempts: Vec<CommitAttempt>,
}

impl Prepared {
    /// Checks every value against its column; what does not fit is a rejection of its record. CPU work: off the async
    /// runtime. `evaluated` has one entry per record.
    ///
    /// # Panics
    /// Where the lengths differ.
    #[must_use]
    pub fn new(batch: Batch, evaluated: Vec<Evaluated>, context: PrepareContext<'_>) -> Self {
        assert_eq!(batch.records.len(), evaluated.len(), "one verdict per record");
        let mut items = Vec::with_capacity(evaluated.len());
        let mut changes = Vec::with_capacity(evaluated.len());
        for (record, Evaluated { identity, verdict }) in evaluated.into_iter().enumerate() {
            let intent = match verdict {
                // R1.1: no id, no processing.
                Verdict::Apply(_) if identity.is_none() => {
                    let rejection = Rejection::new("no-message-id", "the input has no message id");
                    Intent::Reject { rejection, poison: false }
                }
                Verdict::Apply(asked) => {
                    let start = changes.len();
                    let typed: Result<Vec<_>, _> = asked
                        .into_iter()
                        .map(|change| type_change(&context.targets[change.target], change.target, record, change))
                        .collect();
                    match typed {
                        Ok(typed) => {
                            changes.extend(typed);
                            Intent::Apply(start..changes.len())
                        }
                        Err(rejection) => Intent::Reject { rejection, poison: true },
                    }
                }
                Verdict::Skip(_) => Intent::Skip,
                Verdict::Reject(rejection) => Intent::Reject { poison: rejection.is_by_host(), rejection },
            };
            items.push(Item { identity, intent });
        }
        Self::from_items(batch, items, changes, context.key_version, context.plugin_digest)
    }

    fn from_items(
        batch: Batch,
        items: Vec<Item>,
        changes: Vec<TypedChange>,
        key_version: i32,
        plugin_digest: [u8; 32],
    ) -> Self {
        let plan = Plan::new(&items, i64::MIN);
        let oldest_us = items.iter().filter_map(|i| i.identity.as_ref()?.occurred_at_us).min();
        let checkpoint_ids = batch.runs.iter().map(|_| Uuid::now_v7()).collect();
        Self {
            batch,
            items,
            changes,
            checkpoint_ids,
            key_version,
            plugin_digest,
            plan,
            oldest_us,
            attempts: Vec::new(),
        }
    }

    /// The batch.
    #[must_use]
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Up to `most` applied records, spread over the batch, with their identities; `outcomes` has one per record. Copies,
    /// which keep no batch alive; together they have no more than `bytes`.
    pub fn key_samples(
        &self,
        outcomes: &[Outcome],
        most: usize,
        mut bytes: usize,
        source_of: impl Fn(&str) -> std::sync::Arc<str>,
    ) -> Vec<KeySample> {
        let copy = |bytes: &Option<Bytes>| bytes.as_deref().map(Bytes::copy_from_slice);
        let fits = |&record: &usize| outcomes[record] == Outcome::Applied && self.batch.records[record].size() <= bytes;
        let applied: Vec<usize> = (0..self.items.len().min(outcomes.len())).filter(fits).collect();
        let step = applied.len().div_ceil(most.max(1)).max(1);
        let mut samples = Vec::with_capacity(most);
        for &record in applied.iter().step_by(step) {
            let (Some(identity), raw) = (&self.items[record].identity, &self.batch.records[record]) else { continue };
            let Some(rest) = bytes.checked_sub(raw.size()) else { continue };
            bytes = rest;
            let headers = raw.headers.iter().map(|h| Header { name: h.name.clone(), value: copy(&h.value) });
            samples.push(KeySample {
                source: source_of(&self.batch.run_of(record).partition.topic).as_ref().to_owned(),
                key: copy(&raw.key),
                payload: copy(&raw.payload),
                headers: headers.collect(),
                message_id: identity.message_id.clone(),
                aggregate_id: identity.aggregate_id.clone(),
            });
        }
        samples
    }

    /// The plan under a horizon: see [`Plan::new`].
    pub(super) fn plan(&self, old_before_us: i64) -> std::borrow::Cow<'_, Plan> {
        if self.oldest_us.is_some_and(|oldest| oldest < old_before_us) {
            std::borrow::Cow::Owned(Plan::new(&self.items, old_before_us))
        } else {
            std::borrow::Cow::Borrowed(&self.plan)
        }
    }

    /// The runs that the records before `limit` cover, each with its index; the last may be cut short.
    pub(super) fn runs_before(&self, limit: usize) -> impl Iterator<Item = (usize, Run)> {
        self.batch.runs.iter().enumerate().filter_map(move |(index, run)| match covered(run, limit) {
            Covered::Whole => Some((index, run.clone())),
            Covered::Head => {
                let next_offset = self.batch.records[limit].offset;
                Some((index, Run { next_offset, records: run.records.start..limit, ..run.clone() }))
            }
            Covered::Nothing => None,
        })
    }

    /// The second half as a batch of its own, where a smaller batch may pass (see
    /// [`super::StoreError::caused_by_size`]). `None` where there is nothing to halve, or where an earlier attempt may
    /// have committed the whole.
    pub fn split_half(&mut self) -> Option<Self> {
        let middle = self.items.len() / 2;
        (middle > 0 && self.attempts.is_empty()).then(|| self.split_off(middle))
    }

    /// Takes the records from `at` on away into a batch of their own, with checkpoint ids of its own. Order is kept:
    /// the tail is to be applied next.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let records = self.batch.records.split_off(at);
        let mut items = self.items.split_off(at);
        let first_change = self.changes.partition_point(|change| change.record < at);
        let mut changes = self.changes.split_off(first_change);
        for change in &mut changes {
            change.record -= at;
        }
        for item in &mut items {
            if let Intent::Apply(range) = &mut item.intent {
                *range = range.start - first_change..range.end - first_change;
            }
        }
        let mut head = Vec::new();
        let mut tail = Vec::new();
        for mut run in self.batch.runs.drain(..) {
            match covered(&run, at) {
                Covered::Whole => {
                    head.push(run);
                    continue;
                }
                Covered::Head => {
                    let border = records[0].offset;
                    head.push(Run { next_offset: border, records: run.records.start..at, ..run.clone() });
                    run.first_offset = border;
                    run.records = 0..run.records.end - at;
                }
                Covered::Nothing => run.records = run.records.start - at..run.records.end - at,
            }
            tail.push(run);
        }
        self.checkpoint_ids.truncate(head.len());
        self.batch.runs = head;
        self.plan = Plan::new(&self.items, i64::MIN);
        self.attempts.clear();
        Self::from_items(Batch { runs: tail, records }, items, changes, self.key_version, self.plugin_digest)
    }
}

/// How much of a run lies before a record.
enum Covered {
    Whole,
    Head,
    Nothing,
}

fn covered(run: &Run, limit: usize) -> Covered {
    if run.records.end <= limit {
        Covered::Whole
    } else if run.records.start < limit {
        Covered::Head
    } else {
        Covered::Nothing
    }
}

#[cfg(test)]
pub(super) mod testing {
    //! Items without a batch around them.
    use super::*;
    use crate::identity::{AggregateId, Fingerprint};

    pub(in super::super) fn item(id: Option<&str>, at: Option<i64>, intent: Intent) -> Item {
        let identity = id.map(|id| Identity {
            message_id: MessageId::new(id).expect("an id"),
            aggregate_id: AggregateId::new("aggregate").expect("an id"),
            occurred_at_us: at,
            fingerprint: Fingerprint::of(Some(b"payload")),
        });
        Item { identity, intent }
    }

    pub(in super::super) fn apply(id: &str) -> Item {
        item(Some(id), None, Intent::Apply(0..0))
    }

    pub(in super::super) fn apply_at(id: &str, at: i64) -> Item {
        item(Some(id), Some(at), Intent::Apply(0..0))
    }

    pub(in super::super) fn skip(id: &str) -> Item {
        item(Some(id), None, Intent::Skip)
    }

    pub(in super::super) fn reject(id: &str) -> Item {
        let rejection = Rejection::new("broken", "broken");
        item(Some(id), None, Intent::Reject { rejection, poison: false })
    }

    pub(in super::super) fn nameless() -> Item {
        let rejection = Rejection::new("no-message-id", "no id");
        item(None, None, Intent::Reject { rejection, poison: false })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::record::{Record, TopicPartition};

    fn batch(runs: &[(i32, i64, i64, &[i64])]) -> Batch {
        let mut batch = Batch::default();
        for &(partition, first_offset, next_offset, offsets) in runs {
            let start = batch.records.len();
            batch.records.extend(offsets.iter().map(|&offset| Record {
                offset,
                timestamp_ms: None,
                key: None,
                payload: None,
                headers: Vec::new(),
            }));
            let partition = Arc::new(TopicPartition {
                cluster_id: "c".into(),
                topic_id: Uuid::nil(),
                topic: "t".into(),
                partition,
            });
            let records = start..batch.records.len();
            batch.runs.push(Run { partition, generation: 1, first_offset, next_offset, records });
        }
        batch
    }

    fn prepared(batch: Batch) -> Prepared {
        let evaluated =
            batch.records.iter().map(|_| Evaluated { identity: None, verdict: Verdict::Skip(String::new()) }).collect();
        Prepared::new(batch, evaluated, PrepareContext { targets: &[], key_version: 1, plugin_digest: [0; 32] })
    }

    fn shape(batch: &Batch) -> Vec<(i32, i64, i64, Range<usize>)> {
        let run = |r: &Run| (r.partition.partition, r.first_offset, r.next_offset, r.records.clone());
        batch.runs.iter().map(run).collect()
    }

    #[test]
    fn a_split_run_tiles_and_keeps_its_gaps() {
        let mut head = prepared(batch(&[(0, 5, 9, &[5, 7]), (1, 0, 12, &[1, 4, 9]), (2, 3, 4, &[]), (3, 0, 1, &[0])]));
        let ids = head.checkpoint_ids.clone();
        let tail = head.split_off(3);
        assert_eq!(shape(&head.batch), [(0, 5, 9, 0..2), (1, 0, 4, 2..3)]);
        assert_eq!(shape(&tail.batch), [(1, 4, 12, 0..2), (2, 3, 4, 2..2), (3, 0, 1, 2..3)]);
        assert_eq!(head.checkpoint_ids, ids[..2], "the head keeps its ids");
        assert!(tail.checkpoint_ids.iter().all(|id| !ids.contains(id)), "the tail has its own");
        assert_eq!((head.items.len(), tail.items.len()), (3, 3));
    }

    #[test]
    fn what_broke_the_plugin_is_poison_what_the_plugin_turned_down_is_not() {
        let rejected = |code: &str| {
            let evaluated = Evaluated { identity: None, verdict: Verdict::Reject(Rejection::new(code, "why")) };
            let context = PrepareContext { targets: &[], key_version: 1, plugin_digest: [0; 32] };
            Prepared::new(batch(&[(0, 0, 1, &[0])]), vec![evaluated], context).items[0].intent.clone()
        };
        assert!(matches!(rejected("plugin-trap"), Intent::Reject { poison: true, .. }));
        assert!(matches!(rejected("bad-json"), Intent::Reject { poison: false, .. }));
    }

    #[test]
    fn samples_are_applied_records_spread_over_the_batch() {
        let mut batch = batch(&[(0, 0, 8, &[0, 1, 2, 3, 4, 5, 6, 7])]);
        for record in &mut batch.records {
            record.payload = Some(Bytes::from(vec![b'x'; 10]));
        }
        let identified = |record: &Record| testing::apply(&record.offset.to_string()).identity;
        let evaluated = batch
            .records
            .iter()
            .map(|record| Evaluated { identity: identified(record), verdict: Verdict::Apply(Vec::new()) });
        let evaluated = evaluated.collect();
        let prepared =
            Prepared::new(batch, evaluated, PrepareContext { targets: &[], key_version: 1, plugin_digest: [0; 32] });
        let mut outcomes = [Outcome::Applied; 8];
        outcomes[0] = Outcome::Duplicate;
        let ids = |most, bytes| {
            let samples = prepared.key_samples(&outcomes, most, bytes, |topic| topic.into());
            samples.into_iter().map(|sample| sample.message_id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ids(3, 1_000), ["1", "4", "7"]);
        assert_eq!(ids(100, 1_000).len(), 7);
        assert_eq!(ids(100, 25).len(), 2, "no more than so many bytes");
        assert_eq!(prepared.key_samples(&outcomes[..1], 9, 1_000, |topic| topic.into()), []);
    }

    #[test]
    fn a_split_between_runs_leaves_both_whole() {
        let mut head = prepared(batch(&[(0, 5, 9, &[5, 7]), (1, 0, 12, &[1, 4])]));
        let tail = head.split_off(2);
        assert_eq!(shape(&head.batch), [(0, 5, 9, 0..2)]);
        assert_eq!(shape(&tail.batch), [(1, 0, 12, 0..2)]);
    }
}
