//! Two transactions with one id, one of them a step ahead: which of them is first is the insert's word, however they meet.

use tidegate_tests::wait;

use super::*;

fn row(id: &str) -> LedgerRow {
    LedgerRow {
        message_id: MessageId::new(id).unwrap(),
        aggregate_id: AggregateId::new("a").unwrap(),
        partition: Arc::new(TopicPartition {
            cluster_id: "k".into(),
            topic_id: Uuid::nil(),
            topic: "t".into(),
            partition: 0,
        }),
        offset: 0,
        fingerprint: Fingerprint([1; 16]),
    }
}

/// A lane inserts an id that another transaction has inserted and not committed yet. Gives what was first for the lane, after
/// the other one has ended in this way.
async fn while_a_rival_has_it(ends: &str) -> Vec<usize> {
    let fixture = Fixture::with("", Timeouts { lock: Duration::from_secs(30), ..Timeouts::default() }).await;
    let mut rival = fixture.database.pool().begin().await.unwrap();
    let insert = "INSERT INTO processed_messages (consumer_name, message_id, aggregate_id, fingerprint) \
                  VALUES ('c', 'b', 'a', decode(repeat('01', 16), 'hex'))";
    sqlx::query(insert).execute(&mut *rival).await.unwrap();

    let (mut lane, consumer) = (fixture.lane().await, fixture.consumer.clone());
    let inserting = tokio::spawn(async move {
        lane.begin(&consumer).await.unwrap();
        let inserted = lane.insert_ledger(&consumer, &["a", "b", "c"].map(row)).await.unwrap();
        lane.commit().await.unwrap();
        inserted
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                 AND cardinality(pg_blocking_pids(pid)) > 0";
    wait::until("the lane waits for the rival", async || fixture.database.number(waits).await, |&n| n == 1).await;
    if ends == "COMMIT" {
        rival.commit().await.unwrap();
    } else {
        rival.rollback().await.unwrap();
    }
    inserting.await.unwrap()
}

/// Whoever looked before inserting saw nothing of it, and would take it for its own.
#[tokio::test]
async fn an_id_that_a_rival_commits_during_the_insert_is_not_first() {
    assert_eq!(while_a_rival_has_it("COMMIT").await, [0, 2]);
}

#[tokio::test]
async fn an_id_that_a_rival_gives_back_during_the_insert_is_first() {
    assert_eq!(while_a_rival_has_it("ROLLBACK").await, [0, 1, 2]);
}
