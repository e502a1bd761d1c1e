//! Somebody else moves the chain of one partition: that one begins anew where the database stands, and its neighbours in the
//! same batches go on.

use tidegate_tests::{host::HostProcess, kafka, postgres, workload::Workload};

use crate::payments::{Payments, distinct};

const EVENTS: Workload = Workload { messages: 8_000, seed: 22 };

/// What another host, or `tidegate seek`, would do: here to where the chain stands anyway.
const MOVE: &str = "
INSERT INTO checkpoints (checkpoint_id, prev_id, seq, consumer_name, cluster_id, topic_id, topic, partition, kind,
  first_offset, next_offset, consumed, applied, duplicate, skipped, dead, too_old, key_version, plugin_digest)
SELECT gen_random_uuid(), checkpoint_id, seq + 1, consumer_name, cluster_id, topic_id, topic, partition, 'm',
  next_offset, next_offset, 0, 0, 0, 0, 0, 0, key_version, plugin_digest
FROM checkpoints WHERE partition = 0 ORDER BY seq DESC LIMIT 1";

#[tokio::test]
async fn a_fence_moves_only_the_partition_that_it_is_about() {
    let payments = Payments::new(kafka(), postgres().await, 6).await;
    let mut host = HostProcess::start("host", &payments.setup());
    let mut publisher = payments.publisher();
    let events = distinct(EVENTS.events());
    for (round, events) in events.chunks(events.len() / 4).enumerate() {
        if round > 0 {
            payments.database.execute(MOVE).await;
        }
        publisher.publish(events);
        host.alive_during(payments.until_consumed()).await;
    }
    host.terminate();
    assert_eq!(host.wait().code(), Some(0), "{}", host.log());
    let log = host.log();
    let fenced: Vec<&str> =
        log.lines().filter(|line| line.contains("somebody else moved a checkpoint chain")).collect();
    assert!(fenced.len() >= 3, "{fenced:?}");
    let others = |line: &&&str| (1..6).any(|partition| line.contains(&format!("[{partition}]")));
    assert_eq!(fenced.iter().find(others), None, "of another partition");
    assert_eq!(fenced.iter().filter(|line| line.contains("[0]")).count(), fenced.len());
    payments.assert_each_applied_once(&events).await;
}
