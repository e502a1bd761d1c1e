//! timestamptz in binary, without a time library between: microseconds, the database's own unit.

use sqlx::{
    Decode, Encode, Postgres, Type,
    encode::IsNull,
    error::BoxDynError,
    postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef},
};

/// 2000-01-01, where PostgreSQL counts from, in microseconds since 1970.
const EPOCH: i64 = 946_684_800_000_000;

/// Microseconds since the Unix epoch. `i64::MIN` and `i64::MAX` stand for -infinity and infinity, as they do in the
/// database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instant(pub(super) i64);

impl Instant {
    fn wire(self) -> i64 {
        match self.0 {
            i64::MIN | i64::MAX => self.0,
            // What fits the column was checked before: nothing saturates.
            micros => micros.saturating_sub(EPOCH).max(i64::MIN + 1),
        }
    }

    fn from_wire(wire: i64) -> Self {
        match wire {
            i64::MIN | i64::MAX => Self(wire),
            wire => Self(wire.saturating_add(EPOCH)),
        }
    }
}

impl Type<Postgres> for Instant {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(sqlx::postgres::types::Oid(1184))
    }
}

impl PgHasArrayType for Instant {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(sqlx::postgres::types::Oid(1185))
    }
}

impl Encode<'_, Postgres> for Instant {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(&self.wire().to_be_bytes());
        Ok(IsNull::No)
    }
}

impl<'r> Decode<'r, Postgres> for Instant {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        match value.format() {
            PgValueFormat::Binary => Ok(Self::from_wire(i64::from_be_bytes(value.as_bytes()?.try_into()?))),
            PgValueFormat::Text => Err("a timestamp is only read in binary".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_go_there_and_back() {
        for micros in [i64::MIN, i64::MAX, 0, EPOCH, -1, 1_764_000_000_000_000] {
            assert_eq!(Instant::from_wire(Instant(micros).wire()), Instant(micros));
        }
        assert_eq!(Instant(EPOCH).wire(), 0);
    }
}
