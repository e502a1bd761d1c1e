//! What the driver says, as a store error.

use sqlx::postgres::{PgDatabaseError, PgSeverity};

use super::super::{Statement, StoreError, sqlstate};
use crate::class::Class;

/// Turns a driver's error into one that says what to do. Messages carry the constraint's name, never the row.
pub(super) fn store_error(statement: Statement, context: &str, error: sqlx::Error) -> StoreError {
    let failed = |class, lost, message: String| StoreError {
        statement,
        context: context.to_owned(),
        message,
        sqlstate: None,
        class,
        connection_lost: lost,
    };
    match error {
        sqlx::Error::Database(database) => match database.try_downcast_ref::<PgDatabaseError>() {
            Some(error) => {
                let severity = error.severity();
                let mut message = error.message().to_owned();
                if let (Some(constraint), Some(table)) = (error.constraint(), error.table())
                    && !message.contains(constraint)
                {
                    message.push_str(&format!(", constraint {constraint} of {table}"));
                }
                let lost = matches!(severity, PgSeverity::Fatal | PgSeverity::Panic);
                StoreError {
                    sqlstate: Some(error.code().to_owned()),
                    ..failed(sqlstate::class(error.code()), lost, message)
                }
            }
            None => failed(Class::Fatal, true, database.to_string()),
        },
        // The network, or the server's end: nothing is known but that it may pass.
        sqlx::Error::Io(error) => failed(Class::Transient, true, error.to_string()),
        sqlx::Error::Tls(error) => failed(Class::Fatal, true, format!("TLS: {error}")),
        // Not understood: whatever the connection is in the middle of, it is no longer fit for use.
        other => failed(Class::Fatal, true, other.to_string()),
    }
}
