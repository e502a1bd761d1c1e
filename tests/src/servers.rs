//! The broker and the database server that something happens on: those that all tests share, or others.

use crate::{Broker, Database, kafka, postgres};

/// Where they are.
#[derive(Clone, Debug)]
pub struct Servers(Option<(String, String)>);

impl Servers {
    /// Those of `KAFKA_BOOTSTRAP` and `DATABASE_URL`.
    #[must_use]
    pub fn given() -> Self {
        Self(None)
    }

    /// A broker by its address, a database server by its URL.
    #[must_use]
    pub fn at(bootstrap: String, database: String) -> Self {
        Self(Some((bootstrap, database)))
    }

    /// A connection to the broker.
    ///
    /// # Panics
    /// Where it does not answer.
    #[must_use]
    pub fn broker(&self) -> Broker {
        self.0.as_ref().map_or_else(kafka, |(bootstrap, _)| Broker::at(bootstrap))
    }

    /// A fresh database.
    ///
    /// # Panics
    /// Where the server does not answer or refuses.
    pub async fn database(&self) -> Database {
        match &self.0 {
            Some((_, url)) => Database::on(url).await,
            None => postgres().await,
        }
    }
}
