//! A text array of an answer, read where it lies.

use sqlx::{
    Decode, Postgres, Type,
    error::BoxDynError,
    postgres::{PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef},
};

/// Head of an array in the binary format: dimensions, whether it holds NULLs, element type, length, lower bound.
const HEAD: usize = 20;

/// The elements of a `text[]` without NULLs, as bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Texts<'r>(&'r [u8]);

impl<'r> Texts<'r> {
    /// In order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'r [u8]> + use<'r> {
        let mut rest = self.0;
        std::iter::from_fn(move || next(&mut rest))
    }
}

/// Takes one element off: its length in four bytes, then itself.
fn next<'r>(rest: &mut &'r [u8]) -> Option<&'r [u8]> {
    let (length, after) = rest.split_first_chunk()?;
    let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
    let (element, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(element)
}

impl Type<Postgres> for Texts<'_> {
    fn type_info() -> PgTypeInfo {
        <&str as PgHasArrayType>::array_type_info()
    }
}

impl<'r> Decode<'r, Postgres> for Texts<'r> {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        if value.format() != PgValueFormat::Binary {
            return Err("a text array that is not in the binary format".into());
        }
        let bytes = value.as_bytes()?;
        let length = bytes.get(12..16).and_then(|b| b.try_into().ok()).map(i32::from_be_bytes).unwrap_or_default();
        let texts = Self(bytes.get(HEAD..).unwrap_or_default());
        // Not one element is lost on the way: an id that is left out would be taken for a duplicate.
        if usize::try_from(length).ok() == Some(texts.iter().count()) {
            Ok(texts)
        } else {
            Err("a text array that is cut off".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_taken_off_one_by_one() {
        let bytes = [&[0, 0, 0, 2, b'a', b'b'][..], &[0, 0, 0, 0], &[0, 0, 0, 1, b'c']].concat();
        let texts: Vec<&[u8]> = Texts(&bytes).iter().collect();
        assert_eq!(texts, [&b"ab"[..], b"", b"c"]);
        assert_eq!(Texts(&bytes[..5]).iter().count(), 0, "cut off");
        assert_eq!(Texts(&[0xff; 4]).iter().count(), 0, "NULL");
    }
}
