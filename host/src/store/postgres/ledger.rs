//! The ledger's statements.

use std::collections::HashMap;

use sqlx::postgres::PgBindIterExt;

use super::{
    super::{LedgerRow, Statement, StoreError},
    lane::Lane,
    texts::Texts,
};
use crate::identity::{ConsumerName, Fingerprint, MessageId};

impl Lane {
    /// See [`super::super::Connection::insert_ledger`]. Rows come sorted, and unnest keeps their order: locks are taken
    /// in it. A waiter gets the row if the first transaction rolls back, and is left out if it commits.
    pub(super) async fn insert_ledger(
        &mut self,
        consumer: &ConsumerName,
        rows: &[LedgerRow],
    ) -> Result<Vec<usize>, StoreError> {
        const CONTEXT: &str = "insert into the ledger";
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        // Invariant 3: what this returns is first, and nothing else is.
        let query = sqlx::query(
            "WITH i AS (INSERT INTO processed_messages (consumer_name, message_id, aggregate_id, source_topic, \
             source_partition, source_offset, fingerprint) \
             SELECT $1, u.* FROM unnest($2::text[], $3::text[], $4::text[], $5::int[], $6::bigint[], $7::bytea[]) u \
             ON CONFLICT (consumer_name, message_id) DO NOTHING RETURNING message_id) \
             SELECT array_agg(message_id::text) FROM i",
        )
        .bind(consumer.as_str())
        .bind(rows.iter().map(|r| r.message_id.as_str()).bind_iter())
        .bind(rows.iter().map(|r| r.aggregate_id.as_str()).bind_iter())
        .bind(rows.iter().map(|r| &*r.partition.topic).bind_iter())
        .bind(rows.iter().map(|r| r.partition.partition).bind_iter())
        .bind(rows.iter().map(|r| r.offset).bind_iter())
        .bind(rows.iter().map(|r| r.fingerprint.0.as_slice()).bind_iter());
        let answer = self.rows(Statement::Ledger, CONTEXT, query).await?;
        let defect = |text: &str| StoreError::fatal(Statement::Ledger, CONTEXT, text);
        let answer = answer.first().ok_or_else(|| defect("the database gave no answer"))?;
        // One array, not a row per id: the driver's work per row is more than the ledger's.
        let ids: Option<Texts> = Self::get(answer, 0, Statement::Ledger, CONTEXT)?;
        // Ids come back in the order sent, less those that were there.
        let mut inserted = Vec::with_capacity(rows.len());
        let mut sent = rows.iter().enumerate();
        for id in ids.iter().flat_map(Texts::iter) {
            match sent.by_ref().find(|(_, row)| row.message_id.as_str().as_bytes() == id) {
                Some((place, _)) => inserted.push(place),
                None => return Err(defect("the database answered ids in another order than they were sent")),
            }
        }
        Ok(inserted)
    }

    /// See [`super::super::Connection::lookup`].
    pub(super) async fn lookup(
        &mut self,
        consumer: &ConsumerName,
        ids: &[MessageId],
    ) -> Result<HashMap<MessageId, Fingerprint>, StoreError> {
        const CONTEXT: &str = "look ids up in the ledger";
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        // One probe of the key per id, whatever the planner believes: for `= ANY` it may read the whole ledger on a young
        // table, whose statistics still say that it is small, and keep that plan.
        let query = sqlx::query(
            "SELECT u.id, p.fingerprint FROM unnest($2::varchar[]) u(id) CROSS JOIN LATERAL \
             (SELECT fingerprint FROM processed_messages WHERE consumer_name = $1 AND message_id = u.id LIMIT 1) p",
        )
        .bind(consumer.as_str())
        .bind(ids.iter().map(MessageId::as_str).bind_iter());
        let rows = self.rows(Statement::Ledger, CONTEXT, query).await?;
        let mut known = HashMap::with_capacity(rows.len());
        for row in &rows {
            let id: &str = Self::get(row, 0, Statement::Ledger, CONTEXT)?;
            let stored: &[u8] = Self::get(row, 1, Statement::Ledger, CONTEXT)?;
            let id = MessageId::new(id).map_err(|e| StoreError::fatal(Statement::Ledger, CONTEXT, e.to_string()))?;
            // A fingerprint of another length was not written by this host: no input's is like it.
            let mut fingerprint = [0; 16];
            if let Ok(bytes) = stored.try_into() {
                fingerprint = bytes;
            }
            known.insert(id, Fingerprint(fingerprint));
        }
        Ok(known)
    }

    /// See [`super::super::Connection::take_back`]. A delete, not a savepoint around the insert: whoever waits for that
    /// id goes on waiting until this transaction ends.
    pub(super) async fn take_back(&mut self, consumer: &ConsumerName, ids: &[MessageId]) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        let query =
            sqlx::query("DELETE FROM processed_messages WHERE consumer_name = $1 AND message_id = ANY ($2::varchar[])")
                .bind(consumer.as_str())
                .bind(ids.iter().map(MessageId::as_str).bind_iter());
        self.run(Statement::Ledger, "take ledger rows back", query).await.map(drop)
    }
}
