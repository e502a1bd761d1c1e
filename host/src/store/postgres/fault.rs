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
                let class = class(statement, error.code());
                StoreError { sqlstate: Some(error.code().to_owned()), ..failed(class, lost, message) }
            }
            None => failed(Class::Fatal, true, database.to_string()),
        },
        // The network, or the server's end: nothing is known but that it may pass.
        sqlx::Error::Io(error) => failed(Class::Transient, true, error.to_string()),
        // Whoever accepted the connection closed it before the first answer, such as a load balancer without a server
        // behind it: the driver reads the end as a byte of another protocol.
        sqlx::Error::Protocol(words) if statement == Statement::Connect => {
            failed(Class::Transient, true, format!("the connection was closed, or it is no PostgreSQL ({words})"))
        }
        sqlx::Error::Tls(error) => failed(Class::Fatal, true, format!("TLS: {error}")),
        // Not understood: whatever the connection is in the middle of, it is no longer fit for use.
        other => failed(Class::Fatal, true, other.to_string()),
    }
}

/// object_not_in_prerequisite_state. While connecting: the database takes nobody in just now, since it is being moved,
/// restored or upgraded.
const NOT_ACCEPTING: &str = "55000";

fn class(statement: Statement, code: &str) -> Class {
    if statement == Statement::Connect && code == NOT_ACCEPTING { Class::Transient } else { sqlstate::class(code) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_takes_nobody_in_is_asked_again() {
        assert_eq!(class(Statement::Connect, "55000"), Class::Transient);
        assert_eq!(class(Statement::Write, "55000"), Class::Fatal, "what a trigger or a view says");
        assert_eq!(class(Statement::Connect, "3D000"), Class::Fatal);
    }

    #[test]
    fn a_server_that_hangs_up_at_once_is_asked_again() {
        let hung_up = || sqlx::Error::Protocol("unexpected response from SSLRequest: 0x00".into());
        let error = store_error(Statement::Connect, "connect to db:5432/shop", hung_up());
        assert!(error.class() == Class::Transient && error.connection_lost, "{error}");
        let later = store_error(Statement::Write, "write", hung_up());
        assert!(
            later.class() == Class::Fatal && later.connection_lost,
            "a defect, once they have understood each other"
        );
    }
}
