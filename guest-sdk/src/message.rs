//! Reading a message.

use serde::de::DeserializeOwned;

use crate::{Body, Header, Message, Stop, reject, skip};

impl Message {
    /// A message with a text and nothing else, for tests.
    #[must_use]
    pub fn from_text(source: impl Into<String>, text: impl Into<String>) -> Self {
        Self { source: source.into(), key: None, body: Body::Text(text.into()), headers: Vec::new() }
    }

    /// Whether there is no value at all. Seen only where the consumer says `tombstones = "plugin"`.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        matches!(self.body, Body::Absent)
    }

    /// The value as a text.
    ///
    /// # Errors
    /// Skips a tombstone; rejects bytes that are not UTF-8 with `payload-not-utf8`.
    pub fn text(&self) -> Result<&str, Stop> {
        match &self.body {
            Body::Text(text) => Ok(text),
            Body::Binary(bytes) => std::str::from_utf8(bytes)
                .map_err(|error| reject("payload-not-utf8", format!("the payload is not UTF-8: {error}"))),
            Body::Absent => Err(skip("tombstone")),
        }
    }

    /// The value as bytes.
    ///
    /// # Errors
    /// Skips a tombstone.
    pub fn bytes(&self) -> Result<&[u8], Stop> {
        match &self.body {
            Body::Text(text) => Ok(text.as_bytes()),
            Body::Binary(bytes) => Ok(bytes),
            Body::Absent => Err(skip("tombstone")),
        }
    }

    /// The value, read as JSON.
    ///
    /// # Errors
    /// Skips a tombstone; rejects what is not JSON of this form with `bad-json`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Stop> {
        Ok(serde_json::from_str(self.text()?)?)
    }

    /// The value of the first header of this name that has one.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().filter(|header| header.name == name).find_map(|header| header.value.as_deref())
    }

    /// With one more header, for tests.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push(Header { name: name.into(), value: Some(value.into()) });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_may_repeat_and_be_empty() {
        let mut message = Message::from_text("s", "{}");
        message.headers.push(Header { name: "a".into(), value: None });
        let message = message.with_header("a", "1").with_header("a", "2");
        assert_eq!(message.header("a"), Some(b"1".as_slice()));
        assert_eq!(message.header("b"), None);
    }

    #[test]
    fn broken_json_is_a_rejection_with_a_place() {
        let Err(Stop::Reject { code, message }) = Message::from_text("s", "{\"a\":").json::<serde_json::Value>() else {
            unreachable!("that is no JSON")
        };
        assert_eq!(code, "bad-json");
        assert!(message.contains("line 1 column 5"), "{message}");
    }
}
