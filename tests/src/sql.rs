//! What tests ask of a database, whichever it is. The statements are the tests' own; there is no foreign text in them.

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, ColumnIndex, Decode, Row, Type};
use tidegate::config::Dialect;

/// A database that a test has for itself.
#[async_trait]
pub trait Sql: Send + Sync {
    /// Which kind it is.
    fn dialect(&self) -> Dialect;

    /// Its URL, as a configuration names it.
    fn url(&self) -> &str;

    /// Runs statements, separated by semicolons.
    ///
    /// # Panics
    /// Where one fails.
    async fn execute(&self, sql: &str);

    /// The rows of a query whose columns are all `bigint`.
    ///
    /// # Errors
    /// The database's, such as that it is down or a table is not there yet.
    async fn integers(&self, sql: &str) -> Result<Vec<Vec<i64>>, sqlx::Error>;

    /// The only column of a query as text, NULL as `NULL`.
    ///
    /// # Panics
    /// Where it fails.
    async fn texts(&self, sql: &str) -> Vec<String>;

    /// The one number that a query gives; NULL counts as 0.
    ///
    /// # Panics
    /// Where it fails, or gives something else.
    async fn number(&self, sql: &str) -> i64 {
        let rows = self.integers(&scalar(sql)).await.unwrap_or_else(|error| panic!("{error}\nin: {sql}"));
        rows[0][0]
    }
}

/// The query that gives another one's only value as a `bigint`.
pub(crate) fn scalar(sql: &str) -> String {
    format!("SELECT coalesce(CAST(({sql}) AS bigint), 0)")
}

/// The query that gives another one's only column as text.
pub(crate) fn as_text(sql: &str) -> AssertSqlSafe<String> {
    AssertSqlSafe(format!("WITH x(v) AS ({sql}) SELECT coalesce(CAST(v AS text), 'NULL') FROM x"))
}

/// The columns of each row.
pub(crate) fn decoded<'r, R: Row>(rows: &'r [R]) -> Result<Vec<Vec<i64>>, sqlx::Error>
where
    i64: Decode<'r, R::Database> + Type<R::Database>,
    usize: ColumnIndex<R>,
{
    rows.iter().map(|row| (0..row.len()).map(|column| row.try_get(column)).collect()).collect()
}
