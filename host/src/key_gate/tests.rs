#![allow(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::*;
use crate::{
    identity::{AggregateId, Identity, MessageId},
    plugin::{
        Body, Entry, EvaluateContext, KeyResult, Message, RawIdentity, evaluate_sample, identities,
        metamorphic::Relation, native::Native,
    },
    store::{ConsumerRow, KeySample},
};

fn text(message: &Message) -> String {
    match &message.body {
        Body::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
        _ => String::new(),
    }
}

fn identity(message_id: impl Into<String>, aggregate_id: impl Into<String>) -> KeyResult {
    let (message_id, aggregate_id) = (message_id.into(), aggregate_id.into());
    KeyResult::Identity(RawIdentity { message_id, aggregate_id, occurred_at: None, fingerprint: None })
}

/// Ids are the text, aggregates its first letter.
fn plugin() -> Native {
    Native::new("p").keys(|message| identity(text(message), &text(message)[..1]))
}

fn sample(text: &str) -> KeySample {
    KeySample {
        source: "orders".to_owned(),
        key: None,
        payload: Some(Bytes::from(text.to_owned())),
        headers: vec![],
        message_id: MessageId::new(text).unwrap(),
        aggregate_id: AggregateId::new(&text[..1]).unwrap(),
    }
}

fn samples() -> Vec<KeySample> {
    ["a1", "a2", "b1", "b2", "c1"].map(sample).to_vec()
}

fn context() -> EvaluateContext {
    evaluate_sample::context(&["id"])
}

fn state(declared: i32, replaced: Vec<Vec<u8>>) -> KeyState {
    let row = ConsumerRow {
        name: ConsumerName::new("c").unwrap(),
        group: "c".to_owned(),
        key_version: 4,
        plugin_digest: vec![1; 32],
        horizon_us: i64::MIN,
        lock_no: 1,
        started_from: serde_json::json!({}),
        created_at_us: 0,
    };
    KeyState { row, declared, samples: samples(), replaced }
}

fn judged(plugin: &Native, state: &KeyState) -> Result<(), KeyFault> {
    judge(plugin, state, &compared(plugin, &state.samples))
}

fn keys(plugin: &Native, samples: &[KeySample]) -> Vec<Option<Identity>> {
    identities(plugin, &inputs(samples), &context()).unwrap()
}

fn compared(plugin: &Native, samples: &[KeySample]) -> Comparison {
    compare(samples, keys(plugin, samples))
}

fn held(plugin: &Native, samples: &[KeySample]) -> Result<(), Moved> {
    hold(plugin, &inputs(samples), &keys(plugin, samples), &context()).unwrap()
}

#[test]
fn the_same_keys_pass_whatever_the_plugin_is_called() {
    assert_eq!(judged(&plugin(), &state(0, vec![])), Ok(()));
    let rebuilt = Native::new("rebuilt").keys(|message| identity(text(message), &text(message)[..1]));
    assert_eq!(judged(&rebuilt, &state(0, vec![plugin().digest().to_vec()])), Ok(()));
    assert_eq!(judged(&plugin(), &state(0, vec![plugin().digest().to_vec()])), Err(KeyFault::Replaced));
    assert_eq!(judged(&plugin(), &state(2, vec![])), Err(KeyFault::Declared { says: 0, expected: 2 }));
    assert_eq!(judged(&plugin().key_version(2), &state(2, vec![])), Ok(()));
    assert_eq!(judged(&plugin(), &KeyState { samples: vec![], ..state(0, vec![]) }), Ok(()), "nothing to compare");
}

#[test]
fn another_message_id_or_aggregate_id_is_found_and_shown_by_its_ids() {
    let other = |message: &Message| {
        let text = text(message);
        if text == "b2" { identity("b2/new", "b") } else { identity(text.clone(), &text[..1]) }
    };
    let fault = judged(&Native::new("other").keys(other), &state(0, vec![])).unwrap_err();
    assert_eq!(fault.to_string(), "1 of 5 inputs that were applied get other keys: message id b2 becomes b2/new");
    let fault = judged(&Native::new("other").keys(|m| identity(text(m), "all")), &state(0, vec![])).unwrap_err();
    assert!(matches!(&fault, KeyFault::Changed { changed: 5, shown, .. } if shown.len() == SHOWN), "{fault}");
    assert!(fault.to_string().contains("message id a1: aggregate id a becomes all"), "{fault}");
}

#[test]
fn a_stricter_plugin_passes_unless_it_knows_nothing_any_more() {
    let only_a = plugin().keys(|message| match text(message) {
        text if text.starts_with('a') => identity(text.clone(), &text[..1]),
        _ => KeyResult::Skip("not mine any more".to_owned()),
    });
    assert_eq!(judged(&only_a, &state(0, vec![])), Ok(()));
    assert_eq!(compared(&only_a, &samples()).lost, 3);
    let nothing = Native::new("nothing").keys(|_| KeyResult::Reject("bad".to_owned(), "no".to_owned()));
    assert_eq!(judged(&nothing, &state(0, vec![])), Err(KeyFault::Lost { compared: 5 }));
}

#[test]
fn a_sample_that_breaks_the_plugin_hides_no_other() {
    let picky = plugin()
        .keys(|m| identity(text(m), "all"))
        .traps(|entry, message| entry == Entry::ExtractKeys && text(message) == "b1");
    let comparison = compared(&picky, &samples());
    assert_eq!((comparison.changed, comparison.lost, comparison.rekeyed.len()), (4, 1, 4));
}

#[test]
fn an_input_that_breaks_the_plugin_alone_and_not_twice_is_none_that_moved() {
    let asked = AtomicU64::new(0);
    let plugin = plugin().traps(move |_, _| asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(2));
    let one = KeyState { samples: vec![sample("a1")], ..state(0, vec![]) };
    assert_eq!(judged(&plugin, &one), Ok(()));
    assert_eq!(held(&plugin, &one.samples), Ok(()));
}

#[test]
fn keys_that_change_from_one_instance_to_the_next_are_found() {
    let count = AtomicU64::new(0);
    let counting =
        Native::new("counting").keys(move |_| identity(count.fetch_add(1, Ordering::Relaxed).to_string(), "x"));
    let moved = held(&counting, &samples()).unwrap_err();
    assert_eq!(moved.relation, Relation::Again, "{moved}");
}

#[test]
fn a_refusal_says_what_it_means_and_names_both_ways_out() {
    let refusal = |fault| {
        let (consumer, digest) = (ConsumerName::new("pay").unwrap(), [0xab; 32]);
        Refusal { consumer, fault, digest, before: vec![1; 32], active: 4, config: " --config t.toml".to_owned() }
    };
    let text = refusal(KeyFault::Replaced).to_string();
    for part in [
        "TG009",
        "applied again",
        "010101010101…",
        "`tidegate run --accept-key-change pay@abababababab --config t.toml`",
        "`tidegate consumers reload pay --accept-key-change abababababababababababababababababababababababababababababababab \
         --config t.toml`",
        "from 4",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}
