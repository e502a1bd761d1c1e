//! The demo's own view of the database: a second connection that asks, in SQL that a person could type. What the demo
//! says about a run comes from here and from the broker, never from the host's counters.

use std::{path::Path, time::Duration};

use sqlx::{
    AssertSqlSafe, ConnectOptions, Executor, PgConnection, Row, SqliteConnection,
    postgres::PgConnectOptions,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};
use tokio::sync::Mutex;

use super::error::DemoError;
use crate::config::Secret;

/// The tables that the demo's plugins write. Part of the documentation too.
const TABLES_POSTGRES: &str = include_str!("../../../config/demo/postgres.sql");
const TABLES_SQLITE: &str = include_str!("../../../config/demo/sqlite.sql");

/// A database with the demo's tables in it.
pub(super) struct Database {
    url: Secret,
    shown: String,
    connection: Mutex<Dialect>,
}

enum Dialect {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

impl Database {
    /// A new SQLite file with the demo's tables.
    pub(super) async fn sqlite(file: &Path) -> Result<Self, DemoError> {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(Duration::from_secs(20))
            .disable_statement_logging();
        let connection = options.connect().await.map_err(failed("open the file"))?;
        let url = Secret::new(format!("sqlite://{}", file.display()));
        let database =
            Self { url, shown: file.display().to_string(), connection: Mutex::new(Dialect::Sqlite(connection)) };
        database.run(TABLES_SQLITE, "create the demo's tables").await?;
        Ok(database)
    }

    /// A new schema in a PostgreSQL database, with the demo's tables. Nothing that is there already is touched.
    pub(super) async fn postgres(url: &Secret, schema: &str) -> Result<Self, DemoError> {
        let separator = if url.expose().contains('?') { '&' } else { '?' };
        let scoped = format!("{}{separator}options[search_path]={schema}", url.expose());
        let options: PgConnectOptions =
            scoped.parse::<PgConnectOptions>().map_err(failed("read --database-url"))?.disable_statement_logging();
        let shown = format!(
            "{}:{}/{}, schema {schema}",
            options.get_host(),
            options.get_port(),
            options.get_database().unwrap_or_default()
        );
        let connection = options.connect().await.map_err(failed(&format!("connect to {shown}")))?;
        let database = Self { url: Secret::new(scoped), shown, connection: Mutex::new(Dialect::Postgres(connection)) };
        database.run(&format!("CREATE SCHEMA {schema}"), "create a schema of the demo's own").await?;
        database.run(TABLES_POSTGRES, "create the demo's tables").await?;
        Ok(database)
    }

    /// What the host's configuration is given.
    pub(super) fn url(&self) -> &Secret {
        &self.url
    }

    /// Where it is, without secrets.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// Runs statements that give no rows.
    pub(super) async fn run(&self, sql: &str, what: &str) -> Result<(), DemoError> {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        match &mut *self.connection.lock().await {
            Dialect::Postgres(c) => c.execute(sql).await.map(drop),
            Dialect::Sqlite(c) => c.execute(sql).await.map(drop),
        }
        .map_err(failed(what))
    }

    /// The rows of a query whose columns are all text.
    pub(super) async fn ask(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>, DemoError> {
        let sql_text = AssertSqlSafe(sql.to_owned());
        match &mut *self.connection.lock().await {
            Dialect::Postgres(c) => {
                sqlx::query(sql_text).fetch_all(c).await.and_then(|rows| rows.iter().map(texts).collect())
            }
            Dialect::Sqlite(c) => {
                sqlx::query(sql_text).fetch_all(c).await.and_then(|rows| rows.iter().map(texts).collect())
            }
        }
        .map_err(failed(&format!("ask {sql:?}")))
    }

    /// The one whole number that a query gives; a sum over nothing is 0.
    pub(super) async fn number(&self, expression: &str, rest: &str) -> Result<i64, DemoError> {
        let sql = format!("SELECT CAST({expression} AS text) {rest}");
        let rows = self.ask(&sql).await?;
        match rows.first().and_then(|row| row.first()) {
            Some(Some(text)) => whole(text, &sql),
            _ => Ok(0),
        }
    }

    /// How many rows this query gives.
    pub(super) async fn count_rows(&self, query: &str) -> Result<i64, DemoError> {
        self.number("count(*)", &format!("FROM ({query}) AS proof")).await
    }
}

fn texts<'r, R>(row: &'r R) -> Result<Vec<Option<String>>, sqlx::Error>
where
    R: Row,
    usize: sqlx::ColumnIndex<R>,
    Option<String>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
{
    (0..row.len()).map(|i| row.try_get(i)).collect()
}

/// A whole number, also where the database writes it as a decimal (`12.00`).
fn whole(text: &str, sql: &str) -> Result<i64, DemoError> {
    let digits =
        text.split_once('.').map_or(text, |(whole, rest)| if rest.bytes().all(|b| b == b'0') { whole } else { text });
    digits.parse().map_err(|_| DemoError::Database {
        what: format!("ask {sql:?}"),
        message: format!("expected a whole number, got {text:?}"),
    })
}

fn failed(what: &str) -> impl Fn(sqlx::Error) -> DemoError + use<> {
    let what = what.to_owned();
    move |error| DemoError::Database { what: what.clone(), message: error.to_string() }
}
