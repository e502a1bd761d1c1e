//! The short form of the fault harness: one walk of a fixed number of faults. `make chaos` walks for longer.

use tidegate_tests::chaos::{
    schedule::Allowed,
    walk::{Length, Options, walk},
};

/// What is over in a minute or so; the servers of its own take some seconds more.
const FAULTS: usize = 120;

#[tokio::test(flavor = "multi_thread")]
async fn a_walk_through_faults_loses_and_doubles_nothing() {
    // Another seed each time; it is printed with a failure, with the whole schedule.
    let seed = uuid::Uuid::new_v4().as_u64_pair().0 % 1_000_000;
    let allowed = Allowed::default();
    let options = Options { seed, length: Length::Faults(FAULTS), hosts: 3, haste: 2, allowed };
    let report = walk(&options).await.unwrap();
    eprintln!("{report}");
    assert!(report.findings.is_empty(), "seed {seed} ({FAULTS} faults): {:#?}", report.findings);
    let (told, account) = report.account.unwrap();
    assert!(told.messages > 0 && account.totals.applied > 0, "{account:?} of {told:?}");
}
