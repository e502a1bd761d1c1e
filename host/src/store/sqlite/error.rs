//! SQLite's result codes and what to do about each.

use super::super::{Statement, StoreError};
use crate::class::Class;

/// Primary result codes by number, with their names and classes. What is not here is fatal.
const CODES: &[(i32, &str, Class)] = &[
    (1, "ERROR", Class::Fatal),
    (2, "INTERNAL", Class::Fatal),
    (3, "PERM", Class::Fatal),
    (4, "ABORT", Class::Transient),
    (5, "BUSY", Class::Transient),
    (6, "LOCKED", Class::Transient),
    (7, "NOMEM", Class::Transient),
    (8, "READONLY", Class::Fatal),
    (9, "INTERRUPT", Class::Transient),
    (10, "IOERR", Class::Transient),
    (11, "CORRUPT", Class::Fatal),
    (12, "NOTFOUND", Class::Fatal),
    (13, "FULL", Class::Transient),
    (14, "CANTOPEN", Class::Fatal),
    (15, "PROTOCOL", Class::Transient),
    (17, "SCHEMA", Class::Transient),
    (18, "TOOBIG", Class::Poison),
    (19, "CONSTRAINT", Class::Poison),
    (20, "MISMATCH", Class::Poison),
    (21, "MISUSE", Class::Fatal),
    (22, "NOLFS", Class::Fatal),
    (23, "AUTH", Class::Fatal),
    (25, "RANGE", Class::Fatal),
    (26, "NOTADB", Class::Fatal),
];

/// Constraint violations by their extended code: which kind it was.
const CONSTRAINTS: &[(i32, &str)] = &[
    (275, "CHECK"),
    (531, "COMMITHOOK"),
    (787, "FOREIGNKEY"),
    (1043, "FUNCTION"),
    (1299, "NOTNULL"),
    (1555, "PRIMARYKEY"),
    (1811, "TRIGGER"),
    (2067, "UNIQUE"),
    (2323, "VTAB"),
    (2579, "ROWID"),
    (2835, "PINNED"),
    (3091, "DATATYPE"),
];

const IOERR: i32 = 10;

/// The name and class of an extended result code.
fn classify(extended: i32) -> (String, Class) {
    let primary = extended & 0xff;
    let Some((_, name, class)) = CODES.iter().find(|(code, ..)| *code == primary) else {
        return (format!("SQLITE_{extended}"), Class::Fatal);
    };
    match CONSTRAINTS.iter().find(|(code, _)| *code == extended) {
        Some((_, kind)) => (format!("SQLITE_{name}_{kind}"), *class),
        None => (format!("SQLITE_{name}"), *class),
    }
}

/// Turns the driver's error into ours.
pub(super) fn store_error(statement: Statement, context: impl Into<String>, error: sqlx::Error) -> StoreError {
    let context = context.into();
    match error {
        sqlx::Error::Database(error) => {
            let extended = error.code().and_then(|code| code.parse().ok()).unwrap_or(1);
            let (name, class) = classify(extended);
            // A COMMIT whose write or sync failed may still be found in the log after a restart.
            let unknown = statement == Statement::Commit && extended & 0xff == IOERR;
            StoreError {
                statement,
                context,
                message: error.message().to_owned(),
                sqlstate: Some(name),
                class,
                connection_lost: unknown,
            }
        }
        sqlx::Error::WorkerCrashed | sqlx::Error::Io(_) => {
            let message = format!("the connection's thread is gone: {error}");
            StoreError { connection_lost: true, ..StoreError::transient(statement, context, message) }
        }
        error => StoreError::fatal(statement, context, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_class() {
        let class = |code| classify(code).1;
        for transient in [4, 5, 6, 7, 9, 10, 13, 15, 17, 261, 517, 773, 262, 266, 522, 778, 1034] {
            assert_eq!(class(transient), Class::Transient, "{transient}");
        }
        for poison in [18, 19, 20, 275, 531, 787, 1043, 1299, 1555, 1811, 2067, 2323, 2579, 2835, 3091] {
            assert_eq!(class(poison), Class::Poison, "{poison}");
        }
        for fatal in [1, 2, 3, 8, 11, 12, 14, 16, 21, 22, 23, 24, 25, 26, 27, 28, 99, 264, 267, 270, 1032] {
            assert_eq!(class(fatal), Class::Fatal, "{fatal}");
        }
    }

    #[test]
    fn constraints_say_which() {
        assert_eq!(classify(275).0, "SQLITE_CONSTRAINT_CHECK");
        assert_eq!(classify(517).0, "SQLITE_BUSY");
        assert_eq!(classify(99).0, "SQLITE_99");
    }
}
