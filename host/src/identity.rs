//! Who an input is: newtypes for what must not be mixed up, each checked once, before any SQL (R1.3).

use std::{fmt, sync::Arc};

use sha2::{Digest, Sha256};

/// Why an id is refused. The text never repeats the id: it may be long, or personal data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Nothing there.
    #[error("{what} is empty: every input needs one, made by its producer")]
    Empty {
        /// Which id.
        what: &'static str,
    },
    /// Longer than its column.
    #[error("{what} has {length} characters, the ledger holds {limit}; it is never truncated")]
    TooLong {
        /// Which id.
        what: &'static str,
        /// Its length in characters.
        length: usize,
        /// The column's length.
        limit: usize,
    },
    /// A NUL character.
    #[error("{what} contains a NUL character, which no database column holds")]
    Nul {
        /// Which id.
        what: &'static str,
    },
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $limit:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The longest that its column holds, in characters.
            pub const LIMIT: usize = $limit;

            /// Checks and takes the text.
            ///
            /// # Errors
            /// Where it is empty, longer than [`Self::LIMIT`] characters, or has a NUL in it.
            pub fn new(text: impl AsRef<str> + Into<Arc<str>>) -> Result<Self, IdError> {
                let s = text.as_ref();
                if s.is_empty() {
                    return Err(IdError::Empty { what: $what });
                }
                if s.as_bytes().contains(&0) {
                    return Err(IdError::Nul { what: $what });
                }
                if s.len() > $limit {
                    let length = s.chars().count();
                    if length > $limit {
                        return Err(IdError::TooLong { what: $what, length, limit: $limit });
                    }
                }
                Ok(Self(text.into()))
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &self.0)
            }
        }
    };
}

id!(
    /// The consumer's name: half of the ledger's key. Two consumers process the same event independently.
    ConsumerName, "the consumer name", 100
);
id!(
    /// The idempotency key: stable, made by the producer, of business meaning. Compared by bytes.
    MessageId, "the message id", 120
);
id!(
    /// The business object that an event is about. For ordering and search, not for deduplication.
    AggregateId, "the aggregate id", 120
);

/// 16 bytes that tell whether two inputs of one message id had the same content (R1.4): the head of a SHA-256 over the
/// payload, or over what the plugin gave instead.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 16]);

impl Fingerprint {
    /// Of these bytes. An absent payload and an empty one are told apart by `present`.
    #[must_use]
    pub fn of(content: Option<&[u8]>) -> Self {
        let mut hash = Sha256::new();
        hash.update([u8::from(content.is_some())]);
        hash.update(content.unwrap_or_default());
        let mut head = [0; 16];
        head.copy_from_slice(&hash.finalize()[..16]);
        Self(head)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What extract-keys says of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The key in the ledger.
    pub message_id: MessageId,
    /// The business object.
    pub aggregate_id: AggregateId,
    /// When the event happened, microseconds since the epoch: decides whether it is older than the ledger remembers.
    pub occurred_at_us: Option<i64>,
    /// Of the payload, or of what the plugin gave instead.
    pub fingerprint: Fingerprint,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_refused_never_truncated() {
        assert_eq!(MessageId::new(""), Err(IdError::Empty { what: "the message id" }));
        assert_eq!(MessageId::new("a\0b"), Err(IdError::Nul { what: "the message id" }));
        assert!(MessageId::new("x".repeat(120)).is_ok());
        assert!(matches!(MessageId::new("x".repeat(121)), Err(IdError::TooLong { length: 121, .. })));
        // The column counts characters, not bytes.
        assert!(MessageId::new("é".repeat(120)).is_ok());
        assert!(MessageId::new("é".repeat(121)).is_err());
    }

    #[test]
    fn absent_and_empty_payload_differ() {
        assert_ne!(Fingerprint::of(None), Fingerprint::of(Some(b"")));
        assert_eq!(Fingerprint::of(Some(b"a")), Fingerprint::of(Some(b"a")));
    }
}
