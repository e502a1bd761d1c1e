//! Runs a plugin on made-up messages, to see whether its answers depend on anything but the message: TG001 and TG010.
//!
//! The messages are generic, so most plugins reject or skip most of them; a broken answer is an answer too. What a
//! plugin does with its own events is for its author's tests, for which the guest SDK has assertions.

use std::sync::Arc;

use bytes::Bytes;

use super::danger::Danger;
use crate::{
    config::{Payload, Tombstones},
    plugin::{
        Accepted, ComputeResult, Computed, KeyResult, Message, Plugin, PluginError, Shape,
        metamorphic::{Relation, first_violation},
    },
    record::Record,
    value::Value,
};

/// What the probe found: danger signs with what was seen, or the first entry that broke.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Findings {
    /// The danger signs.
    pub(super) dangers: Vec<(Danger, String)>,
    /// A trap or a limit on a made-up message; the host would isolate it as a dead letter.
    pub(super) broke: Option<PluginError>,
}

/// Probes a plugin, with the sources that its consumer may name.
#[must_use]
pub(super) fn probe(plugin: &dyn Plugin, sources: &[Arc<str>], binary: bool) -> Findings {
    let batch = messages(sources, binary);
    let mut findings = Findings::default();
    let mut asked = 0;
    let mut ask = |batch: &[Message]| {
        asked += 1;
        keys(plugin, batch)
    };
    match first_violation(&batch, batch.len(), &mut ask) {
        Ok(None) => {}
        Ok(Some(violation)) if violation.relation == Relation::Again => {
            findings.danger(Danger::NotDeterministic, &violation.relation.to_string());
        }
        Ok(Some(violation)) => findings.danger(Danger::PositionAsKey, &violation.relation.to_string()),
        Err(error) if asked > 1 => {
            findings.danger(Danger::NotDeterministic, &format!("messages that passed failed the next time: {error}"));
        }
        Err(error) => return Findings { broke: Some(error), ..findings },
    }
    if findings.dangers.is_empty() {
        match (rows(plugin, &batch), rows(plugin, &batch)) {
            (Ok(first), Ok(second)) if same_rows(&first, &second) => {}
            (Ok(_), Ok(_)) => findings.danger(Danger::NotDeterministic, "the same batch twice gave other rows"),
            (Err(error), _) | (_, Err(error)) => findings.broke = Some(error),
        }
    }
    findings
}

impl Findings {
    fn danger(&mut self, danger: Danger, seen: &str) {
        self.dangers.push((danger, seen.to_owned()));
    }
}

fn keys(plugin: &dyn Plugin, batch: &[Message]) -> Result<Vec<KeyResult>, PluginError> {
    plugin.instance(batch.len())?.extract_keys(batch)
}

fn rows(plugin: &dyn Plugin, batch: &[Message]) -> Result<Computed, PluginError> {
    let mut instance = plugin.instance(batch.len())?;
    let keys = instance.extract_keys(batch)?;
    let accepted: Vec<Accepted> = keys
        .iter()
        .zip(0u32..)
        .filter(|(key, _)| matches!(key, KeyResult::Identity(_)))
        .map(|(_, index)| Accepted { index, record_time_ms: Some(1_767_225_600_000), seed: index })
        .collect();
    if accepted.is_empty() { Ok(Computed::default()) } else { instance.compute(&accepted) }
}

/// Equal, with NaN equal to itself: a plugin may well answer it.
fn same_rows(a: &Computed, b: &Computed) -> bool {
    let shapes = |shapes: &[Shape]| shapes.to_vec();
    let value = |(a, b): (&Value, &Value)| match (a, b) {
        (Value::Real(a), Value::Real(b)) => a.to_bits() == b.to_bits(),
        _ => a == b,
    };
    let result = |(a, b): (&ComputeResult, &ComputeResult)| match (a, b) {
        (ComputeResult::Changes(a), ComputeResult::Changes(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|((shape, a), (other, b))| shape == other && a.len() == b.len() && a.iter().zip(b).all(value))
        }
        _ => a == b,
    };
    shapes(&a.shapes) == shapes(&b.shapes)
        && a.results.len() == b.results.len()
        && a.results.iter().zip(&b.results).all(result)
}

/// Made-up messages: the usual envelopes, broken ones, none.
pub(crate) fn messages(sources: &[Arc<str>], binary: bool) -> Vec<Message> {
    let event = r#"{"id":"evt-1","event_id":"evt-1","eventId":"evt-1","message_id":"evt-1","type":"created","event_type":"created","order_id":"order-1","orderId":"order-1","payment_id":"payment-1","customer":"c-1","amount":"10.00","currency":"EUR","status":"created","version":1,"event_version":1,"occurred_at":"2026-01-01T00:00:00Z","created_at":"2026-01-01T00:00:00Z","data":{"id":"1"},"payload":{"id":"1"}}"#;
    let bodies = [
        Some(event.to_owned()),
        Some(event.replace("-1\"", "-2\"")),
        Some(r#"{"specversion":"1.0","id":"evt-3","source":"/s","type":"t","subject":"x-3","data":{}}"#.to_owned()),
        Some("{}".to_owned()),
        Some("[]".to_owned()),
        Some("not json".to_owned()),
        Some(String::new()),
        None,
    ];
    let record = |(i, text): (usize, &Option<String>)| Record {
        offset: 0,
        timestamp_ms: None,
        key: i.is_multiple_of(2).then(|| Bytes::from(format!("key-{i}"))),
        payload: text.clone().map(Bytes::from),
        headers: vec![],
    };
    let records: Vec<Record> = bodies.iter().enumerate().map(record).collect();
    let payload = if binary { Payload::Binary } else { Payload::Text };
    let of = |source: &Arc<str>| -> Vec<Message> {
        // Nothing of this is anything but text.
        records.iter().filter_map(|record| Message::of(record, source, payload, Tombstones::Plugin).ok()).collect()
    };
    sources.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::plugin::{Body, RawIdentity, native::Native};

    fn identity(id: String) -> KeyResult {
        let (aggregate_id, occurred_at, fingerprint) = ("a".to_owned(), None, None);
        KeyResult::Identity(RawIdentity { message_id: id, aggregate_id, occurred_at, fingerprint })
    }

    fn sources() -> Vec<Arc<str>> {
        vec![Arc::from("orders"), Arc::from("payments")]
    }

    #[test]
    fn a_pure_plugin_passes() {
        let plugin = Native::new("pure")
            .keys(|message| match &message.body {
                Body::Text(text) => identity(format!("{}-{text:?}", message.source)),
                _ => KeyResult::Skip("no text".into()),
            })
            .compute(|message, _| {
                ComputeResult::Changes(vec![(0, vec![Value::Text(message.source.to_string()), Value::Real(f64::NAN)])])
            });
        assert_eq!(probe(&plugin, &sources(), false), Findings::default());
    }

    #[test]
    fn a_counter_that_outlives_the_instance_is_found() {
        let count = AtomicU64::new(0);
        let plugin = Native::new("counting").keys(move |_| identity(count.fetch_add(1, Ordering::Relaxed).to_string()));
        assert_eq!(probe(&plugin, &sources(), false).dangers[0].0, Danger::NotDeterministic);
    }

    #[test]
    fn rows_that_depend_on_a_clock_are_found() {
        let count = AtomicU64::new(0);
        let plugin = Native::new("clock")
            .keys(|m| identity(format!("{:?}", m.body)))
            .compute(move |_, _| ComputeResult::Skip(count.fetch_add(1, Ordering::Relaxed).to_string()));
        let findings = probe(&plugin, &sources(), false);
        assert_eq!(findings.dangers, [(Danger::NotDeterministic, "the same batch twice gave other rows".to_owned())]);
    }

    /// A plugin whose instances number their messages: what an offset as the key comes to.
    struct Numbering(Native);

    impl Plugin for Numbering {
        fn digest(&self) -> [u8; 32] {
            self.0.digest()
        }
        fn description(&self) -> &crate::plugin::Description {
            self.0.description()
        }
        fn instance(&self, _: usize) -> Result<Box<dyn crate::plugin::Instance>, PluginError> {
            Ok(Box::new(NumberingInstance))
        }
    }

    struct NumberingInstance;

    impl crate::plugin::Instance for NumberingInstance {
        fn extract_keys(&mut self, batch: &[Message]) -> Result<Vec<KeyResult>, PluginError> {
            Ok((0..batch.len()).map(|i| identity(i.to_string())).collect())
        }
        fn compute(&mut self, _: &[Accepted]) -> Result<Computed, PluginError> {
            Ok(Computed::default())
        }
    }

    #[test]
    fn a_place_in_the_batch_as_the_key_is_found() {
        let findings = probe(&Numbering(Native::new("numbering")), &sources(), false);
        assert_eq!(findings.dangers[0].0, Danger::PositionAsKey);
    }

    #[test]
    fn a_plugin_that_breaks_on_a_made_up_message_is_no_danger() {
        let plugin = Native::new("picky")
            .keys(|m| identity(format!("{:?}", m.body)))
            .traps(|_, message| message.body == Body::Absent);
        let findings = probe(&plugin, &sources(), false);
        assert!(findings.dangers.is_empty() && findings.broke.is_some());
    }
}
