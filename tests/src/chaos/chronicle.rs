//! What happened when: every fault that was injected, every recovery that was measured, every finding. Kept in a file as
//! it comes, so that a walk that does not end leaves its schedule too.

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::Write as _,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::fault::{Actor, Fault};

/// The record of one walk. Shared by all who act in it.
#[derive(Debug)]
pub struct Chronicle {
    begun: Instant,
    file: Mutex<File>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lines: Vec<String>,
    faults: BTreeMap<&'static str, u64>,
    recoveries: BTreeMap<&'static str, Vec<Duration>>,
    findings: Vec<String>,
}

impl Chronicle {
    /// A new one, with its file in this folder.
    ///
    /// # Panics
    /// Where the file cannot be made.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        let file = Mutex::new(File::create(folder.join("schedule.log")).unwrap());
        Self { begun: Instant::now(), file, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, words: fmt::Arguments<'_>) {
        let line = format!("{:9.3} s  {words}", self.begun.elapsed().as_secs_f64());
        // The file is for people; a full disk must not end the walk.
        let _ = writeln!(self.file.lock().unwrap_or_else(PoisonError::into_inner), "{line}");
        self.lock().lines.push(line);
    }

    /// A fault begins.
    pub fn begins(&self, actor: Actor, fault: &Fault) {
        self.write(format_args!("{actor}: {fault}"));
    }

    /// A fault was injected; what was drawn and could not be injected does not count.
    pub fn injected(&self, fault: &Fault) {
        self.injected_times(fault, 1);
    }

    /// A fault was injected so many times, such as one for each connection that was cut.
    pub fn injected_times(&self, fault: &Fault, times: u64) {
        if times > 0 {
            *self.lock().faults.entry(fault.kind()).or_default() += times;
        }
    }

    /// Something that is no fault and worth a line.
    pub fn note(&self, words: impl fmt::Display) {
        self.write(format_args!("  {words}"));
    }

    /// How long something took to come back.
    pub fn recovered(&self, what: &'static str, after: Duration) {
        self.write(format_args!("  {what}: {:.2} s", after.as_secs_f64()));
        self.lock().recoveries.entry(what).or_default().push(after);
    }

    /// A promise that was not kept.
    pub fn found(&self, words: impl fmt::Display) {
        let words = words.to_string();
        self.write(format_args!("FOUND: {words}"));
        self.lock().findings.push(words);
    }

    /// All that was found so far.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        self.lock().findings.clone()
    }

    /// Every line.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lock().lines.clone()
    }

    /// Faults that were injected, by kind.
    #[must_use]
    pub fn faults(&self) -> BTreeMap<&'static str, u64> {
        self.lock().faults.clone()
    }

    /// Recoveries that were measured, by kind.
    #[must_use]
    pub fn recoveries(&self) -> BTreeMap<&'static str, Vec<Duration>> {
        self.lock().recoveries.clone()
    }
}
