use std::{fs, panic};

use proptest::prelude::*;

use super::{TARGETS, Target};
use crate::services::checkout;

/// What was found before, and what is worth beginning with.
fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let own = format!("fuzz/corpus/{name}");
    // The product's own configurations are as good a beginning as any.
    let folders = if name == "configuration" { vec![own.as_str(), "config"] } else { vec![own.as_str()] };
    let mut found = Vec::new();
    for folder in folders.into_iter().map(|folder| checkout().join(folder)) {
        let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for path in files.map(|file| file.unwrap().path()).filter(|path| path.is_file()) {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn every_file_of_the_corpus_is_dealt_with() {
    for (name, target) in TARGETS {
        let files = corpus(name);
        assert!(files.len() >= 3, "the corpus of {name} is nearly empty");
        for (file, bytes) in files {
            assert!(panic::catch_unwind(|| target(&bytes)).is_ok(), "{name} fails on {file}");
        }
    }
}

/// A file of the corpus with some of its bytes changed, or bytes out of nowhere.
fn inputs(name: &str) -> impl Strategy<Value = Vec<u8>> + use<> {
    let seeds: Vec<Vec<u8>> = corpus(name).into_iter().map(|(_, bytes)| bytes).collect();
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 0..8);
    let changed = (prop::sample::select(seeds), changes).prop_map(|(mut bytes, changes)| {
        for (place, byte, how) in changes {
            if bytes.is_empty() {
                bytes.push(byte);
                continue;
            }
            let at = place.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => drop(bytes.remove(at)),
                _ => bytes.truncate(at),
            }
        }
        bytes
    });
    prop_oneof![changed, prop::collection::vec(any::<u8>(), 0..600)]
}

/// Small enough for every day; `PROPTEST_CASES` says otherwise.
fn try_out(name: &str, target: Target) {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(3_000);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let tried = runner.run(&inputs(name), |bytes| {
        target(&bytes);
        Ok(())
    });
    // With the smallest input, to be kept in fuzz/corpus.
    if let Err(error) = tried {
        panic!("{name}: {error}");
    }
}

macro_rules! try_out {
    ($($test:ident: $name:literal),+ $(,)?) => {
        $(#[test] fn $test() {
            let target = TARGETS.iter().find(|(name, _)| *name == $name).unwrap().1;
            try_out($name, target);
        })+
    };
}

try_out!(
    any_text_is_a_configuration_or_is_refused: "configuration",
    any_answer_of_a_plugin_ends_in_verdicts: "verdicts",
    any_headers_are_kept_byte_for_byte: "headers",
    any_id_is_taken_whole_or_refused: "ids",
    any_value_fits_exactly_or_is_refused: "values",
);
