//! Attempts, conflicts, dead letters, superseding: each only where there are any.

use sqlx::SqliteConnection;

use super::{
    super::{Notes, Statement, StoreError, headers_to_json},
    error::store_error,
};
use crate::identity::ConsumerName;

fn failed(what: &str) -> impl Fn(sqlx::Error) -> StoreError {
    move |error| store_error(Statement::Notes, format!("write {what}"), error)
}

pub(super) async fn write(
    conn: &mut SqliteConnection,
    consumer: &ConsumerName,
    notes: &Notes,
    now_us: i64,
) -> Result<(), StoreError> {
    for attempt in &notes.attempts {
        sqlx::query(
            "INSERT INTO duplicate_attempts AS d (consumer_name, message_id, source_position, first_seen, last_seen) \
             VALUES (?1, ?2, ?3, ?4, ?4) ON CONFLICT (consumer_name, message_id, source_position) \
             DO UPDATE SET seen = d.seen + 1, last_seen = excluded.last_seen",
        )
        .bind(consumer.as_str())
        .bind(attempt.message_id.as_str())
        .bind(&attempt.position)
        .bind(now_us)
        .execute(&mut *conn)
        .await
        .map_err(failed("duplicate attempts"))?;
    }
    for conflict in &notes.conflicts {
        sqlx::query(
            "INSERT INTO payload_conflicts AS p (consumer_name, message_id, fingerprint, source_position, payload, \
             first_seen) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (consumer_name, message_id, fingerprint) \
             DO UPDATE SET seen = p.seen + 1",
        )
        .bind(consumer.as_str())
        .bind(conflict.message_id.as_str())
        .bind(conflict.fingerprint.0.to_vec())
        .bind(&conflict.position)
        .bind(conflict.payload.as_deref().map(<[u8]>::to_vec))
        .bind(now_us)
        .execute(&mut *conn)
        .await
        .map_err(failed("payload conflicts"))?;
    }
    for letter in &notes.dead_letters {
        sqlx::query(
            "INSERT INTO dead_letters AS d (consumer_name, message_id, cluster_id, topic_id, topic, partition, \"offset\", \
             code, message, sqlstate, key, payload, headers, created_at) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
             ON CONFLICT (consumer_name, cluster_id, topic_id, partition, \"offset\") WHERE cluster_id IS NOT NULL \
             DO UPDATE SET seen = d.seen + 1, code = excluded.code, message = excluded.message, sqlstate = excluded.sqlstate, \
             message_id = excluded.message_id",
        )
        .bind(consumer.as_str())
        .bind(letter.message_id.as_ref().map(|id| id.as_str()))
        .bind(&*letter.partition.cluster_id)
        .bind(letter.partition.topic_id.to_string())
        .bind(&*letter.partition.topic)
        .bind(letter.partition.partition)
        .bind(letter.offset)
        .bind(&letter.rejection.code)
        .bind(&letter.rejection.message)
        .bind(letter.rejection.sqlstate.as_deref())
        .bind(letter.key.as_deref().map(<[u8]>::to_vec))
        .bind(letter.payload.as_deref().map(<[u8]>::to_vec))
        .bind(headers_to_json(&letter.headers))
        .bind(now_us)
        .execute(&mut *conn)
        .await
        .map_err(failed("dead letters"))?;
    }
    for (id, checkpoint) in &notes.superseded {
        sqlx::query(
            "UPDATE dead_letters SET status = 'superseded', resolved_at = ?, resolved_by = ? \
             WHERE consumer_name = ? AND message_id = ? AND status = 'open'",
        )
        .bind(now_us)
        .bind(checkpoint.as_bytes().to_vec())
        .bind(consumer.as_str())
        .bind(id.as_str())
        .execute(&mut *conn)
        .await
        .map_err(failed("superseded dead letters"))?;
    }
    Ok(())
}
