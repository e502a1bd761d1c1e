//! A host that dies or freezes at any point of the path: nothing is lost, nothing applied twice, and little comes again.

use tidegate::fail_point::FailPoint;
use tidegate_tests::{
    fail_points::{freeze_at, kill_at_every_point, part_in_peace},
    servers::Servers,
};

/// Deaths at each point; `make chaos ARGS="--fail-points 50"` has more.
const ROUNDS: usize = 5;

/// Another seed each time; it is printed with a failure.
fn seed() -> u64 {
    let seed = uuid::Uuid::new_v4().as_u64_pair().0;
    eprintln!("seed {seed}");
    seed
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_killed_at_every_point_of_the_path_loses_and_doubles_nothing() {
    let figures = kill_at_every_point(&Servers::given(), ROUNDS, seed()).await;
    eprintln!("{figures}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_frozen_with_a_batch_in_hand_applies_nothing_twice() {
    freeze_at(FailPoint::Computed, seed()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_frozen_within_its_transaction_applies_nothing_twice() {
    freeze_at(FailPoint::CheckpointWritten, seed()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_frozen_after_its_commit_applies_nothing_twice() {
    freeze_at(FailPoint::AfterCommit, seed()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_end_and_a_clean_hand_over_deliver_nothing_again() {
    part_in_peace(3, seed()).await;
}
