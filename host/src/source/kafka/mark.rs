//! What stands beside an offset that was committed from a receipt: which checkpoint it is of.
//!
//! A group's offset that is behind the chain has one of two causes. A crash, or a broker's, lost the commits of what the
//! database holds: going back there would only read duplicates. Or an operator has set it, to have records read again. The
//! mark tells them apart: who sets an offset by a tool, or resets it, leaves none.

use uuid::Uuid;

const NAME: &str = "tidegate";

/// The mark of this offset. Far below a broker's limit for it (`offset.metadata.max.bytes`, 4096).
pub(super) fn mark(next_offset: i64, checkpoint: Uuid) -> String {
    format!("{NAME} {next_offset} {checkpoint}")
}

/// Whether this is the mark of this very offset. One that was left beside another offset is none.
pub(super) fn is_mark(text: &[u8], offset: i64) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let mut words = text.split(' ');
    words.next() == Some(NAME)
        && words.next().and_then(|word| word.parse().ok()) == Some(offset)
        && words.next().is_some_and(|word| Uuid::parse_str(word).is_ok())
        && words.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_of_this_offset() {
        let mark = mark(7, Uuid::from_u128(9));
        assert!(is_mark(mark.as_bytes(), 7));
        assert!(!is_mark(mark.as_bytes(), 6), "somebody moved the offset and left the text");
        for other in [&b""[..], b"\xff\xfe", b"tidegate", b"tidegate 7", b"tidegate 7 x", b"mirror 7 x"] {
            assert!(!is_mark(other, 7));
        }
        assert!(!is_mark(format!("{mark} more").as_bytes(), 7));
    }
}
