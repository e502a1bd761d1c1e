//! Configuration files.

use std::path::Path;

use tidegate::config;

/// What must never come out of a configuration again.
const SECRET: &str = "hunter2hunter2hunter2";

/// Any text as a configuration file: it is read or refused, in words, and a secret of its environment stays one.
///
/// # Panics
/// Where that is not so.
pub fn configuration(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let environment = |name: &str| (name == "SECRET").then(|| SECRET.to_owned());
    let read = || config::parse(&text, Path::new("/nowhere/tidegate.toml"), &environment);
    match read() {
        Ok(loaded) => {
            let again = read().unwrap_or_else(|error| panic!("read once, refused the second time: {error}"));
            assert_eq!(format!("{loaded:?}"), format!("{again:?}"), "the same text, another configuration");
            assert!(!format!("{loaded:?}").contains(SECRET) || text.contains(SECRET), "a secret came out");
        }
        Err(error) => {
            assert!(!error.diagnostics.is_empty(), "refused without a reason");
            let said = format!("{error} {error:?}");
            assert!(error.diagnostics.iter().all(|one| !one.message.is_empty()), "a reason without words: {said}");
        }
    }
}
