//! What can go wrong on the database side.

use super::sqlstate::CACHED_PLAN;
use crate::{class::Class, merge::TableName};

/// invalid_authorization_specification, invalid_password: the server answered, and lets this user not in.
const WRONG_USER: [&str; 2] = ["28000", "28P01"];
/// invalid_catalog_name: the server answered, and has no such database.
const NO_DATABASE: &str = "3D000";
/// insufficient_privilege: while connecting, the right to connect.
pub(super) const NO_RIGHT: &str = "42501";

/// What to do where a target's table has changed under a running consumer.
pub(super) const TABLE_CHANGED: &str = "the table is not what it was when the consumer started: put it right, or correct \
                                        the consumer's target (`tidegate check --online` compares them), then start the \
                                        consumer again";

/// Which part of the work an error came from: it decides whether a record can be to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Statement {
    /// Opening a connection.
    Connect,
    /// Creating or reading the schema's version.
    Migrate,
    /// Reading the catalog.
    Catalog,
    /// Reports and proofs.
    Report,
    /// Registering a consumer.
    Register,
    /// BEGIN, settings, the consumer's lock and row.
    Begin,
    /// Inserting into the ledger, looking it up, taking rows back.
    Ledger,
    /// Locking and reading target rows.
    Lock,
    /// Writing target rows.
    Write,
    /// The check of deferred constraints, before a release or the checkpoint.
    Deferred,
    /// Opening a savepoint, or going back to one.
    Savepoint,
    /// Attempts, conflicts, dead letters.
    Notes,
    /// Reading and extending the checkpoint chain.
    Checkpoint,
    /// COMMIT.
    Commit,
    /// ROLLBACK.
    Rollback,
}

impl Statement {
    /// Whether the database may have refused a record's rows here. Elsewhere only our own rows are written, so a data
    /// error there is a defect of the schema or of the host, and no record is to blame.
    #[must_use]
    pub fn carries_target_rows(self) -> bool {
        matches!(self, Self::Lock | Self::Write | Self::Deferred | Self::Commit)
    }
}

/// An error of a statement or of the connection.
#[derive(Debug, thiserror::Error)]
#[error("{context}: {message}{}", sqlstate.as_deref().map(|s| format!(" (SQLSTATE {s})")).unwrap_or_default())]
pub struct StoreError {
    /// Which part of the work.
    pub statement: Statement,
    /// What was being done, to what: "insert into the ledger", "connect to 127.0.0.1:5432/shop".
    pub context: String,
    /// What the database or the driver said, without secrets, and the way out where there is one.
    pub message: String,
    /// The database's code, where it gave one (SQLite: `SQLITE_` and the name).
    pub sqlstate: Option<String>,
    /// What the code alone says. Ask [`Self::class`].
    pub class: Class,
    /// The connection is in an unknown state: drop it.
    pub connection_lost: bool,
}

impl StoreError {
    /// Something that the host itself found wrong; no record is to blame and trying again does not help.
    #[must_use]
    pub fn fatal(statement: Statement, context: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            statement,
            context: context.into(),
            message: message.into(),
            sqlstate: None,
            class: Class::Fatal,
            connection_lost: false,
        }
    }

    /// Something that passes: the same batch again, after a pause.
    #[must_use]
    pub fn transient(statement: Statement, context: impl Into<String>, message: impl Into<String>) -> Self {
        Self { class: Class::Transient, ..Self::fatal(statement, context, message) }
    }

    /// Something that exists where this role may not look, or that it may not do.
    #[must_use]
    pub(super) fn no_right(statement: Statement, context: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self { sqlstate: Some(NO_RIGHT.to_owned()), ..Self::fatal(statement, context, way_out) }
    }

    /// A target's table that is not there. `hint` follows "correct `table = …`".
    #[must_use]
    pub(super) fn no_table(name: &TableName, hint: &str) -> Self {
        let text = format!("there is no such table; create it, or correct `table = \"{name}\"`{hint}");
        Self::fatal(Statement::Catalog, format!("table {name}"), text)
    }

    /// Whether the server answered and refuses what the configuration's `url` asks for, or the role that it names a right:
    /// in which words, and the way out. Anything else while connecting is the environment's.
    #[must_use]
    pub fn refused(&self) -> Option<(&'static str, &'static str)> {
        let code = self.sqlstate.as_deref()?;
        if self.statement != Statement::Connect {
            // Where target rows are written, a policy may have refused one of them.
            let ours = code == NO_RIGHT && !self.statement.carries_target_rows();
            return ours.then_some(("the database refuses this role a right", "have the tables' owner grant it"));
        }
        match code {
            code if WRONG_USER.contains(&code) => Some((
                "the database refuses this user",
                "correct user and password in `url`, or create the user (CREATE ROLE … LOGIN) and let it in",
            )),
            NO_RIGHT => Some(("the database refuses this user", "give it the right: GRANT CONNECT ON DATABASE … TO …")),
            NO_DATABASE => Some((
                "the server has no such database",
                "create it (CREATE DATABASE …), or correct the database's name in `url`",
            )),
            _ => None,
        }
    }

    /// What to do about it: the code's class, but where no target rows are written a data error is fatal.
    #[must_use]
    pub fn class(&self) -> Class {
        if self.class == Class::Poison && !self.statement.carries_target_rows() { Class::Fatal } else { self.class }
    }

    /// What to do about a target's table that has become another while its consumer runs, and so refuses the statement
    /// itself, whatever the row: a column, an index or the table is gone.
    #[must_use]
    pub fn way_out(&self) -> Option<&'static str> {
        let code = self.sqlstate.as_deref()?;
        let changed = match code {
            NO_RIGHT => false,
            CACHED_PLAN | "SQLITE_ERROR" => true,
            _ => matches!(code.get(..2), Some("42" | "3F")),
        };
        (changed && self.class() == Class::Fatal && self.statement.carries_target_rows()).then_some(TABLE_CHANGED)
    }

    /// Whether a smaller batch may pass where this one does not: it ran out of time, memory or locks.
    #[must_use]
    pub fn caused_by_size(&self) -> bool {
        self.class() == Class::Transient
            && matches!(self.sqlstate.as_deref(), Some("57014" | "53200" | "53400" | "25P03" | "SQLITE_NOMEM"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_refuses_the_user_is_there() {
        let error = |statement, code: &str| StoreError {
            sqlstate: Some(code.to_owned()),
            ..StoreError::fatal(statement, "connect to db:5432/shop", "m")
        };
        for code in ["28000", "28P01", "42501"] {
            let (what, _) = error(Statement::Connect, code).refused().expect(code);
            assert_eq!(what, "the database refuses this user", "{code}");
        }
        let (what, way_out) = error(Statement::Connect, "3D000").refused().expect("refused");
        assert!(what.contains("no such database") && way_out.contains("CREATE DATABASE"), "{what}: {way_out}");
        assert_eq!(error(Statement::Connect, "57P03").refused(), None, "it is starting up");
        assert_eq!(error(Statement::Write, "42501").refused(), None, "a row's own fault");
        let (what, _) = error(Statement::Report, "42501").refused().expect("refused");
        assert_eq!(what, "the database refuses this role a right");
        assert_eq!(error(Statement::Report, "42P01").refused(), None);
        assert_eq!(StoreError::transient(Statement::Connect, "c", "connection refused").refused(), None);
    }

    #[test]
    fn a_table_that_is_not_there_is_told_with_the_way_out() {
        let name = TableName { schema: Some("shop".into()), name: "payments".into() };
        let error = StoreError::no_table(&name, "");
        let expected = "table shop.payments: there is no such table; create it, or correct `table = \"shop.payments\"`";
        assert_eq!((error.to_string().as_str(), error.class()), (expected, Class::Fatal));
    }

    #[test]
    fn a_table_that_has_changed_is_told_with_the_way_out() {
        let error = |statement, code: &str| StoreError {
            sqlstate: Some(code.to_owned()),
            ..StoreError::fatal(statement, "write settlements", "m")
        };
        for code in ["42703", "42P01", "42P10", "42804", "3F000", "0A000"] {
            let way_out = error(Statement::Write, code).way_out().expect(code);
            assert!(way_out.contains("check --online"), "{way_out}");
        }
        assert_eq!(error(Statement::Ledger, "42P01").way_out(), None, "no target");
        assert_eq!(error(Statement::Write, "42501").way_out(), None, "a right that is missing is told otherwise");
        assert_eq!(error(Statement::Write, "XX001").way_out(), None);
        assert_eq!(StoreError::transient(Statement::Write, "c", "m").way_out(), None);
    }

    #[test]
    fn a_data_error_blames_a_record_only_where_its_rows_are_written() {
        let error = |statement| StoreError { class: Class::Poison, ..StoreError::fatal(statement, "c", "m") };
        assert_eq!(error(Statement::Write).class(), Class::Poison);
        assert_eq!(error(Statement::Deferred).class(), Class::Poison);
        for ours in [Statement::Begin, Statement::Ledger, Statement::Notes, Statement::Checkpoint] {
            assert_eq!(error(ours).class(), Class::Fatal);
        }
        assert_eq!(StoreError::transient(Statement::Ledger, "c", "m").class(), Class::Transient);
    }
}
