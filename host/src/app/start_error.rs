//! Why something does not start, and who has to put it right.

use std::io;

use crate::{
    check::danger::Danger,
    class::Class,
    identity::ConsumerName,
    key_gate::Refusal,
    plugin::PluginError,
    source::SourceError,
    store::{Statement, StoreError},
};

/// Why the application, or one consumer of it, does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration names a database or cluster that it does not have.
    #[error("consumer {consumer}: there is no [{table}.{name}]")]
    NoSuch {
        /// Whose.
        consumer: ConsumerName,
        /// database or kafka.
        table: &'static str,
        /// The name.
        name: String,
    },
    /// The database; with the way out where it refuses what `url` asks for.
    #[error("{}", database_words(.0))]
    Store(#[from] StoreError),
    /// The schema, or the consumer's row, is not what this binary or plugin needs.
    #[error("database {place}: {refusal}")]
    Refused {
        /// Where.
        place: String,
        /// What is wrong and what to do.
        refusal: String,
    },
    /// The ledger forgets what the topics may deliver again.
    #[error("error[{}]: {}", Danger::RetentionTooShort.code(), .0.join("; "))]
    Retention(Vec<String>),
    /// Targets that the catalog does not bear out.
    #[error("{}", .0.join("; "))]
    Targets(Vec<String>),
    /// The database role may not do what the consumer needs; what to issue.
    #[error("database {place}: this role may not do what the consumer needs; have its owner issue: {} (docs/database-roles.md)", .grants.join("; "))]
    Rights {
        /// Where.
        place: String,
        /// The statements.
        grants: Vec<String>,
    },
    /// The broker cannot be asked about the consumer's topics.
    #[error("Kafka {servers} does not answer, asking again until it does: {why}")]
    Away {
        /// Where.
        servers: String,
        /// In the client's words.
        why: String,
    },
    /// Somebody who was asked, and whose silence nobody noticed.
    #[error("{what}: no answer for {lasted} s, asking again")]
    Stuck {
        /// What the start was about.
        what: String,
        /// Seconds.
        lasted: u64,
    },
    /// None of the consumer's topics is there; each with the way out.
    #[error("{}", .0.join("; "))]
    NoTopic(Vec<String>),
    /// The plugin answers golden cases otherwise than they say.
    #[error("{0}")]
    Cases(String),
    /// Another plugin than an operator has chosen.
    #[error("{wanted} is {chosen}, but {found} is what is found by now: nothing is changed")]
    OtherPlugin {
        /// What was chosen, in words.
        wanted: &'static str,
        /// Which that is.
        chosen: String,
        /// The digest of what is there.
        found: String,
    },
    /// The plugin's keys are not the ledger's.
    #[error("{0}")]
    Keys(Box<Refusal>),
    /// The plugin.
    #[error("{0}")]
    Plugin(#[from] PluginError),
    /// The source.
    #[error("{0}")]
    Source(#[from] SourceError),
    /// The system gives no thread.
    #[error("start a thread: {0}")]
    Thread(#[from] io::Error),
}

fn database_words(error: &StoreError) -> String {
    match error.refused() {
        Some((what, way_out)) => format!("{what}: {error}; {way_out}"),
        None => error.to_string(),
    }
}

impl StartError {
    /// Transient: try again.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Store(error) => error.class(),
            Self::Plugin(error) => error.class(),
            Self::Source(error) => error.class(),
            Self::Away { .. } | Self::Stuck { .. } | Self::NoTopic(_) => Class::Transient,
            Self::NoSuch { .. }
            | Self::Cases(_)
            | Self::Keys(_)
            | Self::OtherPlugin { .. }
            | Self::Refused { .. }
            | Self::Rights { .. }
            | Self::Targets(_)
            | Self::Retention(_)
            | Self::Thread(_) => Class::Fatal,
        }
    }

    /// Who has to put right what does not pass by itself.
    #[must_use]
    pub fn fault(&self) -> Fault {
        let configuration = match self {
            Self::Store(error) => error.refused().is_some() || error.statement == Statement::Catalog,
            Self::Plugin(error) => !matches!(error, PluginError::Host { .. }),
            Self::Thread(_) | Self::Away { .. } | Self::Stuck { .. } => false,
            _ => true,
        };
        if configuration { Fault::Configuration } else { Fault::Environment }
    }

    /// What tells one trouble from another, whatever words it comes in.
    pub(super) fn trouble(&self) -> String {
        match self {
            Self::Away { servers, .. } => servers.clone(),
            Self::Stuck { what, .. } => what.clone(),
            other => other.to_string(),
        }
    }
}

/// Why a consumer ended that nobody told to. The worst is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It did not start: configuration, plugin, or what the database has of tables and schema.
    Configuration,
    /// It did not start: the machine, the database.
    Environment,
    /// It ran.
    Running,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_to_put_it_right() {
        let configuration = [
            StartError::Refused { place: "db".into(), refusal: "run `tidegate migrate`".into() },
            StartError::Targets(vec!["no unique index".into()]),
            StartError::Retention(vec!["too short".into()]),
            StartError::Plugin(PluginError::Load { path: "x.wasm".into(), message: "there is no such file".into() }),
            StartError::Store(StoreError::fatal(Statement::Catalog, "table t", "there is no such table")),
        ];
        for error in configuration {
            assert_eq!((error.class(), error.fault()), (Class::Fatal, Fault::Configuration), "{error}");
        }
        let refused = StoreError {
            sqlstate: Some("3D000".to_owned()),
            ..StoreError::fatal(Statement::Connect, "connect to db:5432/shop", "database \"shop\" does not exist")
        };
        let refused = StartError::Store(refused);
        assert_eq!((refused.class(), refused.fault()), (Class::Fatal, Fault::Configuration));
        assert!(refused.to_string().contains("CREATE DATABASE"), "{refused}");
        let environment = [
            StartError::Thread(io::Error::other("no thread")),
            StartError::Store(StoreError::fatal(Statement::Connect, "lock", "another process")),
            StartError::Plugin(PluginError::Host { message: "panic".into() }),
        ];
        for error in environment {
            assert_eq!((error.class(), error.fault()), (Class::Fatal, Fault::Environment), "{error}");
        }
        let away = |why: &str| StartError::Away { servers: "a:1".into(), why: why.into() };
        assert_eq!((away("x").class(), away("x").trouble()), (Class::Transient, away("y").trouble()));
    }
}
