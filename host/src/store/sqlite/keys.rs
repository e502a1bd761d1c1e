//! Key samples and accepted changes of keys.

use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::{
    super::{
        Connection, KeyChange, KeySample, KeyState, REGISTERED_AGAIN, Registration, Statement, StoreError,
        headers_from_json, headers_to_json,
    },
    connection::{SqliteLane, now_us},
    error::store_error,
    report,
};
use crate::identity::{AggregateId, ConsumerName, MessageId};

fn failed(statement: Statement, context: &'static str) -> impl Fn(sqlx::Error) -> StoreError {
    move |error| store_error(statement, context, error)
}

/// See [`super::super::Store::key_state`].
pub(super) async fn state(
    conn: &mut SqliteConnection,
    consumer: &ConsumerName,
) -> Result<Option<KeyState>, StoreError> {
    let Some(row) = report::consumers(conn, Some(consumer)).await?.into_iter().next() else { return Ok(None) };
    let failed = failed(Statement::Report, "read the key samples");
    let rows = sqlx::query(
        "SELECT source, key, payload, headers, message_id, aggregate_id FROM key_samples \
         WHERE consumer_name = ? AND key_version = ? ORDER BY n",
    )
    .bind(consumer.as_str())
    .bind(row.key_version)
    .fetch_all(&mut *conn)
    .await
    .map_err(&failed)?;
    let samples = rows.iter().map(sample).collect::<Result<_, _>>().map_err(&failed)?;
    let changes: Vec<(i32, Vec<u8>, Vec<u8>)> = sqlx::query_as(
        "SELECT declared_key_version, from_digest, to_digest FROM key_changes WHERE consumer_name = ? ORDER BY key_version",
    )
    .bind(consumer.as_str())
    .fetch_all(&mut *conn)
    .await
    .map_err(&failed)?;
    Ok(Some(KeyState::new(row, samples, changes)))
}

/// Before a registration that may make the row: where it does so under a key version that an accepted change had raised,
/// the change is lost as well, and with it what successors have to declare.
pub(super) async fn note_declared(conn: &mut SqliteConnection, registration: &Registration) -> Result<(), StoreError> {
    let Registration { name, key_version, declared, plugin_digest, .. } = registration;
    if declared == key_version || !report::consumers(conn, Some(name)).await?.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO key_changes (consumer_name, key_version, from_version, declared_key_version, from_digest, \
         to_digest, compared, changed, made_by, made_at) VALUES (?1, ?2, ?2, ?3, ?4, ?4, 0, 0, ?5, ?6) \
         ON CONFLICT DO NOTHING",
    )
    .bind(name.as_str())
    .bind(key_version)
    .bind(declared)
    .bind(plugin_digest.to_vec())
    .bind(REGISTERED_AGAIN)
    .bind(now_us())
    .execute(conn)
    .await
    .map(drop)
    .map_err(failed(Statement::Register, "register the consumer"))
}

fn sample(row: &SqliteRow) -> Result<KeySample, sqlx::Error> {
    let decode = |why: String| sqlx::Error::Decode(why.into());
    Ok(KeySample {
        source: row.try_get(0)?,
        key: row.try_get::<Option<Vec<u8>>, _>(1)?.map(Into::into),
        payload: row.try_get::<Option<Vec<u8>>, _>(2)?.map(Into::into),
        headers: headers_from_json(row.try_get(3)?).map_err(decode)?,
        message_id: MessageId::new(row.try_get::<String, _>(4)?).map_err(|error| decode(error.to_string()))?,
        aggregate_id: AggregateId::new(row.try_get::<String, _>(5)?).map_err(|error| decode(error.to_string()))?,
    })
}

/// Writes samples under a key version; nothing where another one is active.
async fn insert(
    conn: &mut SqliteConnection,
    consumer: &ConsumerName,
    key_version: i32,
    samples: &[(i32, KeySample)],
) -> Result<(), StoreError> {
    for (n, sample) in samples {
        sqlx::query(
            "INSERT INTO key_samples AS k (consumer_name, n, source, key, payload, headers, message_id, aggregate_id, \
             key_version, taken_at) SELECT consumer_name, ?3, ?4, ?5, ?6, ?7, ?8, ?9, key_version, ?10 FROM consumers \
             WHERE consumer_name = ?1 AND key_version = ?2 \
             ON CONFLICT (consumer_name, n) DO UPDATE SET source = excluded.source, key = excluded.key, \
             payload = excluded.payload, headers = excluded.headers, message_id = excluded.message_id, \
             aggregate_id = excluded.aggregate_id, key_version = excluded.key_version, taken_at = excluded.taken_at \
             WHERE k.key_version <= excluded.key_version",
        )
        .bind(consumer.as_str())
        .bind(key_version)
        .bind(n)
        .bind(&sample.source)
        .bind(sample.key.as_deref().map(<[u8]>::to_vec))
        .bind(sample.payload.as_deref().map(<[u8]>::to_vec))
        .bind(headers_to_json(&sample.headers))
        .bind(sample.message_id.as_str())
        .bind(sample.aggregate_id.as_str())
        .bind(now_us())
        .execute(&mut *conn)
        .await
        .map_err(failed(Statement::Notes, "keep key samples"))?;
    }
    Ok(())
}

async fn forget(conn: &mut SqliteConnection, consumer: &ConsumerName) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM key_samples WHERE consumer_name = ?")
        .bind(consumer.as_str())
        .execute(conn)
        .await
        .map(drop)
        .map_err(failed(Statement::Register, "forget the key samples"))
}

impl SqliteLane {
    /// See [`super::super::Store::keep_key_samples`].
    pub(super) async fn keep_key_samples(
        &mut self,
        consumer: &ConsumerName,
        key_version: i32,
        samples: &[(i32, KeySample)],
    ) -> Result<(), StoreError> {
        self.begin(consumer).await?;
        let done = insert(&mut self.conn, consumer, key_version, samples).await;
        self.end(done.map(Some)).await.map(drop)
    }

    /// See [`super::super::Store::forget_key_samples`].
    pub(super) async fn forget_key_samples(&mut self, consumer: &ConsumerName) -> Result<(), StoreError> {
        self.begin(consumer).await?;
        let done = forget(&mut self.conn, consumer).await;
        self.end(done.map(Some)).await.map(drop)
    }

    /// See [`super::super::Store::accept_key_change`]. The one writer: nothing else is under way.
    pub(super) async fn accept_key_change(&mut self, change: &KeyChange) -> Result<Option<i32>, StoreError> {
        let state = self.begin(&change.consumer).await?;
        if state.key_version != change.from_version {
            return self.end(Ok(None)).await;
        }
        let done = self.write_key_change(change).await;
        self.end(done.map(Some)).await
    }

    async fn write_key_change(&mut self, change: &KeyChange) -> Result<i32, StoreError> {
        let failed = failed(Statement::Register, "accept a change of keys");
        let (version, name) = (change.version(), change.consumer.as_str());
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        sqlx::query(
            "INSERT INTO key_changes (consumer_name, key_version, from_version, declared_key_version, from_digest, \
             to_digest, compared, changed, made_by, made_at) \
             SELECT consumer_name, ?2, key_version, ?3, plugin_digest, ?4, ?5, ?6, ?7, ?8 FROM consumers \
             WHERE consumer_name = ?1",
        )
        .bind(name)
        .bind(version)
        .bind(change.declared)
        .bind(change.plugin_digest.to_vec())
        .bind(count(change.compared))
        .bind(count(change.changed))
        .bind(&change.by)
        .bind(now_us())
        .execute(&mut self.conn)
        .await
        .map_err(&failed)?;
        sqlx::query("UPDATE consumers SET key_version = ?, plugin_digest = ? WHERE consumer_name = ?")
            .bind(version)
            .bind(change.plugin_digest.to_vec())
            .bind(name)
            .execute(&mut self.conn)
            .await
            .map_err(&failed)?;
        forget(&mut self.conn, &change.consumer).await?;
        let samples: Vec<_> = (0..).zip(change.samples.iter().cloned()).collect();
        insert(&mut self.conn, &change.consumer, version, &samples).await?;
        Ok(version)
    }
}
