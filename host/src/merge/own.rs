//! Which tables are tidegate's own, and never a target.

/// Tables and views that are tidegate's own: a plugin that could write them could forge the ledger. What the migrations
/// make, and nothing else (a test holds them together).
const OWN_TABLES: [&str; 13] = [
    "processed_messages",
    "checkpoints",
    "consumers",
    "duplicate_attempts",
    "payload_conflicts",
    "dead_letters",
    "key_samples",
    "backfill_runs",
    "reprocessed_messages",
    "cleanup_runs",
    "key_changes",
    "seeks",
    "processed_input_attempts",
];

/// Whether a table of this name is tidegate's own, by the name that the database has it under.
#[must_use]
pub fn is_own_table(name: &str) -> bool {
    OWN_TABLES.contains(&name) || name == crate::store::MIGRATIONS_TABLE
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    /// What the migrations of a dialect make, as they are written.
    fn made(dialect: &str) -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations").join(dialect);
        let mut made = BTreeSet::new();
        for entry in fs::read_dir(&folder).expect("the migrations are there") {
            let sql = fs::read_to_string(entry.expect("a file").path()).expect("a migration is text");
            let code = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
            let words: Vec<String> = code.flat_map(str::split_whitespace).map(str::to_ascii_lowercase).collect();
            for (at, _) in words.iter().enumerate().filter(|(_, word)| *word == "create") {
                let rest = words[at + 1..].iter().map(String::as_str);
                let mut rest =
                    rest.skip_while(|word| ["or", "replace", "unlogged", "materialized"].contains(word)).peekable();
                if rest.next_if(|word| ["table", "view"].contains(word)).is_some() {
                    let name = rest.find(|word| !["if", "not", "exists"].contains(word)).unwrap_or_default();
                    made.insert(name.split('(').next().unwrap_or_default().trim_matches('"').to_owned());
                }
            }
        }
        made
    }

    #[test]
    fn own_tables_are_those_of_the_migrations() {
        let own: BTreeSet<String> = OWN_TABLES.map(String::from).into();
        for dialect in ["postgres", "sqlite"] {
            assert_eq!(made(dialect), own, "{dialect}");
        }
    }
}
