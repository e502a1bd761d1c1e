//! A PostgreSQL database per test.

use std::{env, thread, time::Duration};

use async_trait::async_trait;
use sqlx::{Connection, Executor, PgConnection, PgPool, postgres::PgPoolOptions};
use tidegate::config::Dialect;
use uuid::Uuid;

use crate::sql::{Sql, as_text, decoded, scalar};

/// A fresh, empty database. Dropped, with its connections, at the end of the test.
#[derive(Debug)]
pub struct Database {
    server: String,
    name: String,
    url: String,
    pool: PgPool,
}

/// A fresh database on the server of `DATABASE_URL`.
///
/// # Panics
/// Where there is no server, with the command that starts one.
pub async fn postgres() -> Database {
    let server = env::var("DATABASE_URL").unwrap_or_else(|_| {
        panic!(
            "DATABASE_URL is not set. `make test` starts PostgreSQL and Kafka for all tests; for single ones run \
             `make services` in another terminal and export what it prints"
        )
    });
    Database::on(&server).await
}

impl Database {
    /// A fresh database on this server.
    ///
    /// # Panics
    /// Where the server does not answer or refuses.
    pub async fn on(server: &str) -> Self {
        let name = format!("t_{}", Uuid::now_v7().simple());
        run(server, &format!("CREATE DATABASE {name}")).await.unwrap_or_else(|error| {
            panic!(
                "no database on the server of DATABASE_URL ({error}): start one by `make services`, or run `make test`"
            )
        });
        let url = with_database(server, &name);
        // A server that is down refuses at once, and the pool asks again until this is over.
        let patience = Duration::from_secs(10);
        let pool = PgPoolOptions::new().max_connections(4).acquire_timeout(patience).connect_lazy(&url).unwrap();
        Self { server: server.to_owned(), name, url, pool }
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its URL for another role.
    #[must_use]
    pub fn url_as(&self, role: &str, password: &str) -> String {
        with_role(&self.url, role, password)
    }

    /// A pool of connections to it, for the test's own questions.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Runs statements, separated by semicolons.
    ///
    /// # Panics
    /// Where one fails.
    pub async fn execute(&self, sql: &str) {
        // Tests write their own statements; there is no foreign text in them.
        let statements = sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()));
        self.pool.execute(statements).await.unwrap_or_else(|error| panic!("{error}\nin: {sql}"));
    }

    /// [`Sql::number`].
    ///
    /// # Panics
    /// Where it fails, or gives something else.
    pub async fn number(&self, sql: &str) -> i64 {
        self.try_number(sql).await.unwrap_or_else(|error| panic!("{error}\nin: {sql}"))
    }

    /// [`Self::number`], for a server that may be down or a table that may not be there yet.
    ///
    /// # Errors
    /// The database's.
    pub async fn try_number(&self, sql: &str) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar(sqlx::AssertSqlSafe(scalar(sql))).fetch_one(&self.pool).await
    }
}

#[async_trait]
impl Sql for Database {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn url(&self) -> &str {
        Self::url(self)
    }

    async fn execute(&self, sql: &str) {
        Self::execute(self, sql).await;
    }

    async fn integers(&self, sql: &str) -> Result<Vec<Vec<i64>>, sqlx::Error> {
        decoded(&sqlx::query(sqlx::AssertSqlSafe(sql.to_owned())).fetch_all(&self.pool).await?)
    }

    async fn texts(&self, sql: &str) -> Vec<String> {
        let found = sqlx::query_scalar(as_text(sql)).fetch_all(&self.pool).await;
        found.unwrap_or_else(|error| panic!("{error}\nin: {sql}"))
    }
}

/// A database as it was at some moment.
#[derive(Debug)]
pub struct Snapshot {
    copy: Database,
}

impl Database {
    /// Copies the database as it is. Whoever is connected is thrown out, so hosts should be stopped.
    ///
    /// # Panics
    /// Where the server refuses.
    pub async fn snapshot(&self) -> Snapshot {
        let copy = Self::on(&self.server).await;
        self.replace(&copy.name, &self.name).await;
        Snapshot { copy }
    }

    /// Puts the database back to a snapshot, as a restore from a backup, or a failover to a standby that lagged, does.
    ///
    /// # Panics
    /// Where the server refuses.
    pub async fn restore(&self, snapshot: &Snapshot) {
        self.replace(&self.name, &snapshot.copy.name).await;
    }

    /// Drops `old` and makes it anew as a copy of `template`.
    async fn replace(&self, old: &str, template: &str) {
        let evict =
            format!("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{template}'");
        let drop = format!("DROP DATABASE {old} WITH (FORCE)");
        let copy = format!("CREATE DATABASE {old} TEMPLATE {template}");
        for statement in [evict, drop, copy] {
            run(&self.server, &statement).await.unwrap_or_else(|error| panic!("{error}\nin: {statement}"));
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if keep() {
            eprintln!("kept: {}", self.url);
            return;
        }
        let (server, statement) = (self.server.clone(), format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
        // A thread of its own: a destructor cannot wait inside the test's runtime. What fails here is the server's end.
        let _ = thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .is_ok_and(|runtime| runtime.block_on(run(&server, &statement)).is_ok())
        })
        .join();
    }
}

/// Whether databases and topics of failed tests stay for a person to look at: TIDEGATE_KEEP=1, with `make services`.
pub(crate) fn keep() -> bool {
    thread::panicking() && env::var_os("TIDEGATE_KEEP").is_some()
}

async fn run(server: &str, statement: &str) -> Result<(), sqlx::Error> {
    let mut connection = PgConnection::connect(server).await?;
    connection.execute(sqlx::AssertSqlSafe(statement.to_owned())).await?;
    connection.close().await
}

/// The URL with another database's name in it.
fn with_database(url: &str, name: &str) -> String {
    let (base, parameters) = url.split_once('?').map_or((url, None), |(base, rest)| (base, Some(rest)));
    let host_from = base.find("://").map_or(0, |at| at + 3);
    let path_from = base[host_from..].find('/').map_or(base.len(), |at| host_from + at);
    let parameters = parameters.map(|rest| format!("?{rest}")).unwrap_or_default();
    format!("{}/{name}{parameters}", &base[..path_from])
}

/// The URL with another role in it.
fn with_role(url: &str, role: &str, password: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
    let authority = rest.split('/').next().unwrap_or(rest);
    let host = rest[..authority.len()].rsplit_once('@').map_or(0, |(user, _)| user.len() + 1);
    format!("{scheme}://{role}:{password}@{}", &rest[host..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_role_on_the_same_database() {
        for (url, expected) in [
            ("postgres://u@h:1/d", "postgres://r:p@h:1/d"),
            ("postgres://u:x%40y@h/d?a=b@c", "postgres://r:p@h/d?a=b@c"),
            ("postgres://h/d", "postgres://r:p@h/d"),
        ] {
            assert_eq!(with_role(url, "r", "p"), expected);
        }
    }

    #[test]
    fn another_database_on_the_same_server() {
        for (url, expected) in [
            ("postgres://u@h:1/postgres", "postgres://u@h:1/x"),
            ("postgres://u@h:1", "postgres://u@h:1/x"),
            ("postgres://u:p@h/db?sslmode=disable", "postgres://u:p@h/x?sslmode=disable"),
        ] {
            assert_eq!(with_database(url, "x"), expected);
        }
    }
}
