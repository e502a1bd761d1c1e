//! What is only written where there is any of it: attempts, payload conflicts, dead letters, superseding.

use sqlx::postgres::PgBindIterExt;

use super::{
    super::{Attempt, Conflict, DeadLetter, Notes, Statement, StoreError, headers_to_json},
    lane::Lane,
};
use crate::identity::{ConsumerName, MessageId};

impl Lane {
    /// See [`super::super::Connection::write_notes`].
    pub(super) async fn write_notes(&mut self, consumer: &ConsumerName, notes: &Notes) -> Result<(), StoreError> {
        if !notes.attempts.is_empty() {
            self.write_attempts(consumer, &notes.attempts).await?;
        }
        if !notes.conflicts.is_empty() {
            self.write_conflicts(consumer, &notes.conflicts).await?;
        }
        if !notes.dead_letters.is_empty() {
            self.write_dead_letters(consumer, &notes.dead_letters).await?;
        }
        if !notes.superseded.is_empty() {
            let query = sqlx::query(
                "UPDATE dead_letters d SET status = 'superseded', resolved_at = now(), resolved_by = u.checkpoint \
                 FROM unnest($2::text[], $3::uuid[]) u(id, checkpoint) \
                 WHERE d.consumer_name = $1 AND d.status = 'open' AND d.message_id = u.id",
            )
            .bind(consumer.as_str())
            .bind(notes.superseded.iter().map(|(id, _)| id.as_str()).bind_iter())
            .bind(notes.superseded.iter().map(|(_, checkpoint)| *checkpoint).bind_iter());
            self.run(Statement::Notes, "supersede dead letters", query).await?;
        }
        Ok(())
    }

    async fn write_attempts(&mut self, consumer: &ConsumerName, attempts: &[Attempt]) -> Result<(), StoreError> {
        // Sorted: two lanes that meet the same duplicates lock them in one order.
        let mut sorted: Vec<&Attempt> = attempts.iter().collect();
        sorted.sort_unstable_by(|a, b| (&a.message_id, &a.position).cmp(&(&b.message_id, &b.position)));
        let query = sqlx::query(
            "INSERT INTO duplicate_attempts AS d (consumer_name, message_id, source_position) \
             SELECT $1, u.* FROM unnest($2::text[], $3::text[]) u \
             ON CONFLICT (consumer_name, message_id, source_position) DO UPDATE SET seen = d.seen + 1, last_seen = now()",
        )
        .bind(consumer.as_str())
        .bind(sorted.iter().map(|a| a.message_id.as_str()).bind_iter())
        .bind(sorted.iter().map(|a| a.position.as_str()).bind_iter());
        self.run(Statement::Notes, "count duplicates", query).await.map(drop)
    }

    async fn write_conflicts(&mut self, consumer: &ConsumerName, conflicts: &[Conflict]) -> Result<(), StoreError> {
        let mut sorted: Vec<&Conflict> = conflicts.iter().collect();
        sorted.sort_unstable_by(|a, b| (&a.message_id, a.fingerprint.0).cmp(&(&b.message_id, b.fingerprint.0)));
        let query = sqlx::query(
            "INSERT INTO payload_conflicts AS c (consumer_name, message_id, fingerprint, source_position, payload) \
             SELECT $1, u.* FROM unnest($2::text[], $3::bytea[], $4::text[], $5::bytea[]) u \
             ON CONFLICT (consumer_name, message_id, fingerprint) DO UPDATE SET seen = c.seen + 1",
        )
        .bind(consumer.as_str())
        .bind(sorted.iter().map(|c| c.message_id.as_str()).bind_iter())
        .bind(sorted.iter().map(|c| c.fingerprint.0.as_slice()).bind_iter())
        .bind(sorted.iter().map(|c| c.position.as_str()).bind_iter())
        .bind(sorted.iter().map(|c| c.payload.as_deref()).bind_iter());
        self.run(Statement::Notes, "keep payload conflicts", query).await.map(drop)
    }

    async fn write_dead_letters(&mut self, consumer: &ConsumerName, letters: &[DeadLetter]) -> Result<(), StoreError> {
        let query = sqlx::query(
            "INSERT INTO dead_letters AS d (consumer_name, message_id, cluster_id, topic_id, topic, partition, \"offset\", \
             code, message, sqlstate, key, payload, headers) \
             SELECT $1, u.id, u.cluster, u.topic_id, u.topic, u.partition, u.place, u.code, u.message, u.sqlstate, u.key, \
             u.payload, u.headers::jsonb \
             FROM unnest($2::text[], $3::text[], $4::uuid[], $5::text[], $6::int[], $7::bigint[], $8::text[], $9::text[], \
             $10::text[], $11::bytea[], $12::bytea[], $13::text[]) \
             u(id, cluster, topic_id, topic, partition, place, code, message, sqlstate, key, payload, headers) \
             ON CONFLICT (consumer_name, cluster_id, topic_id, partition, \"offset\") WHERE cluster_id IS NOT NULL \
             DO UPDATE SET seen = d.seen + 1, code = excluded.code, message = excluded.message, sqlstate = excluded.sqlstate, \
             message_id = excluded.message_id",
        )
        .bind(consumer.as_str())
        .bind(letters.iter().map(|l| l.message_id.as_ref().map(MessageId::as_str)).bind_iter())
        .bind(letters.iter().map(|l| &*l.partition.cluster_id).bind_iter())
        .bind(letters.iter().map(|l| l.partition.topic_id).bind_iter())
        .bind(letters.iter().map(|l| &*l.partition.topic).bind_iter())
        .bind(letters.iter().map(|l| l.partition.partition).bind_iter())
        .bind(letters.iter().map(|l| l.offset).bind_iter())
        .bind(letters.iter().map(|l| l.rejection.code.as_str()).bind_iter())
        .bind(letters.iter().map(|l| l.rejection.message.as_str()).bind_iter())
        // What is not a five-character SQLSTATE does not fit its column.
        .bind(letters.iter().map(|l| l.rejection.sqlstate.as_deref().filter(|s| s.len() == 5)).bind_iter())
        .bind(letters.iter().map(|l| l.key.as_deref()).bind_iter())
        .bind(letters.iter().map(|l| l.payload.as_deref()).bind_iter())
        .bind(letters.iter().map(|l| headers_to_json(&l.headers)).bind_iter());
        self.run(Statement::Notes, "write dead letters", query).await.map(drop)
    }
}
