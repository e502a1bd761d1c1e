#![allow(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::sync::Arc;

use proptest::prelude::*;

use super::{
    sample::{batch, codes, texts},
    *,
};
use crate::{
    config::PluginLimits,
    merge::Operation,
    plugin::{Body, Instance, KeyResult, RawIdentity, RawInstant, Shape, native::Native},
};

fn context() -> EvaluateContext {
    let limits = PluginLimits { changes_per_event: 3, ..PluginLimits::default() };
    EvaluateContext { limits, ..sample::context(&["id", "n"]) }
}

fn text(message: &Message) -> String {
    match &message.body {
        Body::Text(bytes) | Body::Binary(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Body::Absent => String::new(),
    }
}

/// The payload is the message id. "skip" and "reject…" do what they say; "many" gives four changes; "shape" names a
/// shape that is not there; "values" gives one value too few; "keys!" and "compute!" trap.
fn plugin() -> Native {
    Native::new("double")
        .shapes(vec![Shape {
            operation: Operation::Upsert,
            target: "t".into(),
            columns: vec!["n".into(), "id".into()],
        }])
        .keys(|message| match text(message).as_str() {
            "skip" => KeyResult::Skip("not mine".into()),
            "reject" => KeyResult::Reject("bad-json".into(), "at 1:1".into()),
            id => KeyResult::Identity(RawIdentity {
                message_id: id.to_owned(),
                aggregate_id: "a".into(),
                occurred_at: id.strip_prefix("at ").map(|time| RawInstant::Rfc3339(time.to_owned())),
                fingerprint: None,
            }),
        })
        .compute(|message, accepted| {
            let id = text(message);
            let row = vec![Value::Integer(accepted.seed.into()), Value::Text(id.clone())];
            match id.as_str() {
                "reject late" => ComputeResult::Reject("no-amount".into(), "amount is missing".into()),
                "many" => ComputeResult::Changes(vec![(0, row); 4]),
                "shape" => ComputeResult::Changes(vec![(1, row)]),
                "values" => ComputeResult::Changes(vec![(0, row[1..].to_vec())]),
                _ => ComputeResult::Changes(vec![(0, row)]),
            }
        })
        .traps(|entry, message| match text(message).as_str() {
            "keys!" => entry == Entry::ExtractKeys,
            "compute!" => entry == Entry::Compute,
            _ => false,
        })
}

#[test]
fn each_record_gets_its_own_verdict() {
    let mut batch = texts(["one", "skip", "reject", "reject late", "", "\0", "at noon", "two"]);
    batch.records[7].payload = None;
    let evaluated = evaluate(&plugin(), &batch, &context()).unwrap();
    assert_eq!(
        codes(&evaluated),
        [
            "apply 1",
            "skip not mine",
            "bad-json",
            "no-amount",
            "bad-message-id",
            "bad-message-id",
            "bad-occurred-at",
            "skip tombstone"
        ]
    );
    // What compute rejects has an identity: duplicate comes before dead.
    assert!(evaluated[3].identity.is_some());
    let Verdict::Apply(changes) = &evaluated[0].verdict else { unreachable!("checked above") };
    assert_eq!(changes[0].values[0], Value::Text("one".into()), "in the grant's order");
}

#[test]
fn a_payload_that_is_no_text_is_rejected_before_the_plugin() {
    let batch = batch(vec![Some(vec![b'a', 0xff]), Some(b"fine".to_vec())]);
    let evaluated = evaluate(&plugin(), &batch, &context()).unwrap();
    assert_eq!(codes(&evaluated), ["payload-not-utf8", "apply 1"]);
}

#[test]
fn a_record_that_breaks_plugin_or_contract_stands_alone() {
    let batch = texts(["one", "keys!", "two", "compute!", "many", "three", "shape", "values", "four"]);
    let evaluated = evaluate(&plugin(), &batch, &context()).unwrap();
    assert_eq!(
        codes(&evaluated),
        [
            "apply 1",
            "plugin-trap",
            "apply 1",
            "plugin-trap",
            "plugin-changes",
            "apply 1",
            "plugin-contract",
            "plugin-contract",
            "apply 1"
        ]
    );
}

/// A redelivered event that was applied once is a duplicate, though the plugin breaks on it now; and the correction of a
/// dead one has to find it.
#[test]
fn who_a_broken_record_is_stays_known() {
    let evaluated = evaluate(&plugin(), &texts(["one", "keys!", "compute!", "many"]), &context()).unwrap();
    let ids: Vec<_> = evaluated.iter().map(|one| one.identity.as_ref().map(|id| id.message_id.as_str())).collect();
    assert_eq!(ids, [Some("one"), None, Some("compute!"), Some("many")]);
}

#[test]
fn a_time_of_the_event_that_is_finer_than_a_microsecond_costs_no_event() {
    let evaluated = evaluate(&plugin(), &texts(["at 1970-01-01T00:00:01.123456789Z"]), &context()).unwrap();
    assert_eq!(evaluated[0].identity.as_ref().unwrap().occurred_at_us, Some(1_123_456));
}

#[test]
fn a_plugin_that_breaks_on_too_much_is_broken_itself() {
    let batch = texts(["keys!", "one", "keys!", "keys!"]);
    let context = EvaluateContext { max_broken: 2, ..context() };
    let error = evaluate(&plugin(), &batch, &context).unwrap_err();
    assert_eq!((error.class(), error.code()), (Class::Fatal, "plugin-broken"));
}

#[test]
fn what_is_not_granted_stops_the_consumer() {
    let context = EvaluateContext { targets: Arc::from([]), ..context() };
    let error = evaluate(&plugin(), &texts(["one"]), &context).unwrap_err();
    assert_eq!((error.class(), error.code()), (Class::Fatal, "plugin-not-granted"));
}

#[test]
fn wrong_counts_are_the_batchs_fault_and_found_alone() {
    struct Short(Native);
    struct ShortInstance(Box<dyn Instance>);
    impl Plugin for Short {
        fn digest(&self) -> [u8; 32] {
            self.0.digest()
        }
        fn description(&self) -> &crate::plugin::Description {
            self.0.description()
        }
        fn instance(&self, events: usize) -> Result<Box<dyn Instance>, PluginError> {
            Ok(Box::new(ShortInstance(self.0.instance(events)?)))
        }
    }
    impl Instance for ShortInstance {
        fn extract_keys(&mut self, batch: &[Message]) -> Result<Vec<KeyResult>, PluginError> {
            let mut keys = self.0.extract_keys(batch)?;
            if batch.iter().any(|message| text(message) == "short") {
                keys.pop();
            }
            Ok(keys)
        }
        fn compute(&mut self, accepted: &[Accepted]) -> Result<Computed, PluginError> {
            self.0.compute(accepted)
        }
    }
    let evaluated = evaluate(&Short(plugin()), &texts(["one", "short", "two"]), &context()).unwrap();
    assert_eq!(codes(&evaluated), ["apply 1", "plugin-contract", "apply 1"]);
}

#[test]
fn no_record_at_all() {
    assert_eq!(evaluate(&plugin(), &Batch::default(), &context()).unwrap(), []);
}

fn payload() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![
        4 => "[a-z]{1,6}".prop_map(|text| Some(text.into_bytes())),
        2 => prop::sample::select(vec!["keys!", "compute!", "many", "shape", "values", "skip", "reject", "reject late"])
            .prop_map(|text| Some(text.as_bytes().to_vec())),
        1 => Just(None),
        1 => Just(Some(vec![0xff])),
    ]
}

proptest! {
    /// Invariant 6: whatever traps, a batch comes out as its records do one by one; so no record changes another's
    /// verdict, and exactly those that trap alone are rejected for it.
    #[test]
    fn a_batch_is_its_records_one_by_one(payloads in prop::collection::vec(payload(), 0..40)) {
        let whole = batch(payloads.clone());
        let together = evaluate(&plugin(), &whole, &context()).unwrap();
        let traps = |payload: &Option<Vec<u8>>| matches!(payload.as_deref(), Some(b"keys!" | b"compute!"));
        let trapped: Vec<bool> = codes(&together).iter().map(|code| code == "plugin-trap").collect();
        prop_assert_eq!(trapped, payloads.iter().map(traps).collect::<Vec<_>>());
        for (place, payload) in payloads.into_iter().enumerate() {
            let mut one = batch(vec![payload]);
            one.records[0].timestamp_ms = whole.records[place].timestamp_ms;
            let alone = evaluate(&plugin(), &one, &context()).unwrap();
            prop_assert_eq!(&alone[0], &together[place]);
        }
    }
}
