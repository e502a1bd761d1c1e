//! `doomed URL UNTIL [before|after CALL]`: applies a log of records up to an offset, and is ended at a call.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test's process fails by panicking")]

use tidegate_tests::{doomed, faulty::Break};

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let until = arguments[1].parse().unwrap();
    let when = arguments.get(2).map(|when| {
        let call = arguments[3].parse().unwrap();
        if when == "before" { Break::KillBefore(call) } else { Break::KillAfter(call) }
    });
    doomed::run(&arguments[0], until, when).await;
}
