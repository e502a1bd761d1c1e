//! What a guest writes to stderr: lines for the log, and the last of it for the message of a trap.

/// Bytes that are kept for a trap. A Python traceback or a JavaScript stack fits in.
const KEPT: usize = 4 << 10;

/// Bounded, whatever is written.
#[derive(Debug, Default)]
pub(in crate::plugin::wasm) struct Stderr {
    /// The last bytes, at most twice as many as are kept.
    last: Vec<u8>,
    /// A line that has not ended yet.
    line: Vec<u8>,
}

impl Stderr {
    /// Takes bytes and gives the lines that ended with them. A line that is too long ends where it becomes so.
    pub(in crate::plugin::wasm) fn write(&mut self, mut bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        // More than is kept of it changes nothing but the log, which would drop it.
        bytes = &bytes[bytes.len().saturating_sub(16 * KEPT)..];
        self.last.extend_from_slice(&bytes[bytes.len().saturating_sub(KEPT)..]);
        if self.last.len() > 2 * KEPT {
            self.last.drain(..self.last.len() - KEPT);
        }
        for &byte in bytes {
            if byte != b'\n' {
                self.line.push(byte);
            }
            if byte == b'\n' || self.line.len() >= KEPT {
                lines.extend(self.rest());
            }
        }
        lines
    }

    /// What was written of a line that has not ended.
    pub(in crate::plugin::wasm) fn rest(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The last of what was written since [`Stderr::forget`].
    pub(in crate::plugin::wasm) fn last(&self) -> Option<String> {
        let kept = &self.last[self.last.len().saturating_sub(KEPT)..];
        let text = String::from_utf8_lossy(kept);
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// An entry's traps are not explained by what an earlier one wrote.
    pub(in crate::plugin::wasm) fn forget(&mut self) {
        self.last.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_and_the_last_bytes_stay() {
        let mut stderr = Stderr::default();
        assert_eq!(stderr.write(b"Traceback:\n  line 7\r\nValue"), ["Traceback:", "  line 7"]);
        assert_eq!(stderr.write(b"Error: boom\n\n"), ["ValueError: boom"]);
        assert_eq!(stderr.last().as_deref(), Some("Traceback:\n  line 7\r\nValueError: boom"));
        assert_eq!(stderr.rest(), None);
        stderr.forget();
        assert_eq!(stderr.last(), None);
    }

    #[test]
    fn a_flood_is_bounded_and_its_end_is_kept() {
        let mut stderr = Stderr::default();
        for _ in 0..100 {
            stderr.write(&vec![b'x'; 1 << 20]);
        }
        stderr.write(b"the end");
        assert!(stderr.last.capacity() + stderr.line.capacity() < 64 << 10, "bounded");
        assert!(stderr.last().is_some_and(|text| text.ends_with("the end") && text.len() == KEPT));
    }
}
