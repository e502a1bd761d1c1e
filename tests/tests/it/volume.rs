//! A long backlog is drained in bounded memory (Invariant 11).

use tidegate_tests::{host::HostProcess, kafka, postgres, wait, workload::Workload};

use crate::payments::Payments;

/// `make test` drains this many; TIDEGATE_TEST_MESSAGES=1000000 and more say the same at length.
const MESSAGES: usize = 300_000;

#[tokio::test]
async fn memory_stays_flat_while_a_backlog_is_drained() {
    let messages =
        std::env::var("TIDEGATE_TEST_MESSAGES").ok().map_or(MESSAGES, |n| n.parse().expect("a number of messages"));
    let payments = Payments::new(kafka(), postgres().await, 6).await;
    let events = Workload { messages, seed: 13 }.events();
    payments.publish(&events);

    let mut host = HostProcess::start("host", &payments.setup_with("max_records = 2000, max_bytes = \"8MiB\""));
    let total = i64::try_from(messages).unwrap();
    let mut samples: Vec<(i64, u64)> = Vec::new();
    wait::until(
        "the backlog is drained",
        async || {
            let consumed = payments.totals().await.consumed;
            samples.push((consumed, host.resident_bytes()));
            consumed
        },
        |&consumed| consumed >= total,
    )
    .await;
    host.alive_during(payments.until_consumed()).await;
    host.terminate();
    assert_eq!(host.wait().code(), Some(0));

    let most = |from: i64, to: i64| {
        let between = samples.iter().filter(|(consumed, _)| (from..to).contains(consumed));
        between.map(|&(_, bytes)| bytes).max().unwrap_or(0)
    };
    // Queues and buffers fill in the first fifth; from then on there is no reason to grow.
    let (early, late) = (most(total / 5, total / 2), most(total / 2, total + 1));
    println!("{messages} messages: {} MiB in the first half, {} MiB in the second", early >> 20, late >> 20);
    assert!(early > 0, "the drain was too quick to be watched: {samples:?}");
    assert!(late <= early + early / 8 + (8 << 20), "memory grows with the backlog: {samples:?}");
    assert!(late < 300 << 20, "{} MiB", late >> 20);
    payments.assert_each_applied_once(&events).await;
}
