//! Ids, and fingerprints of payloads.

use tidegate::identity::{AggregateId, ConsumerName, Fingerprint, IdError, MessageId};

/// Any text as an id: taken whole, or refused for one of three reasons that hold; never cut.
///
/// # Panics
/// Where that is not so.
pub fn ids(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    judge(&text, MessageId::new(text.as_str()).map(|id| id.as_str().to_owned()), MessageId::LIMIT);
    judge(&text, AggregateId::new(text.as_str()).map(|id| id.as_str().to_owned()), AggregateId::LIMIT);
    judge(&text, ConsumerName::new(text.as_str()).map(|id| id.as_str().to_owned()), ConsumerName::LIMIT);
    let of = |content| Fingerprint::of(content);
    assert_eq!(of(Some(bytes)), of(Some(bytes)));
    assert_ne!(of(Some(bytes)), of(None), "absent and present are two things");
    let longer = [bytes, b"x"].concat();
    assert_ne!(of(Some(bytes)), of(Some(&longer)));
}

fn judge(text: &str, taken: Result<String, IdError>, limit: usize) {
    let (length, nul) = (text.chars().count(), text.contains('\0'));
    match taken {
        Ok(taken) => {
            assert_eq!(taken, text, "an id is never changed");
            assert!((1..=limit).contains(&length) && !nul, "{length} characters, a NUL: {nul}");
        }
        Err(IdError::Empty { .. }) => assert_eq!(length, 0),
        Err(IdError::Nul { .. }) => assert!(nul),
        Err(error @ IdError::TooLong { .. }) => {
            assert!(length > limit && !nul, "{error}");
            assert!(!error.to_string().contains(text), "the text is not repeated");
        }
    }
}
