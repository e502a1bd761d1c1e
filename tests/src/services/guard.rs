//! A dead man's switch: what a test starts dies with the test, even if the test is killed.

use std::{
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

/// A shell that waits for the end of a pipe whose other end is ours, then sends a signal. No handler, no thread and
/// no `unsafe` on our side: the kernel closes the pipe whatever became of us.
#[derive(Debug)]
pub struct DeadMan(Child);

impl DeadMan {
    /// Sends `signal` ("INT", "KILL", …) to `pid` as soon as this process is gone or the value is dropped.
    ///
    /// # Errors
    /// Where `sh` cannot be started.
    pub fn watch(pid: u32, signal: &str) -> std::io::Result<Self> {
        Self::when_over(r#"kill -s "$1" "$0""#, &[&pid.to_string(), signal])
    }

    /// Runs a shell's command as soon as this process is gone or the value is dropped; `argument` is its `$0`.
    ///
    /// # Errors
    /// Where `sh` cannot be started.
    pub fn run(command: &str, argument: &str) -> std::io::Result<Self> {
        Self::when_over(command, &[argument])
    }

    fn when_over(command: &str, arguments: &[&str]) -> std::io::Result<Self> {
        Command::new("sh")
            .args(["-c", &format!(r#"trap "" INT TERM HUP; cat >/dev/null; {command}"#)])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C goes to the terminal's group; the switch must outlive it.
            .process_group(0)
            .spawn()
            .map(Self)
    }

    /// Its work is done: the process was stopped in the ordinary way, and its id may belong to another one soon.
    pub fn disarm(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // The shell first, so that closing the pipe wakes nobody.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for DeadMan {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Sends a signal by name. `false` where the process is gone.
pub fn signal(pid: u32, name: &str) -> bool {
    Command::new("sh")
        .args(["-c", r#"kill -s "$1" "$0" 2>/dev/null"#, &pid.to_string(), name])
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").spawn().unwrap()
    }

    #[test]
    fn the_switch_kills_on_drop() {
        let mut sleeper = sleeper();
        drop(DeadMan::watch(sleeper.id(), "KILL").unwrap());
        assert_eq!(sleeper.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn a_disarmed_switch_does_nothing() {
        let mut sleeper = sleeper();
        DeadMan::watch(sleeper.id(), "KILL").unwrap().disarm();
        assert!(sleeper.try_wait().unwrap().is_none());
        assert!(signal(sleeper.id(), "TERM"));
        assert_eq!(sleeper.wait().unwrap().signal(), Some(15));
    }
}
