//! The hosts of a walk: each has a number, a configuration of its own, and a process that comes and goes.

use std::{fs::OpenOptions, io::Write as _, path::PathBuf, sync::Arc, time::Duration};

use super::chronicle::Chronicle;
use crate::host::{self, HostProcess, Setup};

/// How long a host that was asked to end may take. Its lanes drain for as long as a revoke may, and the group is left.
const ENDING: Duration = Duration::from_secs(60);

/// One host's place.
#[derive(Debug)]
pub struct Slot {
    number: usize,
    setup: Setup,
    /// Where the logs of all its processes go.
    log: PathBuf,
    process: Option<HostProcess>,
    chronicle: Arc<Chronicle>,
}

impl Slot {
    /// An empty place.
    #[must_use]
    pub fn new(number: usize, setup: Setup, log: PathBuf, chronicle: Arc<Chronicle>) -> Self {
        Self { number, setup, log, process: None, chronicle }
    }

    /// Runs a command with this place's configuration to its end, such as `["seek", …]`. Blocks.
    ///
    /// # Panics
    /// Where the program cannot be started.
    #[must_use]
    pub fn run_once(&self, arguments: &[&str]) -> std::process::Output {
        host::run_once(&self.setup, arguments)
    }

    /// What `/readyz` says; empty where there is no answer.
    pub async fn says(&mut self) -> String {
        let Some(process) = self.process.as_ref() else { return String::new() };
        process.get("/readyz").await.map(|answer| answer.body).unwrap_or_default()
    }

    /// Starts a process where none runs.
    pub fn start(&mut self) {
        self.look();
        if self.process.is_none() {
            self.process = Some(HostProcess::start(&format!("{}", self.number), &self.setup));
        }
    }

    /// The running process.
    #[must_use]
    pub fn process(&mut self) -> Option<&mut HostProcess> {
        self.process.as_mut()
    }

    /// Whether a process runs. One that has ended by itself is a finding: no fault of a walk gives a reason to.
    pub fn look(&mut self) {
        let Some(process) = self.process.as_mut() else { return };
        if process.is_running() {
            return;
        }
        let status = process.wait();
        let tail = last_lines(&process.log());
        self.chronicle.found(format_args!("host {} ended by itself: {status}\n    {tail}", self.number));
        self.end();
    }

    /// Whether it says that it is in its group.
    pub async fn has_joined(&mut self) -> bool {
        self.look();
        match self.process.as_ref() {
            Some(process) => joined(process).await,
            None => false,
        }
    }

    /// The last lines of its log, for people.
    #[must_use]
    pub fn tail(&self) -> String {
        self.process.as_ref().map(|process| last_lines(&process.log())).unwrap_or_default()
    }

    /// Waits until it says that it is in its group, but no longer than this.
    pub async fn until_at_work(&mut self, patience: Duration) {
        let Some(process) = self.process.as_mut() else { return };
        let begun = tokio::time::Instant::now();
        while begun.elapsed() < patience && process.is_running() {
            if joined(process).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Kills it. `false` where there is none.
    pub fn kill(&mut self) -> bool {
        self.look();
        let Some(process) = self.process.as_mut() else { return false };
        process.kill();
        self.end();
        true
    }

    /// Asks it to end, and waits. `false` where there is none.
    pub async fn terminate(&mut self) -> bool {
        self.look();
        let Some(process) = self.process.as_mut() else { return false };
        process.terminate();
        let begun = tokio::time::Instant::now();
        while process.is_running() && begun.elapsed() < ENDING {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if process.is_running() {
            self.chronicle.found(format_args!(
                "host {} did not end within {} s of SIGTERM",
                self.number,
                ENDING.as_secs()
            ));
            process.kill();
        } else {
            let status = process.wait();
            // One that has not begun to listen for signals has nothing at hand either.
            let unborn = process.log().is_empty();
            if status.code() != Some(0) && !unborn {
                self.chronicle.found(format_args!("host {} ended with {status} after SIGTERM", self.number));
            }
        }
        self.end();
        true
    }

    /// Keeps the log of a process that has ended.
    fn end(&mut self) {
        let Some(process) = self.process.take() else { return };
        let file = OpenOptions::new().create(true).append(true).open(&self.log);
        if let Ok(mut file) = file {
            // For people only.
            let _ = writeln!(file, "---- process {}\n{}", process.pid(), process.log());
        }
    }
}

/// Other reasons for not being ready are the walk's own.
async fn joined(process: &HostProcess) -> bool {
    let answer = process.get("/readyz").await;
    answer.is_some_and(|answer| !answer.body.contains("has not joined its group"))
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n    ")
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(process) = self.process.as_mut()
            && process.is_running()
        {
            process.kill();
        }
        self.end();
    }
}
