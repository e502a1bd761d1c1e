//! The oracle is right: it equals a naive replay of the published bytes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::demo::{
    oracle::{Expected, TOTALS},
    service::Service,
};

fn told(seed: u64, events: u64) -> (Vec<Publication>, Story) {
    let mut story = Story::new(seed, 6, 1_800_000_000_000);
    let mut all: Vec<_> = (0..events).flat_map(|_| story.next_event()).collect();
    all.extend(story.close());
    all.extend(story.corrections());
    (all, story)
}

/// 49.90 as 4990.
fn cents(amount: &Value) -> i64 {
    let text = amount.to_string();
    let (euros, cents) = text.split_once('.').unwrap_or((&text, ""));
    format!("{euros}{cents:0<2}").parse().unwrap()
}

/// What a consumer makes of these records, read from their bytes alone: a set of ids and a map of rows.
fn replay(service: Service, records: &[Publication]) -> Expected {
    let mut expected = Expected::default();
    let mut seen: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut dead = BTreeSet::new();
    let mut payments: BTreeMap<String, (u64, String, i64)> = BTreeMap::new();
    let mut orders: BTreeMap<String, [i64; 3]> = BTreeMap::new();
    for record in records.iter().filter(|r| service.feeds().contains(&r.feed)) {
        let Some(payload) = &record.payload else {
            expected.skipped += 1;
            continue;
        };
        let Ok(event) = serde_json::from_slice::<Value>(payload) else {
            expected.dead += 1;
            continue;
        };
        let Some(id) = event["event_id"].as_str() else {
            expected.dead += 1;
            continue;
        };
        if let Some(first) = seen.get(id) {
            expected.duplicate += 1;
            expected.conflicts += i64::from(first != payload);
            continue;
        }
        let kind = event["type"].as_str().unwrap();
        if kind == "order.note-added" || kind == "payment.receipt-sent" {
            expected.skipped += 1;
            continue;
        }
        let cents = cents(&event["amount"]);
        if cents < 0 {
            expected.dead += 1;
            dead.insert(id.to_owned());
            continue;
        }
        if service == Service::Settlement && record.feed == Feed::Orders {
            expected.skipped += 1;
            continue;
        }
        seen.insert(id.to_owned(), payload.clone());
        expected.applied += 1;
        expected.superseded += i64::from(dead.remove(id));
        let text = |name: &str| event[name].as_str().unwrap().to_owned();
        let version = event["version"].as_u64().unwrap();
        match service {
            Service::Settlement => {
                let row = payments.entry(text("payment_id")).or_default();
                if version > row.0 {
                    *row = (version, kind.to_owned(), cents);
                }
            }
            Service::OrderSummary => {
                let row: &mut [i64; 3] = orders.entry(text("order_id")).or_default();
                match kind {
                    "payment.captured" => row[1] = row[1].max(cents),
                    "payment.refunded" => row[2] = row[2].max(cents),
                    _ if record.feed == Feed::Orders => row[0] = row[0].max(cents),
                    _ => {}
                }
            }
        }
    }
    let sum = |kind: &str| payments.values().filter(|(_, k, _)| k == kind).map(|(.., cents)| cents).sum();
    let column = |i: usize| orders.values().map(|row| row[i]).sum();
    let count = |n: usize| i64::try_from(n).unwrap();
    expected.totals = match service {
        Service::Settlement => [count(payments.len()), sum("payment.captured"), sum("payment.refunded"), 0],
        Service::OrderSummary => [count(orders.len()), column(0), column(1), column(2)],
    };
    expected
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_oracle_equals_a_naive_replay(seed: u64, events in 0..4000u64) {
        let (records, story) = told(seed, events);
        for service in Service::ALL {
            prop_assert_eq!(story.oracle().expected(service), replay(service, &records));
        }
        for feed in Feed::ALL {
            let published = records.iter().filter(|r| r.feed == feed).count();
            prop_assert_eq!(story.oracle().published_to(feed), i64::try_from(published).unwrap());
        }
    }
}

#[test]
fn equal_seeds_tell_equal_stories() {
    assert_eq!(told(7, 2000).0, told(7, 2000).0);
    assert_ne!(told(7, 2000).0, told(8, 2000).0);
}

#[test]
fn every_irregularity_is_in_a_short_story_and_few_are() {
    let (records, story) = told(42, 1_000);
    for service in Service::ALL {
        let e = story.oracle().expected(service);
        assert!(e.applied > 300 && e.skipped >= 2 && e.dead >= 3 && e.superseded >= 1 && e.conflicts >= 1, "{e:?}");
        let consumed = e.applied + e.duplicate + e.skipped + e.dead;
        assert!(e.dead * 100 < consumed, "{e:?}");
        assert!((consumed / 20..consumed / 6).contains(&e.duplicate), "about a tenth: {e:?}");
    }
    let repeats: Vec<_> = records.iter().filter(|r| matches!(r.what, What::Again(_))).collect();
    let elsewhere = repeats.iter().filter(|r| {
        let first = records.iter().find(|f| f.payload == r.payload).unwrap();
        first.partition != r.partition
    });
    assert!(elsewhere.count() > repeats.len() / 10, "some copies are in another partition");
    assert_eq!(story.oracle().expected(Service::Settlement).totals.len(), TOTALS);
}
