//! Figures that machines read: a line of JSON for each walk or other part, and what many of them add up to, as the tables of
//! docs/reliability.md. Pure, but for the file.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::report::{Report, spread};
use crate::services::checkout;

/// What came of one part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// `walk`, `measure`, `fail points`, `churn`.
    pub part: String,
    /// Its seed.
    pub seed: u64,
    /// How long it took, servers and all.
    pub seconds: f64,
    /// Faults by kind.
    pub faults: BTreeMap<String, u64>,
    /// Recoveries by kind, in seconds.
    pub recoveries: BTreeMap<String, Vec<f64>>,
    /// Messages published.
    pub messages: u64,
    /// Of these, copies of earlier ones.
    pub copies: u64,
    /// Records in the chains.
    pub consumed: u64,
    /// Ids that were never applied.
    pub lost: u64,
    /// Payments whose sum is not that of their events.
    pub wrong_sums: u64,
    /// What did not hold.
    pub findings: Vec<String>,
}

impl Entry {
    /// A walk's, or a measurement's.
    #[must_use]
    pub fn of(part: &str, report: &Report) -> Self {
        let seconds = |times: &Vec<Duration>| times.iter().map(Duration::as_secs_f64).collect();
        let mut entry = Self {
            part: part.to_owned(),
            seed: report.options.seed,
            seconds: report.took.as_secs_f64(),
            faults: report.faults.iter().map(|(kind, times)| ((*kind).to_owned(), *times)).collect(),
            recoveries: report.recoveries.iter().map(|(what, times)| ((*what).to_owned(), seconds(times))).collect(),
            findings: report.findings.clone(),
            ..Self::default()
        };
        if let Some((told, account)) = &report.account {
            (entry.messages, entry.copies) = (told.messages, told.copies);
            entry.consumed = u64::try_from(account.totals.consumed).unwrap_or(0);
            (entry.lost, entry.wrong_sums) = (account.lost as u64, account.wrong_sums as u64);
        }
        entry
    }
}

/// Where figures are kept unless said otherwise.
#[must_use]
pub fn file() -> PathBuf {
    checkout().join("target/chaos.jsonl")
}

/// Adds a line to a file.
///
/// # Errors
/// Where it cannot be written.
pub fn append(file: &Path, entry: &Entry) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let line = serde_json::to_string(entry)?;
    writeln!(OpenOptions::new().create(true).append(true).open(file)?, "{line}")
}

/// All lines of a file.
///
/// # Errors
/// Where it cannot be read, or a line is none of [`Entry`].
pub fn read(file: &Path) -> io::Result<Vec<Entry>> {
    let text = fs::read_to_string(file)?;
    let mut entries = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let place = |error| io::Error::other(format!("{}, line {number}: {error}", file.display()));
        entries.push(serde_json::from_str(line).map_err(place)?);
    }
    Ok(entries)
}

/// What recoveries are held against, by the beginning of their names: seconds.
const AIMS: [(&str, f64); 4] = [
    ("database back after", 10.0),
    ("last progress →", 30.0),
    // Session time-outs of 2 to 4 s, and 5 s more.
    ("kill -9 (static member) →", 9.0),
    ("kill -9 →", 7.0),
];

/// What a recovery should take at most, in seconds, where there is such an aim.
#[must_use]
pub fn aim(what: &str) -> Option<f64> {
    // When every partition goes on is the group's matter, not the database's.
    let of_group = what.starts_with("database back") && !what.ends_with("first commit");
    AIMS.iter().find(|(stem, _)| what.starts_with(stem) && !of_group).map(|(_, seconds)| *seconds)
}

/// Everything added up, as Markdown: one table of parts, one of faults, one of recoveries.
#[must_use]
pub fn tables(entries: &[Entry]) -> String {
    let mut parts: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    let mut faults: BTreeMap<&str, u64> = BTreeMap::new();
    let mut recoveries: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for entry in entries {
        parts.entry(&entry.part).or_default().push(entry);
        entry.faults.iter().for_each(|(kind, times)| *faults.entry(kind).or_default() += times);
        for (what, times) in &entry.recoveries {
            let times = times.iter().map(|seconds| Duration::from_secs_f64(seconds.max(0.0)));
            recoveries.entry(what).or_default().extend(times);
        }
    }
    let mut text = String::from(
        "| part | seeds | minutes | faults | messages | copies | consumed | lost | wrong sums | findings |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (part, of) in parts {
        let sum = |count: fn(&Entry) -> u64| of.iter().map(|entry| count(entry)).sum::<u64>();
        let seeds: Vec<_> = of.iter().map(|entry| entry.seed.to_string()).collect();
        let minutes = of.iter().map(|entry| entry.seconds).sum::<f64>() / 60.0;
        let _ = writeln!(
            text,
            "| {part} | {} | {minutes:.0} | {} | {} | {} | {} | {} | {} | {} |",
            seeds.join(", "),
            sum(|entry| entry.faults.values().sum()),
            sum(|entry| entry.messages),
            sum(|entry| entry.copies),
            sum(|entry| entry.consumed),
            sum(|entry| entry.lost),
            sum(|entry| entry.wrong_sums),
            sum(|entry| entry.findings.len() as u64),
        );
    }
    text.push_str("\n| faults | |\n|---|---|\n");
    let all: u64 = faults.values().sum();
    for (kind, times) in faults {
        let _ = writeln!(text, "| {times} | {kind} |");
    }
    let _ = writeln!(text, "| **{all}** | in all |");
    text.push_str("\n| recovery | times | median | longest | aim |\n|---|---|---|---|---|\n");
    for (what, times) in recoveries {
        let (median, longest) = spread(&times);
        let aim = aim(what).map(|aim| {
            let missed = times.iter().filter(|time| time.as_secs_f64() > aim).count();
            if missed == 0 { format!("{aim} s") } else { format!("{aim} s: **missed {missed} times**") }
        });
        let _ = writeln!(
            text,
            "| {what} | {} | {:.2} s | {:.2} s | {} |",
            times.len(),
            median.as_secs_f64(),
            longest.as_secs_f64(),
            aim.unwrap_or_default()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seed: u64, seconds: f64) -> Entry {
        Entry {
            part: "walk".to_owned(),
            seed,
            seconds: 90.0,
            faults: BTreeMap::from([("host: kill -9".to_owned(), seed)]),
            recoveries: BTreeMap::from([("database back after 25 s → first commit".to_owned(), vec![seconds, 1.0])]),
            messages: 100,
            ..Entry::default()
        }
    }

    #[test]
    fn what_was_written_is_read_and_adds_up() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("of/figures.jsonl");
        let entries = [entry(7, 2.0), entry(8, 11.5)];
        entries.iter().for_each(|entry| append(&file, entry).unwrap());
        assert_eq!(read(&file).unwrap(), entries);
        let text = tables(&entries);
        assert!(text.contains("| walk | 7, 8 | 3 | 15 | 200 | 0 | 0 | 0 | 0 | 0 |"), "{text}");
        assert!(text.contains("| 15 | host: kill -9 |") && text.contains("| **15** | in all |"), "{text}");
        assert!(text.contains("first commit | 4 | 1.50 s | 11.50 s | 10 s: **missed 1 times** |"), "{text}");
    }

    #[test]
    fn a_broken_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("figures.jsonl");
        append(&file, &entry(1, 1.0)).unwrap();
        fs::write(&file, fs::read_to_string(&file).unwrap() + "{\"part\": 3}\n").unwrap();
        assert!(read(&file).unwrap_err().to_string().contains("line 2"));
    }
}
