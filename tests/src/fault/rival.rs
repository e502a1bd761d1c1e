//! Sessions beside the host's that make its statements fail: by holding what it wants, by a circle of locks, by a trigger
//! that refuses, by taking all connections.

use sqlx::{Connection, Executor, PgConnection, Row};

use crate::{Database, wait};

/// Somebody else's session, with an open transaction.
#[derive(Debug)]
pub struct Rival {
    connection: PgConnection,
    pid: i32,
}

impl Rival {
    /// Opens a transaction in this database.
    ///
    /// # Panics
    /// Where the server refuses.
    pub async fn begin(database: &Database) -> Self {
        let mut connection = PgConnection::connect(database.url()).await.unwrap();
        // Never its own victim: of a circle of locks, the one whose timer comes first is refused.
        connection.execute("BEGIN; SET LOCAL deadlock_timeout = '1h'").await.unwrap();
        let pid = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut connection).await.unwrap();
        Self { connection, pid }
    }

    /// Runs a statement in its transaction, such as one that locks rows; gives how many rows it met.
    ///
    /// # Errors
    /// The database's.
    pub async fn run(&mut self, sql: &str) -> Result<u64, sqlx::Error> {
        Ok(self.connection.execute(sqlx::AssertSqlSafe(sql.to_owned())).await?.rows_affected())
    }

    /// Waits until another session waits for this one; gives its process id.
    ///
    /// # Panics
    /// Where nobody does.
    pub async fn until_waited_for(&self, database: &Database) -> i32 {
        let sql = format!("SELECT pid FROM pg_stat_activity WHERE {} = ANY (pg_blocking_pids(pid))", self.pid);
        let waiting = async || {
            let row = sqlx::query(sqlx::AssertSqlSafe(sql.clone())).fetch_optional(database.pool()).await;
            row.ok().flatten().map(|row| row.get::<i32, _>(0))
        };
        wait::until("somebody waits for the rival", waiting, Option::is_some).await.unwrap()
    }

    /// Closes a circle of locks around whoever waits for this session: runs a statement that has to wait for them. They are
    /// refused (40P01), then the statement goes on.
    ///
    /// # Errors
    /// The database's, where the circle was closed otherwise.
    pub async fn close_the_circle(&mut self, database: &Database, sql: &str) -> Result<u64, sqlx::Error> {
        self.until_waited_for(database).await;
        self.run(sql).await
    }

    /// Lets go of everything.
    ///
    /// # Panics
    /// Where the server is gone.
    pub async fn end(mut self) {
        self.connection.execute("ROLLBACK").await.unwrap();
    }
}

/// A trigger that refuses statements on a table with any SQLSTATE, so many times: serialization failures and whatever else
/// cannot be provoked in a natural way.
#[derive(Debug)]
pub struct Provoked {
    table: String,
}

impl Provoked {
    /// Puts the trigger on a table. It refuses nothing yet.
    ///
    /// # Panics
    /// Where the database refuses.
    pub async fn on(database: &Database, table: &str) -> Self {
        // A sequence: what it counts is not rolled back.
        let sql = format!(
            "CREATE TABLE {table}_provoked (code text NOT NULL, times bigint NOT NULL);
             CREATE SEQUENCE {table}_provoked_times;
             CREATE FUNCTION {table}_provoke() RETURNS trigger LANGUAGE plpgsql AS $$
             DECLARE wanted record;
             BEGIN
               SELECT * INTO wanted FROM {table}_provoked;
               IF FOUND AND nextval('{table}_provoked_times') <= wanted.times THEN
                 RAISE EXCEPTION 'provoked' USING ERRCODE = wanted.code;
               END IF;
               RETURN NULL;
             END $$;
             CREATE TRIGGER {table}_provoke BEFORE INSERT OR UPDATE OR DELETE ON {table}
             FOR EACH STATEMENT EXECUTE FUNCTION {table}_provoke()"
        );
        database.execute(&sql).await;
        Self { table: table.to_owned() }
    }

    /// Refuses the next so many statements with this SQLSTATE.
    ///
    /// # Panics
    /// Where the database refuses.
    pub async fn refuse(&self, database: &Database, sqlstate: &str, times: u32) {
        let table = &self.table;
        let sql = format!(
            "DELETE FROM {table}_provoked; SELECT setval('{table}_provoked_times', 1, false);
             INSERT INTO {table}_provoked VALUES ('{sqlstate}', {times})"
        );
        database.execute(&sql).await;
    }

    /// How many statements were refused since [`Self::refuse`].
    ///
    /// # Panics
    /// Where the database does not answer.
    pub async fn refused(&self, database: &Database) -> i64 {
        let table = &self.table;
        let sql = format!(
            "SELECT least((SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {table}_provoked_times),
             (SELECT max(times) FROM {table}_provoked))"
        );
        database.number(&sql).await
    }

    /// Refuses nothing more.
    ///
    /// # Panics
    /// Where the database refuses.
    pub async fn stop(&self, database: &Database) {
        database.execute(&format!("DELETE FROM {}_provoked", self.table)).await;
    }
}

/// All connections that a server has left. Released on drop.
#[derive(Debug)]
pub struct Crowd(Vec<PgConnection>);

impl Crowd {
    /// Takes connections until the server refuses one for their number (53300).
    ///
    /// # Panics
    /// Where it refuses for another reason.
    pub async fn take_all(url: &str) -> Self {
        let mut taken = Vec::new();
        loop {
            match PgConnection::connect(url).await {
                Ok(connection) => taken.push(connection),
                Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("53300") => return Self(taken),
                Err(other) => panic!("taking connections: {other}"),
            }
        }
    }

    /// How many they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there were none left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
