//! A group whose hosts come and go every second, under both protocols. `make chaos ARGS="--churn 60"` does it for longer.

use tidegate_tests::{churn::churn, host::Protocol, servers::Servers};

use crate::kafka_scene::under_both_protocols;

/// Seconds.
const STEPS: usize = 14;

async fn hosts_that_come_and_go_every_second_lose_and_double_nothing(protocol: Protocol) {
    let seed = uuid::Uuid::new_v4().as_u64_pair().0;
    eprintln!("seed {seed}");
    churn(&Servers::given(), protocol, STEPS, seed).await;
}

under_both_protocols!(hosts_that_come_and_go_every_second_lose_and_double_nothing);
