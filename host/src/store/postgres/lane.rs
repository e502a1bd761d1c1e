//! One connection and what is known about its state.

use std::{collections::HashMap, sync::Arc, time::Duration};

use sqlx::{
    Connection as _, Executor, PgConnection, Row, SqlStr,
    postgres::{PgConnectOptions, PgRow},
};

use super::{
    super::{ConsumerState, Statement, StoreError, registration::unregistered, sqlstate},
    array::PgQuery,
    fault::store_error,
    rights::with_way_out,
    session::{Timeouts, begin},
    write::TargetSet,
};
use crate::{class::Class, identity::ConsumerName};

/// The class of advisory locks that this program takes: "tidg" as a number.
pub(super) const LOCK_CLASS: i32 = 1_953_064_039;

/// A day: longer than anything that a person waits for.
const NO_LIMIT: Duration = Duration::from_secs(86_400);
/// For a connection, with TLS and whatever the server asks for.
const CONNECT: Duration = Duration::from_secs(10);

/// The driver's answer, or an I/O error where none comes. The connection is then in the middle of something, and whoever
/// reads the error as the I/O error that it is never uses it again.
pub(super) async fn answer<T, E: From<sqlx::Error>>(
    patience: Duration,
    asked: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    tokio::time::timeout(patience, asked).await.unwrap_or_else(|_| {
        let text = format!("the server has not answered for {} s", patience.as_secs());
        Err(sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, text)).into())
    })
}

/// A connection, owned by one lane.
#[derive(Debug)]
pub(super) struct Lane {
    connection: PgConnection,
    timeouts: Timeouts,
    /// Who we are to the server.
    role: String,
    /// An error left the connection in an unknown state: nothing goes through it any more.
    lost: bool,
    /// A statement of the open transaction failed: it can only be rolled back (or back to a savepoint).
    failed: bool,
    /// Whether a transaction was committed here: prepared statements have fitted their tables before.
    proven: bool,
    /// Numbers of the consumers' advisory locks.
    locks: HashMap<ConsumerName, i32>,
    /// The statements of the targets written last.
    pub(super) targets: Option<Arc<TargetSet>>,
    /// How their tables' columns were when they were last held against the targets.
    pub(super) definition: Option<String>,
}

impl Lane {
    /// Connects.
    pub(super) async fn connect(
        options: &PgConnectOptions,
        place: &str,
        timeouts: Timeouts,
    ) -> Result<Self, StoreError> {
        let connection = answer(CONNECT, PgConnection::connect_with(options))
            .await
            .map_err(|error| store_error(Statement::Connect, &format!("connect to {place}"), error))?;
        Ok(Self {
            connection,
            timeouts,
            role: options.get_username().to_owned(),
            lost: false,
            failed: false,
            proven: false,
            locks: HashMap::new(),
            targets: None,
            definition: None,
        })
    }

    /// For what the driver does by itself (migrations).
    pub(super) fn driver(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// Who we are to the server.
    pub(super) fn role(&self) -> &str {
        &self.role
    }

    /// How long an answer is waited for: longer than the server lets a statement or an idle transaction live, so that
    /// only a server that is gone without a word (a cut cable, a dead machine) is given up. Work that has no time-out on
    /// the server has none here.
    fn patience(&self, statement: Statement) -> Duration {
        match statement {
            Statement::Report | Statement::Migrate => NO_LIMIT,
            Statement::Catalog => self.brief(),
            _ => self.timeouts.statement + self.timeouts.idle,
        }
    }

    /// How long the answer to a question about tables or a few rows is waited for, whatever asks it: a start, a reload or a
    /// lane would otherwise hang for good. They take no time; but a lock of somebody who alters a table may be in their way.
    pub(super) fn brief(&self) -> Duration {
        (self.timeouts.statement + self.timeouts.idle) * 2
    }

    fn usable(&self, statement: Statement, context: &str) -> Result<(), StoreError> {
        if !self.lost {
            return Ok(());
        }
        let mut error = StoreError::transient(statement, context, "the connection was lost before");
        error.connection_lost = true;
        Err(error)
    }

    /// Remembers what an error does to the connection, and judges what only the connection's history can tell.
    fn note(&mut self, statement: Statement, context: &str, error: sqlx::Error) -> StoreError {
        let mut error = with_way_out(store_error(statement, context, error), &self.role);
        self.failed = true;
        match error.sqlstate.as_deref() {
            // Statements that fitted before no longer do: the table was altered. A fresh connection prepares afresh.
            // Nothing is planned here: it is a standby, which takes no writes. It becomes a primary, or another one comes
            // in its place; then through another connection.
            Some(sqlstate::CACHED_PLAN) if statement == Statement::Begin => error.connection_lost = true,
            Some(sqlstate::CACHED_PLAN) if self.proven => error.connection_lost = true,
            Some(sqlstate::CACHED_PLAN) => error.class = Class::Fatal,
            Some("26000") => error.connection_lost = true,
            _ => {}
        }
        self.lost |= error.connection_lost;
        error
    }

    /// Runs a prepared statement; answers how many rows it touched.
    pub(super) async fn run(
        &mut self,
        statement: Statement,
        context: &str,
        query: PgQuery<'_>,
    ) -> Result<u64, StoreError> {
        self.usable(statement, context)?;
        match answer(self.patience(statement), query.execute(&mut self.connection)).await {
            Ok(done) => Ok(done.rows_affected()),
            Err(error) => Err(self.note(statement, context, error)),
        }
    }

    /// Runs a prepared statement; answers its rows.
    pub(super) async fn rows(
        &mut self,
        statement: Statement,
        context: &str,
        query: PgQuery<'_>,
    ) -> Result<Vec<PgRow>, StoreError> {
        self.rows_in(self.patience(statement), statement, context, query).await
    }

    /// [`Self::rows`] where there are few, also of a statement that may take as long as it likes elsewhere.
    pub(super) async fn few_rows(
        &mut self,
        statement: Statement,
        context: &str,
        query: PgQuery<'_>,
    ) -> Result<Vec<PgRow>, StoreError> {
        self.rows_in(self.brief(), statement, context, query).await
    }

    async fn rows_in(
        &mut self,
        patience: Duration,
        statement: Statement,
        context: &str,
        query: PgQuery<'_>,
    ) -> Result<Vec<PgRow>, StoreError> {
        self.usable(statement, context)?;
        match answer(patience, query.fetch_all(&mut self.connection)).await {
            Ok(rows) => Ok(rows),
            Err(error) => Err(self.note(statement, context, error)),
        }
    }

    /// Sends statements without values in one message; answers all their rows.
    pub(super) async fn send(
        &mut self,
        statement: Statement,
        context: &str,
        sql: SqlStr,
    ) -> Result<Vec<PgRow>, StoreError> {
        self.usable(statement, context)?;
        match answer(self.patience(statement), (&mut self.connection).fetch_all(sqlx::raw_sql(sql))).await {
            Ok(rows) => Ok(rows),
            Err(error) => Err(self.note(statement, context, error)),
        }
    }

    /// A value of a row. A row that is not as asked for is a defect.
    pub(super) fn get<'r, T>(row: &'r PgRow, index: usize, statement: Statement, context: &str) -> Result<T, StoreError>
    where
        T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        row.try_get(index).map_err(|error| StoreError::fatal(statement, context, error.to_string()))
    }

    /// Opens a transaction with all its settings, in one message with `first`.
    pub(super) async fn open(&mut self, context: &str, first: &str) -> Result<Vec<PgRow>, StoreError> {
        self.failed = false;
        let sql = format!("{}{first}", begin(&self.timeouts));
        self.send(Statement::Begin, context, safe(sql)).await
    }

    /// See [`super::super::Connection::begin`].
    pub(super) async fn begin(&mut self, consumer: &ConsumerName) -> Result<ConsumerState, StoreError> {
        const CONTEXT: &str = "begin";
        let lock = self.lock_number(consumer).await?;
        // The consumer's row is read by a statement after the lock: one snapshot for both would be older than the lock.
        let first = format!(
            "SELECT pg_advisory_xact_lock_shared({LOCK_CLASS}, {lock}); \
             SELECT key_version, CASE WHEN horizon = '-infinity' THEN {} \
             ELSE (extract(epoch FROM horizon) * 1000000)::bigint END, \
             EXISTS (SELECT FROM dead_letters d WHERE d.consumer_name = c.consumer_name AND d.status = 'open') \
             FROM consumers c WHERE lock_no = {lock}",
            i64::MIN
        );
        let rows = self.open(CONTEXT, &first).await?;
        let Some(row) = rows.last().filter(|_| rows.len() == 2) else {
            self.locks.remove(consumer);
            self.failed = true;
            return Err(unregistered(Statement::Begin, consumer));
        };
        Ok(ConsumerState {
            key_version: Self::get(row, 0, Statement::Begin, CONTEXT)?,
            horizon_us: Self::get(row, 1, Statement::Begin, CONTEXT)?,
            open_dead_letters: Self::get(row, 2, Statement::Begin, CONTEXT)?,
        })
    }

    async fn lock_number(&mut self, consumer: &ConsumerName) -> Result<i32, StoreError> {
        if let Some(number) = self.locks.get(consumer) {
            return Ok(*number);
        }
        const CONTEXT: &str = "look up the consumer's lock";
        let query = sqlx::query("SELECT lock_no FROM consumers WHERE consumer_name = $1").bind(consumer.as_str());
        let rows = self.rows(Statement::Begin, CONTEXT, query).await?;
        let Some(row) = rows.first() else { return Err(unregistered(Statement::Begin, consumer)) };
        let number = Self::get(row, 0, Statement::Begin, CONTEXT)?;
        self.locks.insert(consumer.clone(), number);
        Ok(number)
    }

    /// See [`super::super::Connection::commit`]. The driver reports success where the server answered ROLLBACK, so its
    /// word is never relied on: a transaction in which a statement failed is not committed, and the statement before
    /// COMMIT in the same message fails in a transaction that can only roll back.
    pub(super) async fn commit(&mut self) -> Result<(), StoreError> {
        const CONTEXT: &str = "commit";
        if self.failed {
            let text = "a statement of this transaction failed: it can only be rolled back";
            return Err(StoreError::fatal(Statement::Commit, CONTEXT, text));
        }
        self.send(Statement::Commit, CONTEXT, SqlStr::from_static("SET CONSTRAINTS ALL IMMEDIATE; COMMIT")).await?;
        self.proven = true;
        Ok(())
    }

    /// Commits what was done; rolls back where there was nothing to do, or it failed.
    pub(super) async fn end<T>(&mut self, done: Result<Option<T>, StoreError>) -> Result<Option<T>, StoreError> {
        match &done {
            Ok(Some(_)) => self.commit().await?,
            Err(error) if error.connection_lost => {}
            Ok(None) | Err(_) => self.rollback().await?,
        }
        done
    }

    /// See [`super::super::Connection::rollback`].
    pub(super) async fn rollback(&mut self) -> Result<(), StoreError> {
        self.send(Statement::Rollback, "roll back", SqlStr::from_static("ROLLBACK")).await?;
        self.failed = false;
        Ok(())
    }

    /// See [`super::super::Connection::savepoint`].
    pub(super) async fn savepoint(&mut self) -> Result<(), StoreError> {
        self.send(Statement::Savepoint, "open a savepoint", SqlStr::from_static("SAVEPOINT s")).await.map(drop)
    }

    /// See [`super::super::Connection::release`].
    pub(super) async fn release(&mut self) -> Result<(), StoreError> {
        // Again: a user's trigger may have deferred what BEGIN made immediate.
        let sql = SqlStr::from_static("SET CONSTRAINTS ALL IMMEDIATE; RELEASE SAVEPOINT s");
        self.send(Statement::Deferred, "check what was deferred", sql).await.map(drop)
    }

    /// See [`super::super::Connection::rollback_to_savepoint`].
    pub(super) async fn rollback_to_savepoint(&mut self) -> Result<(), StoreError> {
        let sql = SqlStr::from_static("ROLLBACK TO SAVEPOINT s; RELEASE SAVEPOINT s");
        self.send(Statement::Savepoint, "go back to the savepoint", sql).await?;
        self.failed = false;
        Ok(())
    }

    /// Raises what was deferred.
    pub(super) async fn check_deferred(&mut self) -> Result<(), StoreError> {
        let sql = SqlStr::from_static("SET CONSTRAINTS ALL IMMEDIATE");
        self.send(Statement::Deferred, "check what was deferred", sql).await.map(drop)
    }
}

/// Text that this module put together from numbers and constants.
pub(super) fn safe(sql: String) -> SqlStr {
    use sqlx::SqlSafeStr;
    sqlx::AssertSqlSafe(sql).into_sql_str()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test's panic is its failure")]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[tokio::test]
    async fn a_server_that_goes_away_while_it_greets_is_tried_again() {
        let timeouts = Timeouts::default();
        // Nothing; no TLS and nothing; half of a message that asks for a password.
        for greeting in [&b""[..], b"N", b"NR\0\0"] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("postgres://u@{}/d", listener.local_addr().unwrap());
            let server = std::thread::spawn(move || {
                let (mut client, _) = listener.accept().unwrap();
                let _ = client.read(&mut [0; 64]).unwrap();
                client.write_all(greeting).unwrap();
            });
            let options = super::super::session::connect_options(&url, &timeouts).unwrap();
            let error = Lane::connect(&options, "here", timeouts).await.unwrap_err();
            assert_eq!(error.class(), Class::Transient, "after {greeting:?}: {error}");
            assert!(error.connection_lost);
            server.join().unwrap();
        }
    }

    /// Greets, lets its client in, and is silent from then on: a connection that has lost its other end looks like this.
    fn silent() -> (String, std::thread::JoinHandle<()>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("postgres://u@{}/d?sslmode=disable", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let _ = client.read(&mut [0; 512]).unwrap();
            client.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").unwrap();
            while client.read(&mut [0; 512]).is_ok_and(|read| read > 0) {}
        });
        (url, server)
    }

    /// Each of these is asked by a start: none may hang for good.
    #[tokio::test]
    async fn no_question_of_a_start_waits_for_a_silent_server_for_ever() {
        let moment = Duration::from_millis(40);
        let timeouts = Timeouts { lock: moment, statement: moment, idle: moment, tcp: moment };
        let consumer = ConsumerName::new("c").unwrap();
        let table = crate::merge::TableName { schema: None, name: "t".to_owned() };
        for question in ["schema", "table", "rights", "consumers", "keys"] {
            let (url, server) = silent();
            let options = super::super::session::connect_options(&url, &timeouts).unwrap();
            let mut lane = Lane::connect(&options, "here", timeouts).await.unwrap();
            let answer = async {
                match question {
                    "schema" => lane.schema_state().await.map(drop),
                    "table" => lane.table_info(&table).await.map(drop),
                    "rights" => lane.missing_grants(&[]).await.map(drop),
                    "consumers" => lane.consumers(None).await.map(drop),
                    _ => lane.key_state(&consumer).await.map(drop),
                }
            };
            let answer = tokio::time::timeout(Duration::from_secs(60), answer).await;
            let error = answer.unwrap_or_else(|_| panic!("{question}: hangs")).unwrap_err();
            assert_eq!((error.class(), error.connection_lost), (Class::Transient, true), "{question}: {error}");
            drop(lane);
            server.join().unwrap();
        }
    }
}
