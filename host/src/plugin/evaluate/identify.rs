//! From what extract-keys said to a checked identity.

use crate::{
    identity::{AggregateId, Fingerprint, Identity, MessageId},
    instant::Finer,
    outcome::{Evaluated, Rejection, Verdict},
    plugin::{KeyResult, Message, RawIdentity, instant},
};

/// Checks ids and times (R1.3); what fails is this input's own fault, and a missing id is never "process without
/// deduplication" (R1.1). The verdict of an identified message is to be replaced by what compute says.
pub(super) fn identify(key: KeyResult, message: &Message) -> Evaluated {
    let refused = |verdict| Evaluated { identity: None, verdict };
    match key {
        KeyResult::Identity(raw) => match check(raw, message) {
            Ok(identity) => Evaluated { identity: Some(identity), verdict: Verdict::Apply(Vec::new()) },
            Err(rejection) => refused(Verdict::Reject(rejection)),
        },
        KeyResult::Skip(why) => refused(Verdict::Skip(why)),
        KeyResult::Reject(word, text) => refused(Verdict::Reject(Rejection::new(code(word), text))),
    }
}

fn check(raw: RawIdentity, message: &Message) -> Result<Identity, Rejection> {
    let occurred_at_us = raw.occurred_at.as_ref().map(|at| instant::to_micros(at, Finer::Cut)).transpose();
    let payload = message.body.bytes().map(AsRef::as_ref);
    Ok(Identity {
        message_id: MessageId::new(raw.message_id).map_err(|e| Rejection::new("bad-message-id", e.to_string()))?,
        aggregate_id: AggregateId::new(raw.aggregate_id)
            .map_err(|e| Rejection::new("bad-aggregate-id", e.to_string()))?,
        occurred_at_us: occurred_at_us.map_err(|text| Rejection::new("bad-occurred-at", text))?,
        fingerprint: Fingerprint::of(raw.fingerprint.as_deref().or(payload)),
    })
}

/// The seed of a message: 32-bit FNV-1a over its id. Stable for ever, since results may depend on it.
pub(super) fn seed(id: &MessageId) -> u32 {
    id.as_str().bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// A plugin's code is what people filter dead letters by: short, plain, never empty, and never one of the host's own
/// `plugin-…`, which say that the plugin broke.
pub(super) fn code(word: String) -> String {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !word.starts_with(Rejection::BY_HOST) && !word.is_empty() && word.len() <= 64 && word.chars().all(fine) {
        word
    } else {
        "rejected".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
    fn seeds_are_fixed() {
        assert_eq!(seed(&MessageId::new("a").unwrap()), 0xe40c_292c);
        assert_eq!(seed(&MessageId::new("foobar").unwrap()), 0xbf9c_f968);
    }

    #[test]
    fn codes_are_short_words() {
        assert_eq!(code("bad-json".into()), "bad-json");
        assert_eq!(code(String::new()), "rejected");
        assert_eq!(code("two words".into()), "rejected");
        assert_eq!(code("plugin-trap".into()), "rejected");
        assert_eq!(code("x".repeat(65)), "rejected");
    }
}
