//! What every connection and every transaction is set to. The server's and the role's defaults are not ours: repeatable
//! read would turn a duplicate race into an error, and a stopped host would block the next owner for ever.

use std::str::FromStr;

use sqlx::{ConnectOptions, postgres::PgConnectOptions};

use super::super::{Statement, StoreError};
pub use crate::config::Timeouts;

/// BEGIN with everything that holds for a transaction, to be followed by its first statement.
pub(super) fn begin(timeouts: &Timeouts) -> String {
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit=on; \
         SET LOCAL lock_timeout={}; SET LOCAL statement_timeout={}; \
         SET LOCAL idle_in_transaction_session_timeout={}; SET LOCAL TimeZone='UTC'; \
         SET CONSTRAINTS ALL IMMEDIATE; ",
        timeouts.lock.as_millis(),
        timeouts.statement.as_millis(),
        timeouts.idle.as_millis()
    )
}

/// The options of every connection to this database.
pub(super) fn connect_options(url: &str, timeouts: &Timeouts) -> Result<PgConnectOptions, StoreError> {
    let options = PgConnectOptions::from_str(url)
        .map_err(|error| StoreError::fatal(Statement::Connect, "read the database URL", without_url(&error)))?;
    let options = if options.get_application_name().is_some() { options } else { options.application_name("tidegate") };
    Ok(options
        .options([("tcp_user_timeout", timeouts.tcp.as_millis().to_string())])
        // A lane's statements: a handful per target, and never thrown out by others.
        .statement_cache_capacity(512)
        // What a statement does is reported where it is called; the driver's own log would repeat it with values.
        .disable_statement_logging())
}

/// The driver's words on a bad URL. They do not repeat it.
fn without_url(error: &sqlx::Error) -> String {
    match error {
        // What stands inside may repeat a parameter's value.
        sqlx::Error::Configuration(_) => "it is none; expected postgres://user:password@host:5432/database".to_owned(),
        other => other.to_string(),
    }
}

/// Where a database is, for people.
pub(super) fn place(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or_else(|| options.get_username());
    match options.get_socket() {
        Some(socket) => format!("{}/{database}", socket.display()),
        None => format!("{}:{}/{database}", options.get_host(), options.get_port()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn the_url_s_own_options_are_kept_and_ours_added() {
        let url = "postgres://u:secret@db:6432/shop?options=-c%20search_path%3Dgate";
        let options = connect_options(url, &Timeouts::default()).unwrap();
        assert_eq!(options.get_options(), Some("-c search_path=gate -c tcp_user_timeout=10000"));
        assert_eq!(options.get_application_name(), Some("tidegate"));
        assert_eq!(place(&options), "db:6432/shop");
        assert!(!place(&options).contains("secret"));
        let database = crate::config::Database::new(crate::config::Secret::new(url), crate::config::Dialect::Postgres);
        let store = super::super::PostgresStore::open(&database, Timeouts::default()).unwrap();
        assert!(!format!("{store:?}").contains("secret"), "{store:?}");
    }

    #[test]
    fn a_bad_url_is_not_repeated() {
        for url in ["postgres://u:secret@db:notaport/shop", "::secret::", "postgres://db/shop?sslmode=secret"] {
            let error = connect_options(url, &Timeouts::default()).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
