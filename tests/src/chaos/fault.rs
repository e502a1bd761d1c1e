//! The faults that a walk may inject. Plain values: `schedule` draws them, the actors carry them out.

use std::{fmt, time::Duration};

/// Who injects a fault. Each works through a course of its own, beside the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// Kills, stops and freezes the host of this number.
    Host(usize),
    /// Disturbs what goes between the host of this number and the database.
    Link(usize),
    /// Disturbs what goes between the hosts and the broker.
    Wire,
    /// Stops and kills the database server.
    Database,
    /// Another session on the database, with locks and connections of its own.
    Rival,
    /// Stops and kills the broker.
    Broker,
    /// An operator of Kafka: partitions, offsets, topics.
    Operator,
}

/// Which side of a host a link leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// PostgreSQL.
    Database,
    /// Kafka.
    Broker,
}

/// Where a connection is cut around a COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cut {
    /// COMMIT never reaches the server.
    Before,
    /// Half of COMMIT's bytes reach the server.
    During,
    /// The server has COMMIT, its answer is dropped.
    After,
}

/// How a server goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Down {
    /// In good order.
    Stop,
    /// At once, by the server's own means ("immediate" shutdown).
    Crash,
    /// SIGKILL.
    Kill,
}

/// What the operator does to the group's offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reset {
    /// They are deleted with the group.
    Deleted,
    /// Each is set back by so many records.
    Back(i64),
    /// Each is set to the end of its partition: a mistake that would lose everything in between.
    ToEnd,
}

/// One fault, with its measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL; started again after a pause.
    Kill {
        /// Also while it is starting; otherwise it is given the time to begin its work.
        early: bool,
        /// How long nobody runs in its place.
        away: Duration,
    },
    /// SIGTERM; started again after a pause.
    Terminate {
        /// Also while it is starting; otherwise it is given the time to begin its work.
        early: bool,
        /// How long nobody runs in its place.
        away: Duration,
    },
    /// SIGSTOP, then SIGCONT.
    Freeze {
        /// In between.
        asleep: Duration,
    },
    /// Every connection of a link is closed.
    Sever(Side),
    /// The next COMMIT on the link is cut.
    CutCommit(Cut),
    /// What passes the link comes late.
    Delay {
        /// On which side.
        side: Side,
        /// By how much.
        by: Duration,
        /// For how long.
        lasting: Duration,
    },
    /// Connections stay open and nothing passes.
    HalfOpen {
        /// On which side.
        side: Side,
        /// For how long.
        lasting: Duration,
    },
    /// The database server goes down and comes back.
    DatabaseDown {
        /// How.
        how: Down,
        /// How long it is away.
        away: Duration,
    },
    /// The primary is killed, and a standby that lacks its last transactions is promoted.
    Promote {
        /// For how long the standby received nothing.
        behind: Duration,
    },
    /// The database's volume is full.
    DiskFull {
        /// For how long.
        lasting: Duration,
    },
    /// The rows that are written most are locked.
    LockRows {
        /// For how long; the product waits two seconds for a lock.
        lasting: Duration,
    },
    /// Two rows are locked in the order that nobody else takes, so that somebody is a deadlock's victim.
    Deadlock,
    /// Statements on a table are refused with a code that passes.
    Refuse {
        /// The SQLSTATE.
        code: &'static str,
        /// On which table.
        table: &'static str,
        /// For how long.
        lasting: Duration,
    },
    /// The hosts' role gets no connection; those it has are closed.
    NoConnections {
        /// For how long.
        lasting: Duration,
    },
    /// A host's backend is terminated.
    Terminated,
    /// A host's statement is cancelled.
    Cancelled,
    /// The broker goes down and comes back.
    BrokerDown {
        /// How.
        how: Down,
        /// How long it is away.
        away: Duration,
    },
    /// The topic gets one more partition.
    AddPartition,
    /// The group's offsets are changed while no host runs.
    ResetOffsets(Reset),
    /// The plugin's file is replaced by another build of it.
    ReplacePlugin,
    /// The topic is deleted and made again, and the change accepted by `tidegate seek`.
    RecreateTopic,
}

impl Fault {
    /// The kind, for figures.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Kill { .. } => "host: kill -9",
            Self::Terminate { .. } => "host: SIGTERM",
            Self::Freeze { asleep } if *asleep >= LONG_SLEEP => "host: SIGSTOP past every time-out",
            Self::Freeze { .. } => "host: SIGSTOP, short",
            Self::Sever(Side::Database) => "link: database connections cut",
            Self::Sever(Side::Broker) => "wire: connections cut",
            Self::CutCommit(Cut::Before) => "link: cut before COMMIT",
            Self::CutCommit(Cut::During) => "link: cut within COMMIT",
            Self::CutCommit(Cut::After) => "link: cut after COMMIT was forwarded",
            Self::Delay { side: Side::Database, .. } => "link: slow database",
            Self::Delay { side: Side::Broker, .. } => "wire: slow",
            Self::HalfOpen { side: Side::Database, .. } => "link: half-open to the database",
            Self::HalfOpen { side: Side::Broker, .. } => "wire: half-open",
            Self::DatabaseDown { how: Down::Stop, .. } => "database: restart, fast",
            Self::DatabaseDown { how: Down::Crash, .. } => "database: restart, immediate",
            Self::DatabaseDown { how: Down::Kill, .. } => "database: kill -9",
            Self::Promote { .. } => "database: promotion of a lagging standby",
            Self::DiskFull { .. } => "database: disk full",
            Self::LockRows { .. } => "rival: rows locked",
            Self::Deadlock => "rival: deadlock",
            Self::Refuse { code: "40001", .. } => "rival: serialization failure",
            Self::Refuse { .. } => "rival: statements refused",
            Self::NoConnections { .. } => "rival: no connections left",
            Self::Terminated => "rival: backend terminated",
            Self::Cancelled => "rival: statement cancelled",
            Self::BrokerDown { how: Down::Stop, .. } => "broker: restart",
            Self::BrokerDown { .. } => "broker: kill -9",
            Self::AddPartition => "operator: partition added",
            Self::ResetOffsets(Reset::Deleted) => "operator: offsets deleted",
            Self::ResetOffsets(_) => "operator: offsets reset",
            Self::ReplacePlugin => "operator: plugin replaced",
            Self::RecreateTopic => "operator: topic made again",
        }
    }
}

/// From here on a sleep is longer than session time-out and `max.poll.interval.ms` of every host of a walk.
pub const LONG_SLEEP: Duration = Duration::from_secs(7);

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(number) => write!(f, "host {number}"),
            Self::Link(number) => write!(f, "link {number}"),
            Self::Wire => f.write_str("wire"),
            Self::Database => f.write_str("database"),
            Self::Rival => f.write_str("rival"),
            Self::Broker => f.write_str("broker"),
            Self::Operator => f.write_str("operator"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind().split_once(": ").map_or(self.kind(), |(_, what)| what);
        f.write_str(kind)?;
        match self {
            Self::Kill { away, .. }
            | Self::Terminate { away, .. }
            | Self::DatabaseDown { away, .. }
            | Self::BrokerDown { away, .. } => write!(f, ", away for {} ms", away.as_millis()),
            Self::Freeze { asleep } => write!(f, ", for {} ms", asleep.as_millis()),
            Self::Delay { by, lasting, .. } => write!(f, ", by {} ms for {} ms", by.as_millis(), lasting.as_millis()),
            Self::HalfOpen { lasting, .. }
            | Self::DiskFull { lasting }
            | Self::LockRows { lasting }
            | Self::NoConnections { lasting } => write!(f, ", for {} ms", lasting.as_millis()),
            Self::Promote { behind } => write!(f, ", {} ms behind", behind.as_millis()),
            Self::Refuse { code, table, lasting } => {
                write!(f, ", {code} on {table} for {} ms", lasting.as_millis())
            }
            Self::ResetOffsets(Reset::Back(records)) => write!(f, ", back by {records}"),
            Self::ResetOffsets(Reset::ToEnd) => f.write_str(", to the end"),
            _ => Ok(()),
        }
    }
}
