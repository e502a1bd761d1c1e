//! `tidegate plugin …` and `tidegate run --dry-run`, typed.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use crate::host::program;

/// What a command wrote, and its exit code.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The exit code.
    pub code: Option<i32>,
    /// stdout and stderr, in this order.
    pub text: String,
}

impl Answer {
    /// Of a process that has ended.
    #[must_use]
    pub fn of(output: &Output) -> Self {
        let text = [&output.stdout[..], &output.stderr].concat();
        Self { code: output.status.code(), text: String::from_utf8_lossy(&text).into_owned() }
    }

    /// Holds the exit code, and shows what was said where it is another.
    ///
    /// # Panics
    /// Where it is another.
    pub fn expect(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}", self.text);
        self.text
    }
}

/// Types `tidegate` and these words in a folder.
///
/// # Panics
/// Where it cannot be started.
#[must_use]
pub fn tidegate(folder: &Path, words: &[&str]) -> Answer {
    tidegate_with(folder, &[], words)
}

/// The same with these environment variables.
///
/// # Panics
/// Where it cannot be started.
#[must_use]
pub fn tidegate_with(folder: &Path, variables: &[(&str, &str)], words: &[&str]) -> Answer {
    let mut command = Command::new(program("tidegate"));
    Answer::of(&command.args(words).current_dir(folder).envs(variables.iter().copied()).output().unwrap())
}

/// A command that goes on, and what it says line by line. Ended with the test.
pub struct Watching {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Watching {
    /// Types `tidegate` and these words in a folder.
    ///
    /// # Panics
    /// Where it cannot be started.
    #[must_use]
    pub fn start(folder: &Path, words: &[&str]) -> Self {
        let mut command = Command::new(program("tidegate"));
        command.args(words).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines, said: Vec::new() }
    }

    /// Waits for a line with these words in it, and answers everything that was said since the last time.
    ///
    /// # Panics
    /// Where none comes within three minutes, or the command ends.
    pub fn until(&mut self, words: &str) -> String {
        self.said.clear();
        loop {
            match self.lines.recv_timeout(Duration::from_secs(180)) {
                Ok(line) => {
                    let found = line.contains(words);
                    self.said.push(line);
                    if found {
                        return self.said.join("\n");
                    }
                }
                Err(why) => panic!("{why}, while waiting for {words:?}; it said:\n{}", self.said.join("\n")),
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
