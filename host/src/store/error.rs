//! What can go wrong on the database side.

use crate::class::Class;

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

    /// What to do about it: the code's class, but where no target rows are written a data error is fatal.
    #[must_use]
    pub fn class(&self) -> Class {
        if self.class == Class::Poison && !self.statement.carries_target_rows() { Class::Fatal } else { self.class }
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
