//! A server process: started in the background, asked until it answers, stopped by its own signal.

use std::{
    fs::{self, File},
    net::TcpListener,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{DeadMan, ServiceError, signal};

/// How long a server may take to answer its first request, on a machine that is busy with compiling.
const START: Duration = Duration::from_secs(120);
/// How long it may take to stop before it is killed.
const STOP: Duration = Duration::from_secs(30);

/// A port that nobody had a moment ago.
///
/// # Errors
/// Where the loopback interface gives none.
pub fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// A running server.
#[derive(Debug)]
pub(super) struct Server {
    name: &'static str,
    child: Child,
    stop: &'static str,
    guard: Option<DeadMan>,
}

impl Server {
    /// Starts it, its output into `log`, and waits until `ready` says so. `stop` is the signal of an orderly stop.
    pub(super) fn start(
        name: &'static str,
        mut command: Command,
        log: &Path,
        stop: &'static str,
        ready: impl Fn() -> bool,
    ) -> Result<Self, ServiceError> {
        let output = File::options().create(true).append(true).open(log);
        let output = output.map_err(ServiceError::io(format!("{name}'s log {}", log.display())))?;
        let errors = output.try_clone().map_err(ServiceError::io(format!("{name}'s log {}", log.display())))?;
        // A group of its own: Ctrl-C stops the tests, and the guard then stops the server in its own way.
        command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        let child = command.spawn().map_err(ServiceError::io(format!("starting {name}")))?;
        let guard = DeadMan::watch(child.id(), stop).map_err(ServiceError::io(format!("guarding {name}")))?;
        let mut server = Self { name, child, stop, guard: Some(guard) };

        let start = Instant::now();
        while !ready() {
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(ServiceError::failed(format!("starting {name}"), format!("{status}\n{}", tail(log))));
            }
            if start.elapsed() > START {
                let detail = format!("no answer after {} s\n{}", START.as_secs(), tail(log));
                return Err(ServiceError::failed(format!("starting {name}"), detail));
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(server)
    }

    /// Sends a signal.
    pub(super) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Whether it still runs.
    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end after a signal; kills it where it takes too long.
    pub(super) fn wait(&mut self) {
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if start.elapsed() > STOP {
                eprintln!("{} did not stop within {} s: killed", self.name, STOP.as_secs());
                let _ = self.child.kill();
            }
            thread::sleep(Duration::from_millis(20));
        }
        if let Some(guard) = self.guard.take() {
            guard.disarm();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.signal(self.stop);
            self.wait();
        }
    }
}

/// Runs a step of the set-up to its end; its output is told only if it fails.
pub(super) fn run(what: &str, command: &mut Command) -> Result<String, ServiceError> {
    let output = command.stdin(Stdio::null()).output().map_err(ServiceError::io(what.to_owned()))?;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        Ok(said)
    } else {
        Err(ServiceError::failed(what, format!("{}\n{}", output.status, last_lines(&said))))
    }
}

/// The first of these folders that holds the program, or where `PATH` has it.
pub(super) fn find(program: &str, folders: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders.into_iter().chain(std::env::split_paths(&path)).map(|dir| dir.join(program)).find(|file| file.is_file())
}

fn tail(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    format!("{}\n(all of it: {})", last_lines(&text), log.display())
}

fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}
