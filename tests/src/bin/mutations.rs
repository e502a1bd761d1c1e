//! `mutations [NAME …]`: breaks a copy of the product in one way after the other and says whether the tests notice.
#![allow(clippy::unwrap_used, reason = "a tool of the tests")]

use std::process::ExitCode;

use tidegate_tests::mutations;

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let mut all = mutations::all().unwrap();
    all.retain(|mutation| wanted.is_empty() || wanted.iter().any(|part| mutation.name.contains(part)));
    if all.is_empty() {
        eprintln!("no mutation is called {}; tests/mutations has them", wanted.join(" or "));
        return ExitCode::from(2);
    }
    match mutations::check(&all) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(3)
        }
    }
}
