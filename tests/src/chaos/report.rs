//! A walk's figures, for people.

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc, time::Duration};

use super::{chronicle::Chronicle, story::Told, verdict::Account, walk::Options};

/// What came of a walk.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was asked for.
    pub options: Options,
    /// How long all of it took.
    pub took: Duration,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Recoveries by kind.
    pub recoveries: BTreeMap<&'static str, Vec<Duration>>,
    /// What was published and what the database says.
    pub account: Option<(Told, Account)>,
    /// What did not hold.
    pub findings: Vec<String>,
    /// All that happened, with times.
    pub schedule: Vec<String>,
    /// Logs, and the databases if anything was found.
    pub folder: PathBuf,
}

impl Report {
    pub(super) fn of(
        options: &Options,
        chronicle: &Arc<Chronicle>,
        account: Option<(Told, Account)>,
        took: Duration,
        folder: PathBuf,
    ) -> Self {
        Self {
            options: options.clone(),
            took,
            faults: chronicle.faults(),
            recoveries: chronicle.recoveries(),
            account,
            findings: chronicle.findings(),
            schedule: chronicle.lines(),
            folder,
        }
    }

    /// Faults in all.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.faults.values().sum()
    }
}

/// Median and longest of some times.
#[must_use]
pub fn spread(times: &[Duration]) -> (Duration, Duration) {
    let mut times = times.to_vec();
    times.sort_unstable();
    let (Some(longest), middle) = (times.last().copied(), times.len() / 2) else { return Default::default() };
    let median = if times.len().is_multiple_of(2) { (times[middle - 1] + times[middle]) / 2 } else { times[middle] };
    (median, longest)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.took.as_secs();
        writeln!(f, "seed {}: {} faults in {seconds} s", self.options.seed, self.injected())?;
        for (kind, times) in &self.faults {
            writeln!(f, "  {times:6}  {kind}")?;
        }
        for (what, times) in &self.recoveries {
            let (median, longest) = spread(times);
            let (median, longest) = (median.as_secs_f64(), longest.as_secs_f64());
            writeln!(f, "  {what}: {} times, median {median:.2} s, longest {longest:.2} s", times.len())?;
        }
        if let Some((told, Account { totals, lost, wrong_sums })) = &self.account {
            writeln!(
                f,
                "  published: {} messages, of which {} copies, {} poison, {} rejected, {} for others",
                told.messages, told.copies, told.poison, told.rejected, told.strange
            )?;
            writeln!(
                f,
                "  in the chains: {} consumed = {} applied + {} duplicates + {} skipped + {} dead + {} too old",
                totals.consumed, totals.applied, totals.duplicate, totals.skipped, totals.dead, totals.too_old
            )?;
            let again = totals.consumed - i64::try_from(told.messages).unwrap_or(0);
            writeln!(f, "  delivered again: {again}; lost: {lost}; payments with a wrong sum: {wrong_sums}")?;
        }
        if self.findings.is_empty() {
            return writeln!(f, "  every promise was kept");
        }
        writeln!(f, "what happened:")?;
        self.schedule.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        writeln!(f, "found:")?;
        self.findings.iter().try_for_each(|finding| writeln!(f, "  {finding}"))?;
        writeln!(f, "logs and databases: {}", self.folder.display())?;
        writeln!(f, "again: make chaos ARGS=\"--seed {} --minutes …\"", self.options.seed)
    }
}
