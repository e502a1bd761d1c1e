//! What an SQLSTATE means for a batch. One table; unknown codes are fatal.

use crate::class::Class;

/// By the code alone. 42501 (insufficient privilege) counts as poison, for a policy may forbid single rows; whether a
/// record is to blame is only known once its neighbours pass.
#[must_use]
pub(crate) fn class(code: &str) -> Class {
    match code {
        // Settings that do not exist, a time zone, a language: the host's or the operator's.
        "2200H" => Class::Fatal,
        // The prepared plan no longer fits the table: fresh statements will.
        CACHED_PLAN => Class::Transient,
        // 54001: a text that is nested too deep, or a row whose triggers call each other.
        "42501" | "44000" | "54000" | "54001" => Class::Poison,
        "55P03" | "55006" | "25006" | "25P03" | "26000" => Class::Transient,
        // The database was dropped.
        "57P04" => Class::Fatal,
        _ => match code.get(..2) {
            Some("22" | "23" | "P0") => Class::Poison,
            Some("08" | "40" | "53" | "57" | "58") => Class::Transient,
            _ => Class::Fatal,
        },
    }
}

/// Whether a refusal came from a unique constraint, in either dialect.
pub(super) fn is_unique_conflict(code: &str) -> bool {
    matches!(code, "23505" | "SQLITE_CONSTRAINT_UNIQUE" | "SQLITE_CONSTRAINT_PRIMARYKEY" | "SQLITE_CONSTRAINT_ROWID")
}

/// "cached plan must not change result type": a prepared statement whose table was altered. Passes with a fresh
/// connection, hence fresh statements; a fresh connection that meets it again asks for what the database cannot do, and
/// the connection says fatal then.
pub(crate) const CACHED_PLAN: &str = "0A000";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_errors_are_the_record_s() {
        for code in ["22001", "22003", "22007", "22008", "22012", "22021", "22P02", "22P05"] {
            assert_eq!(class(code), Class::Poison, "{code}");
        }
        for code in ["23000", "23001", "23502", "23503", "23505", "23514", "23P01"] {
            assert_eq!(class(code), Class::Poison, "{code}");
        }
        for code in ["44000", "P0001", "P0002", "P0003", "P0004", "54000", "54001"] {
            assert_eq!(class(code), Class::Poison, "{code}");
        }
    }

    #[test]
    fn a_missing_privilege_may_be_a_policy_on_single_rows() {
        assert_eq!(class("42501"), Class::Poison);
    }

    #[test]
    fn what_passes_is_tried_again() {
        for code in ["08000", "08003", "08006", "08P01", "40001", "40003", "40P01"] {
            assert_eq!(class(code), Class::Transient, "{code}");
        }
        for code in ["53000", "53100", "53200", "53300", "53400", "55P03", "55006"] {
            assert_eq!(class(code), Class::Transient, "{code}");
        }
        for code in ["57000", "57014", "57P01", "57P02", "57P03", "57P05", "58000", "58030", "58P01"] {
            assert_eq!(class(code), Class::Transient, "{code}");
        }
        for code in ["25006", "25P03", "26000", "0A000"] {
            assert_eq!(class(code), Class::Transient, "{code}");
        }
    }

    #[test]
    fn what_stays_stops_the_consumer() {
        for code in ["28000", "28P01", "42601", "42703", "42804", "42883", "42P01", "42P10", "3D000", "3F000"] {
            assert_eq!(class(code), Class::Fatal, "{code}");
        }
        for code in
            ["XX000", "XX001", "XX002", "2200H", "21000", "57P04", "25P02", "25001", "0B000", "55000", "99999", ""]
        {
            assert_eq!(class(code), Class::Fatal, "{code}");
        }
    }
}
