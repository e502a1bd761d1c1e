//! A process that dies before or after any single call of a batch: the next one goes on, and everything counts once.

use std::process::Command;

use tidegate_tests::doomed::{TABLE, expected};

use super::fixture::Fixture;

/// Calls of a batch with poison in it, at least: optimistic, then careful.
const CALLS: usize = 14;
const STEP: i64 = 10;

fn process(f: &Fixture, until: i64, death: Option<(&str, usize)>) -> bool {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doomed"));
    command.arg(f.url()).arg(until.to_string());
    if let Some((when, call)) = death {
        command.arg(when).arg(call.to_string());
    }
    command.output().unwrap().status.success()
}

pub(super) async fn a_process_killed_at_any_call_loses_and_doubles_nothing(f: &Fixture) {
    f.create(TABLE).await;
    let mut until = 0;
    let mut deaths = 0;
    for when in ["before", "after"] {
        for call in 0..CALLS {
            until += STEP;
            deaths += usize::from(!process(f, until, Some((when, call))));
            assert!(process(f, until, None), "the next process goes on: {when} call {call}");
            let (applied, dead) = expected(until);
            let applied = i64::try_from(applied).unwrap();
            let total = f.number("SELECT total FROM doomed_tally").await;
            assert_eq!((f.ledger().await, total), (applied, applied), "killed {when} call {call}");
            let letters = f.number("SELECT count(*) FROM dead_letters").await;
            assert_eq!(letters, i64::try_from(dead).unwrap(), "killed {when} call {call}");
            assert_eq!(f.number("SELECT sum(consumed) FROM checkpoints").await, until);
        }
    }
    assert!(deaths > CALLS, "few of the calls were reached: {deaths}");
}
