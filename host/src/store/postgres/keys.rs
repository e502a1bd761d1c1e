//! Key samples and accepted changes of keys.

use sqlx::postgres::{PgBindIterExt, PgRow};

use super::{
    super::{
        KeyChange, KeySample, KeyState, REGISTERED_AGAIN, Registration, Statement, StoreError, headers_from_json,
        headers_to_json,
    },
    lane::{LOCK_CLASS, Lane},
};
use crate::identity::{AggregateId, ConsumerName, MessageId};

const ACCEPTING: &str = "accept a change of keys";

impl Lane {
    /// See [`super::super::Store::key_state`].
    pub(super) async fn key_state(&mut self, consumer: &ConsumerName) -> Result<Option<KeyState>, StoreError> {
        const CONTEXT: &str = "read the key samples";
        let Some(row) = self.consumers(Some(consumer)).await?.into_iter().next() else { return Ok(None) };
        let query = sqlx::query(
            "SELECT source, key, payload, headers::text, message_id, aggregate_id FROM key_samples \
             WHERE consumer_name = $1 AND key_version = $2 ORDER BY n",
        )
        .bind(consumer.as_str())
        .bind(row.key_version);
        let rows = self.few_rows(Statement::Report, CONTEXT, query).await?;
        let samples = rows.iter().map(sample).collect::<Result<_, _>>()?;
        let query = sqlx::query(
            "SELECT declared_key_version, from_digest, to_digest FROM key_changes WHERE consumer_name = $1 \
             ORDER BY key_version",
        )
        .bind(consumer.as_str());
        let rows = self.few_rows(Statement::Report, CONTEXT, query).await?;
        let change = |row: &PgRow| {
            let declared = Self::get(row, 0, Statement::Report, CONTEXT)?;
            let digest = |column| Self::get(row, column, Statement::Report, CONTEXT);
            Ok((declared, digest(1)?, digest(2)?))
        };
        let changes = rows.iter().map(change).collect::<Result<Vec<_>, StoreError>>()?;
        Ok(Some(KeyState::new(row, samples, changes)))
    }

    /// Before a registration that may make the row: where it does so under a key version that an accepted change had
    /// raised, the change is lost as well, and with it what successors have to declare.
    pub(super) async fn note_declared(&mut self, registration: &Registration) -> Result<(), StoreError> {
        let Registration { name, key_version, declared, plugin_digest, .. } = registration;
        if declared == key_version || !self.consumers(Some(name)).await?.is_empty() {
            return Ok(());
        }
        let query = sqlx::query(
            "INSERT INTO key_changes (consumer_name, key_version, from_version, declared_key_version, from_digest, \
             to_digest, compared, changed, made_by) VALUES ($1, $2, $2, $3, $4, $4, 0, 0, $5) ON CONFLICT DO NOTHING",
        )
        .bind(name.as_str())
        .bind(key_version)
        .bind(declared)
        .bind(plugin_digest.as_slice())
        .bind(REGISTERED_AGAIN);
        self.run(Statement::Register, "register the consumer", query).await.map(drop)
    }

    /// See [`super::super::Store::keep_key_samples`].
    pub(super) async fn keep_key_samples(
        &mut self,
        consumer: &ConsumerName,
        key_version: i32,
        samples: &[(i32, KeySample)],
    ) -> Result<(), StoreError> {
        let query = insert(consumer, key_version, samples);
        self.run(Statement::Notes, "keep key samples", query).await.map(drop)
    }

    /// See [`super::super::Store::forget_key_samples`].
    pub(super) async fn forget_key_samples(&mut self, consumer: &ConsumerName) -> Result<(), StoreError> {
        let query = sqlx::query("DELETE FROM key_samples WHERE consumer_name = $1").bind(consumer.as_str());
        self.run(Statement::Register, "forget the key samples", query).await.map(drop)
    }

    /// See [`super::super::Store::accept_key_change`]. Under the consumer's exclusive lock: transactions that began before
    /// are over, and those that begin after see the new version.
    pub(super) async fn accept_key_change(&mut self, change: &KeyChange) -> Result<Option<i32>, StoreError> {
        let Some(row) = self.consumers(Some(&change.consumer)).await?.into_iter().next() else { return Ok(None) };
        self.open(ACCEPTING, "").await?;
        let done = self.write_key_change(change, row.lock_no).await;
        self.end(done).await
    }

    async fn write_key_change(&mut self, change: &KeyChange, lock_no: i32) -> Result<Option<i32>, StoreError> {
        let version = change.version();
        let lock = sqlx::query("SELECT pg_advisory_xact_lock($1, $2)").bind(LOCK_CLASS).bind(lock_no);
        self.run(Statement::Register, ACCEPTING, lock).await?;
        let note = sqlx::query(
            "WITH earlier AS (SELECT key_version, plugin_digest FROM consumers WHERE consumer_name = $1), \
             raised AS (UPDATE consumers SET key_version = $3, plugin_digest = $5 \
               WHERE consumer_name = $1 AND key_version = $2 RETURNING consumer_name) \
             INSERT INTO key_changes (consumer_name, key_version, from_version, declared_key_version, from_digest, \
             to_digest, compared, changed, made_by) \
             SELECT r.consumer_name, $3, e.key_version, $4, e.plugin_digest, $5, $6, $7, $8 FROM raised r, earlier e",
        )
        .bind(change.consumer.as_str())
        .bind(change.from_version)
        .bind(version)
        .bind(change.declared)
        .bind(change.plugin_digest.as_slice())
        .bind(count(change.compared))
        .bind(count(change.changed))
        .bind(&change.by);
        if self.run(Statement::Register, ACCEPTING, note).await? == 0 {
            return Ok(None);
        }
        self.forget_key_samples(&change.consumer).await?;
        let samples: Vec<_> = (0..).zip(change.samples.iter().cloned()).collect();
        self.run(Statement::Register, ACCEPTING, insert(&change.consumer, version, &samples)).await?;
        Ok(Some(version))
    }
}

/// Nothing where another key version is active. Numbers are distinct.
fn insert<'q>(
    consumer: &'q ConsumerName,
    key_version: i32,
    samples: &'q [(i32, KeySample)],
) -> super::array::PgQuery<'q> {
    sqlx::query(
        "INSERT INTO key_samples AS k (consumer_name, n, source, key, payload, headers, message_id, aggregate_id, \
         key_version) \
         SELECT c.consumer_name, u.n, u.source, u.key, u.payload, u.headers::jsonb, u.message_id, u.aggregate_id, \
         c.key_version \
         FROM consumers c CROSS JOIN unnest($3::int[], $4::text[], $5::bytea[], $6::bytea[], $7::text[], $8::text[], \
         $9::text[]) u(n, source, key, payload, headers, message_id, aggregate_id) \
         WHERE c.consumer_name = $1 AND c.key_version = $2 \
         ON CONFLICT (consumer_name, n) DO UPDATE SET source = excluded.source, key = excluded.key, \
         payload = excluded.payload, headers = excluded.headers, message_id = excluded.message_id, \
         aggregate_id = excluded.aggregate_id, key_version = excluded.key_version, taken_at = now() \
         WHERE k.key_version <= excluded.key_version",
    )
    .bind(consumer.as_str())
    .bind(key_version)
    .bind(samples.iter().map(|(n, _)| *n).bind_iter())
    .bind(samples.iter().map(|(_, s)| s.source.as_str()).bind_iter())
    .bind(samples.iter().map(|(_, s)| s.key.as_deref()).bind_iter())
    .bind(samples.iter().map(|(_, s)| s.payload.as_deref()).bind_iter())
    .bind(samples.iter().map(|(_, s)| headers_to_json(&s.headers)).bind_iter())
    .bind(samples.iter().map(|(_, s)| s.message_id.as_str()).bind_iter())
    .bind(samples.iter().map(|(_, s)| s.aggregate_id.as_str()).bind_iter())
}

fn sample(row: &PgRow) -> Result<KeySample, StoreError> {
    const CONTEXT: &str = "read the key samples";
    let text = |at| Lane::get::<String>(row, at, Statement::Report, CONTEXT);
    let bytes = |at| Lane::get::<Option<Vec<u8>>>(row, at, Statement::Report, CONTEXT);
    let unreadable = |why: String| StoreError::fatal(Statement::Report, CONTEXT, why);
    Ok(KeySample {
        source: text(0)?,
        key: bytes(1)?.map(Into::into),
        payload: bytes(2)?.map(Into::into),
        headers: headers_from_json(&text(3)?).map_err(unreadable)?,
        message_id: MessageId::new(text(4)?).map_err(|error| unreadable(error.to_string()))?,
        aggregate_id: AggregateId::new(text(5)?).map_err(|error| unreadable(error.to_string()))?,
    })
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
