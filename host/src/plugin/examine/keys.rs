//! Keys that depend on what they must not. Everything is tried on events of the author's own: with made-up ones a plugin
//! that rejects them all shows nothing.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::Value as Json;

use super::{Found, Sign};
use crate::{
    instant::{Finer, parse_instant},
    plugin::{
        Body, KeyResult, Message, Plugin, PluginError, RawIdentity,
        metamorphic::{self, Relation, first_violation},
    },
};

/// How many messages are asked about alone.
const ALONE: usize = 64;
/// How many differences are told of each kind.
const SHOWN: usize = 3;
/// Fields that say where a record stood.
const POSITIONS: [&str; 10] =
    ["offset", "partition", "line", "line_number", "lineno", "row", "row_number", "rownum", "index", "position"];

/// Looks at the keys that a plugin gives these messages.
///
/// # Errors
/// Where the plugin breaks on them: a trap, a limit.
pub fn examine_keys(plugin: &dyn Plugin, messages: &[Message]) -> Result<Vec<Found>, PluginError> {
    let mut ask = |batch: &[Message]| plugin.instance(batch.len())?.extract_keys(batch);
    let mut found = Vec::new();
    if let Some(violation) = first_violation(messages, ALONE, &mut ask)? {
        let sign = match violation.relation {
            Relation::Again => Sign::NotDeterministic,
            _ => Sign::PositionAsKey,
        };
        found.push(Found::new(sign, format!("{}: message {}", violation.relation, violation.place + 1)));
        // What follows compares keys, which say nothing then.
        return Ok(found);
    }
    let identified: Vec<(&Message, RawIdentity)> = messages
        .iter()
        .zip(ask(messages)?)
        .filter_map(|(message, key)| match key {
            KeyResult::Identity(identity) => Some((message, identity)),
            KeyResult::Skip(_) | KeyResult::Reject(..) => None,
        })
        .collect();
    if identified.is_empty() {
        let text = format!("none of {} messages was given a key, so that nothing can be said of keys", messages.len());
        found.push(Found::new(Sign::Unseen, text));
        return Ok(found);
    }
    found.extend(rewritten(&identified, &mut ask)?);
    found.extend(identified.iter().find_map(|(message, identity)| position(message, identity)));
    found.extend(identified.iter().find_map(|(_, identity)| time(identity)));
    found.extend(identified.iter().find_map(|(message, identity)| made_up(message, identity)));
    found.extend(collisions(&identified));
    Ok(found)
}

type Ask<'a> = metamorphic::Ask<'a, Message, KeyResult, PluginError>;

/// What is done to an object's text, and how.
type Form = (&'static str, fn(&str) -> String);

/// The same events in other bytes: with a blank more, and with a field that nobody knows.
fn rewritten(identified: &[(&Message, RawIdentity)], ask: &mut Ask<'_>) -> Result<Option<Found>, PluginError> {
    let forms: [Form; 2] = [
        ("a blank more", |object| format!("{{ {}", &object[1..])),
        ("one more field that nobody knows", |object| match object[1..].trim_start().strip_prefix('}') {
            Some(_) => r#"{"tidegate-unknown":1}"#.to_owned(),
            None => format!(r#"{{"tidegate-unknown":1,{}"#, &object[1..]),
        }),
    ];
    for (how, rewrite) in forms {
        let (mut others, mut ids) = (Vec::new(), Vec::new());
        for (message, identity) in identified {
            if let Some(object) = object_of(message) {
                others.push(message.with_body(Body::Text(Bytes::from(rewrite(object)))));
                ids.push(&identity.message_id);
            }
        }
        if others.is_empty() {
            continue;
        }
        for (key, id) in ask(&others)?.into_iter().zip(ids) {
            // One that is refused now is not the same event for this plugin.
            if let KeyResult::Identity(identity) = key
                && identity.message_id != *id
            {
                let text = format!("with {how} the event {} has another key", shown(id));
                return Ok(Some(Found::new(Sign::PayloadAsKey, text)));
            }
        }
    }
    Ok(None)
}

/// A JSON object's text.
fn object_of(message: &Message) -> Option<&str> {
    let Body::Text(bytes) = &message.body else { return None };
    let text = std::str::from_utf8(bytes).ok()?.trim();
    (text.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()).then_some(text)
}

fn position(message: &Message, identity: &RawIdentity) -> Option<Found> {
    let Ok(Json::Object(fields)) = serde_json::from_str(object_of(message)?) else { return None };
    let is_id = |value: &Json| match value {
        Json::String(text) => *text == identity.message_id,
        Json::Number(number) => number.to_string() == identity.message_id,
        _ => false,
    };
    let named = |name: &str| POSITIONS.iter().any(|position| name.eq_ignore_ascii_case(position));
    let (name, _) = fields.iter().find(|(name, value)| named(name) && is_id(value))?;
    let text = format!("the message id {} is the event's field {name:?}", shown(&identity.message_id));
    Some(Found::new(Sign::PositionAsKey, text))
}

/// RFC 3339, or milliseconds between 2001 and 2100.
fn time(identity: &RawIdentity) -> Option<Found> {
    let id = identity.message_id.as_str();
    let milliseconds =
        id.len() == 13 && id.parse::<i64>().is_ok_and(|ms| (1_000_000_000_000..4_102_444_800_000).contains(&ms));
    (milliseconds || parse_instant(id, Finer::Cut).is_ok())
        .then(|| Found::new(Sign::TimeAsKey, format!("the message id {} is a time", shown(id))))
}

/// A digest or a UUID that is not in the event.
fn made_up(message: &Message, identity: &RawIdentity) -> Option<Found> {
    let plain = |text: &str| text.replace('-', "").to_ascii_lowercase();
    let id = plain(&identity.message_id);
    let like_a_hash = id.len() >= 16
        && id.bytes().all(|byte| byte.is_ascii_hexdigit())
        && !id.bytes().all(|byte| byte.is_ascii_digit());
    let holds = |bytes: &[u8]| plain(&String::from_utf8_lossy(bytes)).contains(&id);
    let body = match &message.body {
        Body::Absent => &[][..],
        Body::Text(bytes) | Body::Binary(bytes) => bytes.as_ref(),
    };
    let key = message.key.as_deref().unwrap_or_default();
    let there =
        holds(body) || holds(key) || message.headers.iter().any(|header| header.value.as_deref().is_some_and(holds));
    (like_a_hash && !there).then(|| {
        let text = format!(
            "the message id {} looks like a hash or a UUID, and is nowhere in the event",
            shown(&identity.message_id)
        );
        Found::new(Sign::MadeUpKey, text)
    })
}

/// Different payloads under one id.
fn collisions(identified: &[(&Message, RawIdentity)]) -> Option<Found> {
    let mut by_id: HashMap<&str, Vec<&Message>> = HashMap::new();
    for (message, identity) in identified {
        let others = by_id.entry(identity.message_id.as_str()).or_default();
        // The same event again is no collision.
        if !others.iter().any(|other| other.body == message.body) {
            others.push(message);
        }
    }
    let mut colliding: Vec<(&str, usize)> =
        by_id.iter().filter(|(_, others)| others.len() > 1).map(|(id, others)| (*id, others.len())).collect();
    if colliding.is_empty() {
        return None;
    }
    colliding.sort_by_key(|(id, count)| (std::cmp::Reverse(*count), *id));
    let some: Vec<_> = colliding.iter().take(SHOWN).map(|(id, count)| format!("{} ({count})", shown(id))).collect();
    let text =
        format!("{} of {} message ids stand for several payloads: {}", colliding.len(), by_id.len(), some.join(", "));
    Some(Found::new(Sign::Collision, text))
}

/// An id, quoted and cut.
fn shown(id: &str) -> String {
    let mut short: String = id.chars().take(60).collect();
    if short.len() < id.len() {
        short.push('…');
    }
    format!("{short:?}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use sha2::{Digest, Sha256};

    use super::*;
    use crate::plugin::{evaluate::sample, native::Native};

    fn messages() -> Vec<Message> {
        (0..10)
            .map(|n| {
                sample::message(&format!(
                    r#"{{"id":"evt-{n}","order":"o-1","offset":{n},"at":"2026-03-01T12:00:0{n}Z","uuid":"0190a5f0-0000-7000-8000-00000000000{n}"}}"#
                ))
            })
            .collect()
    }

    fn signs(key: impl Fn(&Json, &str) -> String + Send + Sync + 'static) -> Vec<Sign> {
        let plugin = Native::new("p").keys(move |message| {
            let Body::Text(bytes) = &message.body else { return KeyResult::Skip("no text".into()) };
            let text = std::str::from_utf8(bytes).unwrap();
            let message_id = key(&serde_json::from_str(text).unwrap(), text);
            KeyResult::Identity(RawIdentity {
                message_id,
                aggregate_id: "a".into(),
                occurred_at: None,
                fingerprint: None,
            })
        });
        examine_keys(&plugin, &messages()).unwrap().into_iter().map(|found| found.sign).collect()
    }

    fn field(name: &'static str) -> impl Fn(&Json, &str) -> String {
        move |event, _| match &event[name] {
            Json::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    #[test]
    fn the_producers_own_id_shows_no_sign() {
        assert_eq!(signs(field("id")), []);
        assert_eq!(signs(field("uuid")), [], "a UUID that is in the event is the producer's");
        assert_eq!(signs(|event, _| format!("order:{}", event["id"])), [], "a prefix does no harm");
    }

    #[test]
    fn each_danger_is_told_from_the_others() {
        assert_eq!(signs(field("offset")), [Sign::PositionAsKey]);
        assert_eq!(signs(field("at")), [Sign::TimeAsKey]);
        assert_eq!(signs(field("order")), [Sign::Collision]);
        let hash = |text: &str| -> String { hex::encode(Sha256::digest(text)) };
        assert_eq!(signs(move |_, text| hash(text)), [Sign::PayloadAsKey, Sign::MadeUpKey]);
        assert_eq!(signs(move |event, _| hash(&event.to_string())), [Sign::PayloadAsKey, Sign::MadeUpKey]);
        assert_eq!(signs(move |event, _| hash(&event["id"].to_string())), [Sign::MadeUpKey]);
        let count = AtomicU64::new(0);
        assert_eq!(signs(move |_, _| count.fetch_add(1, Ordering::Relaxed).to_string()), [Sign::NotDeterministic]);
    }

    #[test]
    fn where_nothing_has_a_key_that_is_said() {
        let found = examine_keys(&Native::new("p"), &messages()).unwrap();
        assert_eq!(found[0].sign, Sign::Unseen);
        assert!(found[0].seen.starts_with("none of 10 messages"), "{}", found[0].seen);
    }
}
