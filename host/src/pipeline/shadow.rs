//! A shadow: a candidate for the rules that sees live traffic, and whose word counts for nothing. What it would have said
//! is held against what was said: keys, verdicts, changes.
//!
//! It looks at one batch at a time, at a part of it, beside the path: while it is busy the others pass it by, which is
//! counted.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::Serialize;

use crate::{
    config,
    metrics::{ConsumerMetrics, ShadowResult},
    outcome::{Change, Evaluated, Verdict},
    plugin::{ComputePool, EvaluateContext, Plugin, evaluate},
    record::{Batch, Run},
    value::Value,
};

/// Records of one batch that it is shown.
const SHOWN: usize = 200;
/// Differences that are remembered, newest last.
const KEPT: usize = 20;
/// Characters of a difference's sides.
const LONGEST: usize = 300;

/// A candidate at work.
pub struct Shadow {
    plugin: Arc<dyn Plugin>,
    context: EvaluateContext,
    settings: Arc<config::Consumer>,
    pool: ComputePool,
    busy: AtomicBool,
    found: Mutex<ShadowReport>,
    metrics: ConsumerMetrics,
}

/// What a shadow has found so far, for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ShadowReport {
    /// The candidate's digest.
    pub sha256: String,
    /// Records on which both said the same.
    pub same: u64,
    /// Records with another key.
    pub key: u64,
    /// Records that one applies and the other skips or rejects.
    pub verdict: u64,
    /// Records that change rows otherwise.
    pub changes: u64,
    /// Records that it had no time to look at.
    pub passed_by: u64,
    /// Records of batches that it failed on as a whole.
    pub failed: u64,
    /// Why it failed the last time.
    pub last_failure: Option<String>,
    /// The last differences.
    pub differences: VecDeque<Difference>,
}

/// A record on which the two do not agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// key, verdict, changes.
    pub kind: &'static str,
    /// By the rules in force; `None` = they know none.
    pub message_id: Option<String>,
    /// What the rules in force say.
    pub is: String,
    /// What the candidate would say.
    pub would_be: String,
}

/// A part of a batch that its shadow is shown, with what was said of it. Until it is gone, nothing else is shown.
pub(super) struct Look {
    shadow: Arc<Shadow>,
    batch: Batch,
    said: Vec<Evaluated>,
}

impl Drop for Look {
    fn drop(&mut self) {
        self.shadow.busy.store(false, Ordering::Release);
    }
}

impl Look {
    /// Has the shadow look, on a thread of its own.
    pub(super) async fn look_on(self) {
        let shadow = Arc::clone(&self.shadow);
        // Dropping the answer lets it run to its end; a panic of the host's own is told as such.
        drop(shadow.pool.submit(move || self.shadow.look(&self)).await);
    }
}

impl Shadow {
    /// Nothing found yet. `settings` are the consumer's, with the candidate as its plugin.
    ///
    /// # Errors
    /// Where the system gives no thread: it has one of its own, so that a candidate that burns all it may holds up no
    /// lane.
    pub fn new(plugin: Arc<dyn Plugin>, settings: Arc<config::Consumer>, metrics: ConsumerMetrics) -> io::Result<Self> {
        let sha256 = hex::encode(plugin.digest());
        let found = Mutex::new(ShadowReport { sha256, ..ShadowReport::default() });
        let (context, pool) = (EvaluateContext::of(&settings), ComputePool::new(1, 1)?);
        Ok(Self { plugin, context, settings, pool, busy: AtomicBool::new(false), found, metrics })
    }

    /// Whether a candidate of this digest, under these settings, would be the same.
    #[must_use]
    pub fn is_made_of(&self, digest: &[u8; 32], settings: &config::Consumer) -> bool {
        self.digest() == *digest && self.settings.rules_alike(settings)
    }

    /// SHA-256 of the candidate.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.plugin.digest()
    }

    /// What it has found.
    #[must_use]
    pub fn report(&self) -> ShadowReport {
        self.found().clone()
    }

    fn found(&self) -> MutexGuard<'_, ShadowReport> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A part of this batch, if there is time for it.
    pub(super) fn begin(self: &Arc<Self>, batch: &Batch, said: &[Evaluated]) -> Option<Look> {
        if self.busy.swap(true, Ordering::Acquire) {
            self.count(ShadowResult::PassedBy, said.len());
            return None;
        }
        let step = said.len().div_ceil(SHOWN).max(1);
        let mut look = Look { shadow: Arc::clone(self), batch: Batch::default(), said: Vec::new() };
        for run in &batch.runs {
            let from = look.batch.records.len();
            for at in run.records.clone().filter(|at| at.is_multiple_of(step)) {
                look.batch.records.push(batch.records[at].clone());
                look.said.push(said[at].clone());
            }
            look.batch.runs.push(Run { records: from..look.batch.records.len(), ..run.clone() });
        }
        self.count(ShadowResult::PassedBy, said.len() - look.said.len());
        Some(look)
    }

    /// Holds the candidate's word against what was said. CPU work.
    fn look(&self, look: &Look) {
        match evaluate(self.plugin.as_ref(), &look.batch, &self.context) {
            Ok(candidate) => {
                for (said, would_say) in look.said.iter().zip(&candidate) {
                    self.compare(said, would_say);
                }
            }
            Err(error) => {
                self.count(ShadowResult::Failed, look.said.len());
                self.found().last_failure = Some(error.to_string());
            }
        }
    }

    fn compare(&self, said: &Evaluated, would_say: &Evaluated) {
        let Some((result, is, would_be)) = difference(said, would_say) else {
            return self.count(ShadowResult::Same, 1);
        };
        self.count(result, 1);
        let message_id = said.identity.as_ref().map(|identity| identity.message_id.to_string());
        let cut = |text: String| text.chars().take(LONGEST).collect();
        let mut found = self.found();
        if found.differences.len() == KEPT {
            found.differences.pop_front();
        }
        let kind = result.label();
        found.differences.push_back(Difference { kind, message_id, is: cut(is), would_be: cut(would_be) });
    }

    fn count(&self, result: ShadowResult, records: usize) {
        let records = u64::try_from(records).unwrap_or(u64::MAX);
        if records == 0 {
            return;
        }
        self.metrics.shadowed(result, records);
        let mut found = self.found();
        let field = match result {
            ShadowResult::Same => &mut found.same,
            ShadowResult::Key => &mut found.key,
            ShadowResult::Verdict => &mut found.verdict,
            ShadowResult::Changes => &mut found.changes,
            ShadowResult::PassedBy => &mut found.passed_by,
            ShadowResult::Failed => &mut found.failed,
        };
        *field += records;
    }
}

/// How two words on a record differ, and both of them for a person. Pure.
fn difference(said: &Evaluated, would_say: &Evaluated) -> Option<(ShadowResult, String, String)> {
    let key = |one: &Evaluated| {
        let identity = one.identity.as_ref();
        identity.map(|identity| (identity.message_id.to_string(), identity.aggregate_id.to_string()))
    };
    let shown = |key: Option<(String, String)>| {
        key.map_or_else(
            || "no key".to_owned(),
            |(message, aggregate)| format!("message id {message}, aggregate id {aggregate}"),
        )
    };
    let (is, would_be) = (key(said), key(would_say));
    if is != would_be {
        return Some((ShadowResult::Key, shown(is), shown(would_be)));
    }
    let word = |verdict: &Verdict| match verdict {
        Verdict::Apply(changes) => format!("applies {} changes", changes.len()),
        Verdict::Skip(why) => format!("skips: {why}"),
        Verdict::Reject(rejection) => format!("rejects: {}: {}", rejection.code, rejection.message),
    };
    match (&said.verdict, &would_say.verdict) {
        (Verdict::Apply(a), Verdict::Apply(b)) => {
            let same = a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_change(a, b));
            (!same).then(|| (ShadowResult::Changes, format!("{a:?}"), format!("{b:?}")))
        }
        // Reasons are words.
        (Verdict::Skip(_), Verdict::Skip(_)) => None,
        (Verdict::Reject(a), Verdict::Reject(b)) if a.code == b.code => None,
        (a, b) => Some((ShadowResult::Verdict, word(a), word(b))),
    }
}

/// Equal, with NaN equal to itself.
fn same_change(a: &Change, b: &Change) -> bool {
    let value = |(a, b): (&Value, &Value)| match (a, b) {
        (Value::Real(a), Value::Real(b)) => a.to_bits() == b.to_bits(),
        _ => a == b,
    };
    (a.target, a.operation) == (b.target, b.operation)
        && a.values.len() == b.values.len()
        && a.values.iter().zip(&b.values).all(value)
}

/// Where a consumer's shadow is, if it has one.
#[derive(Default)]
pub struct ShadowSlot(RwLock<Option<Arc<Shadow>>>);

impl std::fmt::Debug for ShadowSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ShadowSlot").field(&self.get().map(|shadow| shadow.report().sha256)).finish()
    }
}

impl ShadowSlot {
    /// The shadow.
    #[must_use]
    pub fn get(&self) -> Option<Arc<Shadow>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another one, or none.
    pub fn set(&self, shadow: Option<Arc<Shadow>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = shadow;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use super::*;
    use crate::{
        identity::{AggregateId, Fingerprint, Identity, MessageId},
        merge::Operation,
        outcome::Rejection,
    };

    fn said(id: &str, verdict: Verdict) -> Evaluated {
        let identity = Identity {
            message_id: MessageId::new(id).unwrap(),
            aggregate_id: AggregateId::new("a").unwrap(),
            occurred_at_us: None,
            fingerprint: Fingerprint::of(None),
        };
        Evaluated { identity: Some(identity), verdict }
    }

    fn row(value: Value) -> Verdict {
        Verdict::Apply(vec![Change { target: 0, operation: Operation::Upsert, values: vec![value] }])
    }

    #[test]
    fn keys_verdicts_and_changes_are_told_apart() {
        let kind = |a: &Evaluated, b: &Evaluated| difference(a, b).map(|(result, ..)| result);
        let one = said("m", row(Value::Real(f64::NAN)));
        assert_eq!(kind(&one, &one), None);
        assert_eq!(kind(&one, &said("n", row(Value::Real(f64::NAN)))), Some(ShadowResult::Key));
        assert_eq!(kind(&one, &said("m", row(Value::Integer(1)))), Some(ShadowResult::Changes));
        assert_eq!(kind(&one, &said("m", Verdict::Skip("x".into()))), Some(ShadowResult::Verdict));
        let skips = |why: &str| said("m", Verdict::Skip(why.into()));
        assert_eq!(kind(&skips("x"), &skips("y")), None);
        let rejects = |code: &str| said("m", Verdict::Reject(Rejection::new(code, "why")));
        assert_eq!(kind(&rejects("x"), &rejects("y")), Some(ShadowResult::Verdict));
        let nobody = Evaluated { identity: None, verdict: Verdict::Skip("x".into()) };
        assert_eq!(kind(&nobody, &one), Some(ShadowResult::Key));
    }
}
