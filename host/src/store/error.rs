//! What can go wrong on the database side.

use crate::class::Class;

/// An error of a statement or of the connection.
#[derive(Debug, thiserror::Error)]
#[error("{context}: {message}{}", sqlstate.as_deref().map(|s| format!(" (SQLSTATE {s})")).unwrap_or_default())]
pub struct StoreError {
    /// What was being done, to what: "insert into the ledger", "connect to 127.0.0.1:5432/shop".
    pub context: String,
    /// What the database or the driver said, without secrets.
    pub message: String,
    /// The database's code, where it gave one.
    pub sqlstate: Option<String>,
    /// What to do about it.
    pub class: Class,
    /// The connection is in an unknown state: drop it.
    pub connection_lost: bool,
}

impl StoreError {
    /// What to do about it.
    #[must_use]
    pub fn class(&self) -> Class {
        self.class
    }
}
