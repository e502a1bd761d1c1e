//! An operator's word that a consumer's keys may change: `CONSUMER`, or `CONSUMER@DIGEST` for one plugin alone.

use super::short;
use crate::identity::ConsumerName;

/// Whose keys may change, and to which plugin's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acceptance {
    text: String,
    /// Who says so.
    pub by: String,
}

impl std::fmt::Display for Acceptance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Acceptance {
    /// As an operator has typed it.
    #[must_use]
    pub fn new(text: &str, by: &str) -> Self {
        Self { text: text.to_owned(), by: by.to_owned() }
    }

    /// For one plugin of one consumer alone. `sha256` is all of its digest, in hexadecimal; `None` where it is not.
    #[must_use]
    pub fn exact(consumer: &ConsumerName, sha256: &str, by: &str) -> Option<Self> {
        let word = Self::new(&format!("{consumer}@{sha256}"), by);
        (sha256.len() == 64 && word.digest(consumer).is_some()).then_some(word)
    }

    /// Whether it is for this consumer, whatever the plugin.
    #[must_use]
    pub fn names(&self, consumer: &ConsumerName) -> bool {
        self.text == consumer.as_str() || self.digest(consumer).is_some()
    }

    /// Whether it is for this consumer and this plugin. A digest may be shortened to 8 digits and more: left in a unit
    /// file, the word is good for that one plugin only.
    #[must_use]
    pub fn covers(&self, consumer: &ConsumerName, digest: &[u8; 32]) -> bool {
        let whole = hex::encode(digest);
        self.text == consumer.as_str() || self.digest(consumer).is_some_and(|wanted| whole.starts_with(&wanted))
    }

    fn digest(&self, consumer: &ConsumerName) -> Option<String> {
        let digest = self.text.strip_prefix(consumer.as_str())?.strip_prefix('@')?;
        let hex = (8..=64).contains(&digest.len()) && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        hex.then(|| digest.to_ascii_lowercase())
    }

    /// The word for one plugin.
    #[must_use]
    pub fn word(consumer: &ConsumerName, digest: &[u8; 32]) -> String {
        format!("{consumer}@{}", short(digest))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_good_for_its_consumer_and_its_plugin() {
        let consumer = ConsumerName::new("pay").unwrap();
        let covers = |text: &str, digest| Acceptance::new(text, "me").covers(&consumer, &[digest; 32]);
        assert!(covers("pay", 0xab) && covers("pay@abababab", 0xab) && covers("pay@ABABABABAB", 0xab));
        assert!(!covers("pay@abababab", 0xac) && !covers("pay@ab", 0xab) && !covers("payments", 0xab));
        assert!(!covers("pay@", 0xab) && !covers("PAY", 0xab) && !covers("pay@zzzzzzzz", 0xab));
        assert!(Acceptance::new(&Acceptance::word(&consumer, &[7; 32]), "me").covers(&consumer, &[7; 32]));
        assert!(Acceptance::new("pay@abababab", "me").names(&consumer));
        assert!(!Acceptance::new("other", "me").names(&consumer));
        let whole = hex::encode([7; 32]);
        assert!(Acceptance::exact(&consumer, &whole, "me").is_some_and(|word| word.covers(&consumer, &[7; 32])));
        assert!(
            ["", &whole[..12], &"g".repeat(64)].iter().all(|part| Acceptance::exact(&consumer, part, "me").is_none())
        );
    }
}
