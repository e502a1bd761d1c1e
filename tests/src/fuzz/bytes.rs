//! Bytes as decisions: whatever they are, they make some input, and near bytes make near inputs.

/// Takes decisions from the front. Where nothing is left, all of them are zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// One of so many.
    pub(super) fn below(&mut self, many: usize) -> usize {
        usize::from(self.byte()) % many.max(1)
    }

    pub(super) fn number(&mut self) -> i64 {
        i64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// A part of a length that it says itself, up to 255 bytes.
    pub(super) fn part(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (part, rest) = self.0.split_at(length);
        self.0 = rest;
        part
    }

    /// The same as text, with a mark where it is none.
    pub(super) fn text(&mut self) -> String {
        String::from_utf8_lossy(self.part()).into_owned()
    }
}
