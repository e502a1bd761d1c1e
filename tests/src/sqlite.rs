//! A SQLite file per test.

use async_trait::async_trait;
use sqlx::{
    Executor as _, SqlitePool,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};
use tempfile::TempDir;
use tidegate::config::Dialect;

use crate::{
    database::keep,
    sql::{Sql, as_text, decoded},
};

/// A database file in a folder of its own, made by whoever comes first. Deleted at the end of the test.
#[derive(Debug)]
pub struct SqliteFile {
    url: String,
    pool: SqlitePool,
    folder: TempDir,
}

/// A file that is not there yet.
///
/// # Panics
/// Where no folder can be made.
#[must_use]
pub fn sqlite() -> SqliteFile {
    let folder = tempfile::Builder::new().prefix("tidegate-db-").tempdir().unwrap();
    let file = folder.path().join("tidegate.db");
    let url = format!("sqlite://{}", file.display());
    // Opened at the first question. One connection: tests ask one thing at a time.
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let pool = SqlitePoolOptions::new().max_connections(1).connect_lazy_with(options);
    SqliteFile { url, pool, folder }
}

#[async_trait]
impl Sql for SqliteFile {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn url(&self) -> &str {
        &self.url
    }

    async fn execute(&self, sql: &str) {
        let statements = sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()));
        self.pool.execute(statements).await.unwrap_or_else(|error| panic!("{error}\nin: {sql}"));
    }

    async fn integers(&self, sql: &str) -> Result<Vec<Vec<i64>>, sqlx::Error> {
        decoded(&sqlx::query(sqlx::AssertSqlSafe(sql.to_owned())).fetch_all(&self.pool).await?)
    }

    async fn texts(&self, sql: &str) -> Vec<String> {
        let found = sqlx::query_scalar(as_text(sql)).fetch_all(&self.pool).await;
        found.unwrap_or_else(|error| panic!("{error}\nin: {sql}"))
    }
}

impl Drop for SqliteFile {
    fn drop(&mut self) {
        if keep() {
            eprintln!("kept: {}", self.url);
            self.folder.disable_cleanup(true);
        }
    }
}
