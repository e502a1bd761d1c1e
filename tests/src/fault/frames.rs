//! PostgreSQL's message framing, as far as it takes to see a COMMIT go by. Pure.

use std::collections::HashMap;

/// Cuts a byte stream into whole messages. Bytes are kept until their message is complete.
#[derive(Debug)]
pub(super) struct Frames {
    buffer: Vec<u8>,
    start: Start,
}

/// What stands before the first typed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// From the client: messages without a type, up to the real start-up message.
    Client,
    /// From the server, once it was asked for encryption: one byte.
    Answer,
    /// Typed messages.
    Over,
}

/// A whole message; with its type and length where it has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// 0 = no typed message.
    pub(super) kind: u8,
    pub(super) bytes: Vec<u8>,
}

const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;

impl Frames {
    /// Of what a client sends.
    pub(super) fn of_client() -> Self {
        Self { buffer: Vec::new(), start: Start::Client }
    }

    /// Of what a server sends.
    pub(super) fn of_server() -> Self {
        Self { buffer: Vec::new(), start: Start::Over }
    }

    /// The client has asked for encryption: the server's next byte is the answer.
    pub(super) fn expect_answer(&mut self) {
        self.start = Start::Answer;
    }

    /// Takes bytes in.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message.
    pub(super) fn next(&mut self) -> Option<Frame> {
        let header = match self.start {
            Start::Answer => {
                let bytes = self.take(1)?;
                self.start = Start::Over;
                return Some(Frame { kind: 0, bytes });
            }
            Start::Client => 0,
            Start::Over => 1,
        };
        let length = u32::from_be_bytes(self.buffer.get(header..header + 4)?.try_into().ok()?);
        let bytes = self.take(header + usize::try_from(length).ok()?.max(4))?;
        let kind = if header == 1 { bytes[0] } else { 0 };
        if header == 0 && !asks_for_encryption(&bytes) {
            self.start = Start::Over;
        }
        Some(Frame { kind, bytes })
    }

    fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        (self.buffer.len() >= length).then(|| self.buffer.drain(..length).collect())
    }
}

/// Whether this untyped message is answered by a single byte.
pub(super) fn asks_for_encryption(bytes: &[u8]) -> bool {
    let code = bytes.get(4..8).and_then(|code| code.try_into().ok()).map(u32::from_be_bytes);
    matches!(code, Some(SSL_REQUEST | GSS_REQUEST))
}

/// Which of a client's messages make the server commit: a simple query that holds a COMMIT, or an Execute of a portal of a
/// statement that is one.
#[derive(Debug, Default)]
pub(super) struct CommitWatch {
    statements: HashMap<Vec<u8>, bool>,
    portals: HashMap<Vec<u8>, bool>,
}

impl CommitWatch {
    /// Whether this message does.
    pub(super) fn commits(&mut self, frame: &Frame) -> bool {
        let mut parts = frame.bytes.get(5..).unwrap_or_default().split(|&byte| byte == 0);
        let mut part = || parts.next().unwrap_or_default().to_vec();
        match frame.kind {
            b'Q' => is_commit(&part()),
            b'P' => {
                let (name, text) = (part(), part());
                self.statements.insert(name, is_commit(&text));
                false
            }
            b'B' => {
                let (portal, statement) = (part(), part());
                let commits = self.statements.get(&statement).copied().unwrap_or_default();
                self.portals.insert(portal, commits);
                false
            }
            b'E' => self.portals.get(&part()).copied().unwrap_or_default(),
            _ => false,
        }
    }
}

/// Whether one of these statements is COMMIT. Text inside of literals is not told apart: no test has such a literal.
fn is_commit(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text).to_ascii_uppercase();
    text.split(';').any(|statement| {
        let mut words = statement.split_whitespace();
        matches!(words.next(), Some("COMMIT" | "END")) && matches!(words.next(), None | Some("WORK" | "TRANSACTION"))
    })
}

/// How the server answers a COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Not yet.
    None,
    /// It is committed.
    Committed,
    /// It is not.
    Refused,
}

/// What a server's message says about the COMMIT that was sent before.
pub(super) fn answer(frame: &Frame) -> Answer {
    match frame.kind {
        b'C' if frame.bytes.get(5..).is_some_and(|tag| tag.starts_with(b"COMMIT")) => Answer::Committed,
        // An error; or ready without a COMMIT, as where it was answered by ROLLBACK.
        b'E' | b'Z' => Answer::Refused,
        _ => Answer::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[kind][..], &length.to_be_bytes(), body].concat()
    }

    fn untyped(body: &[u8]) -> Vec<u8> {
        typed(0, body)[1..].to_vec()
    }

    #[test]
    fn messages_come_whole_however_the_bytes_do() {
        let query = typed(b'Q', b"SELECT 1\0");
        let messages = [untyped(&SSL_REQUEST.to_be_bytes()), untyped(b"\0\x03\0\0user\0me\0\0"), query.clone(), query];
        let stream = messages.concat();
        for size in [1, 3, 7, stream.len()] {
            let mut frames = Frames::of_client();
            let mut found = Vec::new();
            for bytes in stream.chunks(size) {
                frames.push(bytes);
                found.extend(std::iter::from_fn(|| frames.next()));
            }
            let bytes: Vec<_> = found.iter().map(|frame| frame.bytes.clone()).collect();
            assert_eq!(bytes, messages, "in chunks of {size}");
            assert_eq!(found.iter().map(|frame| frame.kind).collect::<Vec<_>>(), [0, 0, b'Q', b'Q']);
        }
    }

    #[test]
    fn the_answer_to_a_request_for_encryption_is_one_byte() {
        let mut frames = Frames::of_server();
        frames.expect_answer();
        frames.push(b"N");
        frames.push(&typed(b'Z', b"I"));
        assert_eq!(frames.next().unwrap().bytes, b"N");
        assert_eq!(frames.next().unwrap().kind, b'Z');
        assert_eq!(frames.next(), None);
    }

    #[test]
    fn a_commit_is_seen_in_both_protocols() {
        let mut watch = CommitWatch::default();
        let mut commits = |kind, body: &[u8]| watch.commits(&Frame { kind, bytes: typed(kind, body) });
        for text in ["COMMIT\0", "set constraints all immediate; commit\0", "END\0", " Commit work ;\0"] {
            assert!(commits(b'Q', text.as_bytes()), "{text}");
        }
        for text in ["BEGIN\0", "COMMIT PREPARED 'x'\0", "SELECT 1; ROLLBACK\0", "SELECT committed FROM t\0"] {
            assert!(!commits(b'Q', text.as_bytes()), "{text}");
        }
        assert!(!commits(b'P', b"s1\0COMMIT\0\0\0"));
        assert!(!commits(b'P', b"s2\0SELECT 1\0\0\0"));
        assert!(!commits(b'B', b"\0s2\0\0\0\0\0\0\0"));
        assert!(!commits(b'E', b"\0\0\0\0\0"));
        assert!(!commits(b'B', b"\0s1\0\0\0\0\0\0\0"));
        assert!(commits(b'E', b"\0\0\0\0\0"));
    }

    #[test]
    fn only_the_tag_commit_says_that_it_is() {
        let said = |kind, body: &[u8]| answer(&Frame { kind, bytes: typed(kind, body) });
        assert_eq!(said(b'C', b"SET CONSTRAINTS\0"), Answer::None);
        assert_eq!(said(b'C', b"COMMIT\0"), Answer::Committed);
        assert_eq!(said(b'C', b"ROLLBACK\0"), Answer::None);
        assert_eq!(said(b'Z', b"I"), Answer::Refused);
    }
}
