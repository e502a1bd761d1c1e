//! An asynchronous standby of a test's own PostgreSQL: stopped from receiving it lags, and promoted it lacks what it has not
//! received. (Pausing *replay* loses nothing: a promotion replays all that was received.)

use std::path::Path;

use sqlx::{Connection, Executor, PgConnection};

use crate::{
    services::{Postgres, ServiceError},
    wait,
};

/// A server that follows another one.
#[derive(Debug)]
pub struct Standby {
    server: Postgres,
    conninfo: String,
}

impl Standby {
    /// Copies the primary, and follows it.
    ///
    /// # Errors
    /// Where the copy fails or does not start.
    pub async fn of(primary: &Postgres, folder: &Path) -> Result<Self, ServiceError> {
        let server = primary.start_standby(folder)?;
        let conninfo = text(&server, "SELECT current_setting('primary_conninfo')").await;
        Ok(Self { server, conninfo })
    }

    /// The server, for reading.
    #[must_use]
    pub fn server(&self) -> &Postgres {
        &self.server
    }

    /// Waits until it has replayed all that the primary has written by now.
    ///
    /// # Panics
    /// Where it does not get there.
    pub async fn caught_up(&self, primary: &Postgres) {
        let end = text(primary, "SELECT pg_current_wal_flush_lsn()::text").await;
        let at = format!("SELECT (pg_last_wal_replay_lsn() >= '{end}'::pg_lsn)::text");
        wait::until_true("the standby has all", async || text(&self.server, &at).await == "true").await;
    }

    /// Receives nothing more: what the primary commits from now on is not on the standby.
    ///
    /// # Panics
    /// Where the server does not answer.
    pub async fn stop_receiving(&self) {
        self.follow("").await;
        let receivers = "SELECT count(*)::text FROM pg_stat_wal_receiver";
        wait::until_true("nothing is received", async || text(&self.server, receivers).await == "0").await;
    }

    /// Receives again, also what it has missed.
    ///
    /// # Panics
    /// Where the server does not answer.
    pub async fn go_on_receiving(&self) {
        self.follow(&self.conninfo).await;
    }

    /// Receives, but shows nothing of it, until [`Self::go_on_replaying`] or a promotion.
    ///
    /// # Panics
    /// Where the server does not answer.
    pub async fn pause_replaying(&self) {
        run(&self.server, "SELECT pg_wal_replay_pause()").await;
    }

    /// Shows again what it receives.
    ///
    /// # Panics
    /// Where the server does not answer.
    pub async fn go_on_replaying(&self) {
        run(&self.server, "SELECT pg_wal_replay_resume()").await;
    }

    /// Becomes a primary with what it has.
    ///
    /// # Panics
    /// Where it does not within a minute.
    pub async fn promote(self) -> Postgres {
        assert_eq!(text(&self.server, "SELECT pg_promote(true, 60)::text").await, "true", "it is not promoted");
        self.server
    }

    async fn follow(&self, conninfo: &str) {
        let quoted = conninfo.replace('\'', "''");
        run(&self.server, &format!("ALTER SYSTEM SET primary_conninfo = '{quoted}'")).await;
        run(&self.server, "SELECT pg_reload_conf()").await;
    }
}

async fn run(server: &Postgres, sql: &str) {
    let mut connection = PgConnection::connect(&server.url()).await.unwrap();
    let done = connection.execute(sqlx::AssertSqlSafe(sql.to_owned())).await;
    done.unwrap_or_else(|error| panic!("{error}\nin: {sql}"));
}

async fn text(server: &Postgres, sql: &str) -> String {
    let mut connection = PgConnection::connect(&server.url()).await.unwrap();
    let text: Option<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(sql.to_owned()))
        .fetch_one(&mut connection)
        .await
        .unwrap_or_else(|error| panic!("{error}\nin: {sql}"));
    text.unwrap_or_default()
}
