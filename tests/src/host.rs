//! tidegate as a process of its own: started with a configuration file, asked over HTTP, killed in every way.

use std::{
    fmt::Write as _,
    fs::{self, File},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use tempfile::TempDir;
use tidegate::fail_point::{self, Action, FailPoint};

use crate::{
    broker::Broker,
    builds::replace,
    http,
    services::{DeadMan, checkout, free_port, signal},
    wait,
};

/// How the members of a Kafka group come to their partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// One of them assigns.
    Classic,
    /// The broker assigns (KIP-848).
    Consumer,
}

/// Settings that the newer protocol has on the broker.
pub const CLASSIC: [&str; 2] = ["session.timeout.ms", "heartbeat.interval.ms"];

impl Protocol {
    /// As `group.protocol` has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
        }
    }
}

/// What a configuration file says, as far as the tests vary it.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// `[database.main]`'s URL.
    pub database_url: String,
    /// What else `[database.main]` says, all of it text.
    pub database: Vec<(String, String)>,
    /// `[kafka.main]`, in librdkafka's own names.
    pub kafka: Vec<(String, String)>,
    /// `[health]`.
    pub health: Vec<(String, String)>,
    /// Whether nothing but a signal, or a word over HTTP, has it look at its files again.
    pub unwatched: bool,
    /// The `[[consumer]]` tables and what else there is, as TOML.
    pub rest: String,
}

impl Setup {
    /// Against these two services. Group members are missed after two seconds instead of 45, so that a killed host's
    /// partitions are free again soon.
    #[must_use]
    pub fn new(database_url: &str, broker: &Broker, rest: impl Into<String>) -> Self {
        let kafka = [
            ("bootstrap.servers", broker.bootstrap()),
            ("session.timeout.ms", "2000"),
            ("heartbeat.interval.ms", "300"),
        ];
        Self {
            database_url: database_url.to_owned(),
            database: Vec::new(),
            health: Vec::new(),
            kafka: kafka.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
            unwatched: false,
            rest: rest.into(),
        }
    }

    /// The same with a token for whoever changes something over HTTP.
    #[must_use]
    pub fn with_token(mut self, token: &str) -> Self {
        // What comes first still belongs to [http].
        self.rest = format!("token = \"{token}\"\n{}", self.rest);
        self
    }

    /// The same, looking at its files only where it is told.
    #[must_use]
    pub fn unwatched(mut self) -> Self {
        self.unwatched = true;
        self
    }

    /// The same with another librdkafka setting.
    #[must_use]
    pub fn with_kafka(mut self, key: &str, value: &str) -> Self {
        self.kafka.retain(|(known, _)| known != key);
        self.kafka.push((key.to_owned(), value.to_owned()));
        self
    }

    /// The same with another setting of the database, such as a time-out.
    #[must_use]
    pub fn with_database(mut self, key: &str, value: &str) -> Self {
        self.database.push((key.to_owned(), value.to_owned()));
        self
    }

    /// The same with another of the watchdog's bounds.
    #[must_use]
    pub fn with_health(mut self, key: &str, value: &str) -> Self {
        self.health.push((key.to_owned(), value.to_owned()));
        self
    }

    /// The same in a group of this protocol. Under the newer one the broker has the time-outs.
    #[must_use]
    pub fn under(mut self, protocol: Protocol) -> Self {
        if protocol == Protocol::Consumer {
            self.kafka.retain(|(known, _)| !CLASSIC.contains(&known.as_str()));
        }
        self.with_kafka("group.protocol", protocol.name())
    }

    fn toml(&self, port: u16) -> String {
        let quote = |text: &str| toml::Value::from(text).to_string();
        let mut text = format!("[database.main]\nurl = {}\n", quote(&self.database_url));
        let sections = [("", &self.database), ("\n[kafka.main]\n", &self.kafka), ("\n[health]\n", &self.health)];
        for (head, settings) in sections {
            text.push_str(head);
            for (key, value) in settings {
                let _ = writeln!(text, "{} = {}", quote(key), quote(value));
            }
        }
        // Compiled once for all hosts of all tests, not each time that one starts.
        let (cache, watch) = (quote(&plugin_cache().display().to_string()), !self.unwatched);
        let _ = write!(text, "\n[plugins]\ncache = {cache}\nwatch = {watch}\n");
        let _ = write!(text, "\n[http]\nlisten = \"127.0.0.1:{port}\"\n\n{}", self.rest);
        text
    }
}

/// Where the tests keep compiled plugins.
#[must_use]
pub fn plugin_cache() -> PathBuf {
    checkout().join("target/plugin-cache")
}

/// A program of this build, such as `tidegate`.
///
/// # Panics
/// Where it was not built.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let this = std::env::current_exe().unwrap();
    // Test programs lie in a folder below the others.
    let found = this.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("{name} is not built: `make test` builds it, or `cargo build --workspace`"))
}

/// An example plugin's component, such as `settlement`.
///
/// # Panics
/// Where it was not built.
#[must_use]
pub fn plugin(name: &str) -> PathBuf {
    let file = checkout().join(format!("target/plugins/{name}.wasm"));
    assert!(file.is_file(), "the plugin {name} is not built: `make plugins` builds it");
    file
}

/// Runs the program to its end, such as `["migrate"]`, with `--config FILE` behind it.
///
/// # Panics
/// Where it cannot be started.
#[must_use]
pub fn run_once(setup: &Setup, arguments: &[&str]) -> std::process::Output {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("tidegate.toml");
    fs::write(&config, setup.toml(0)).unwrap();
    Command::new(program("tidegate")).args(arguments).arg("--config").arg(&config).output().unwrap()
}

/// A fail point that a host is started with: at this hit of it, counted from 1, the host does this to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Armed {
    /// Where.
    pub point: FailPoint,
    /// Which time it comes by.
    pub hit: u64,
    /// What it does.
    pub action: Action,
}

/// What a host's armed panic says, formatted: it must not come out.
pub const WORDS: &str = "c4nary-in-a-panic";

/// A running host. Killed at the end of the test, whatever becomes of the test; its log is printed if the test fails.
#[derive(Debug)]
pub struct HostProcess {
    child: Child,
    port: u16,
    folder: TempDir,
    name: String,
    guard: Option<DeadMan>,
    ended: Option<ExitStatus>,
}

impl HostProcess {
    /// Starts it. Not yet ready: see [`Self::ready`].
    ///
    /// # Panics
    /// Where it cannot be started.
    #[must_use]
    pub fn start(name: &str, setup: &Setup) -> Self {
        Self::start_with(name, setup, None)
    }

    /// Starts one that ends or freezes itself at a fail point.
    ///
    /// # Panics
    /// Where it cannot be started.
    #[must_use]
    pub fn start_armed(name: &str, setup: &Setup, armed: Armed) -> Self {
        Self::start_with(name, setup, Some(armed))
    }

    fn start_with(name: &str, setup: &Setup, armed: Option<Armed>) -> Self {
        let folder = tempfile::Builder::new().prefix("tidegate-host-").tempdir().unwrap();
        let port = free_port().unwrap();
        let config = folder.path().join("tidegate.toml");
        fs::write(&config, setup.toml(port)).unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new(program("tidegate"));
        command.arg("run").arg("--config").arg(&config);
        if let Some(Armed { point, hit, action }) = armed {
            command.env(fail_point::VARIABLE, format!("{}:{hit}:{}", point.name(), action.name()));
            command.env(fail_point::WORDS, WORDS);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap();
        let guard = DeadMan::watch(child.id(), "KILL").unwrap();
        Self { child, port, folder, name: name.to_owned(), guard: Some(guard), ended: None }
    }

    /// Waits until `/readyz` says yes.
    ///
    /// # Panics
    /// Where the process ends instead, or nothing moves.
    pub async fn ready(&mut self) {
        let what = format!("host {} is ready", self.name);
        let pid = self.child.id();
        let mut ended = None;
        let port = self.port;
        // The log grows while it starts: that is the progress.
        let log = self.folder.path().join("log");
        let child = &mut self.child;
        let (ready, ..) = wait::until(
            &what,
            async || {
                ended = child.try_wait().unwrap();
                let ready = http::get(port, "/readyz").await.is_some_and(|answer| answer.status == 200);
                (ready, ended, fs::metadata(&log).map_or(0, |log| log.len()))
            },
            |(ready, ended, _)| *ready || ended.is_some(),
        )
        .await;
        self.ended = ended;
        assert!(ready, "host {} (pid {pid}) ended with {ended:?} instead of becoming ready", self.name);
    }

    /// Waits until `/readyz` says no, for a reason with these words in it.
    ///
    /// # Panics
    /// Where the process ends instead, or says something else for long.
    pub async fn until_not_ready(&mut self, part: &str) {
        let what = format!("host {} says that it is not ready: {part:?}", self.name);
        let port = self.port;
        let says_so = async || {
            let answer = http::get(port, "/readyz").await;
            let answer = answer.filter(|answer| answer.status == 503).map(|answer| answer.body).unwrap_or_default();
            // How long it has been so is no progress.
            answer.chars().filter(|c| !c.is_ascii_digit() || part.contains(*c)).collect::<String>()
        };
        self.alive_during(wait::until(&what, says_so, |answer| answer.contains(part))).await;
    }

    /// Does the work, such as waiting for something, as long as the host lives.
    ///
    /// # Panics
    /// Where it ends before the work does: nobody should wait for a dead host.
    pub async fn alive_during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            match tokio::time::timeout(Duration::from_millis(200), &mut work).await {
                Ok(answer) => return answer,
                Err(_) => assert!(self.is_running(), "host {} ended by itself: {:?}", self.name, self.ended),
            }
        }
    }

    /// The answer to a GET request; `None` = no answer.
    pub async fn get(&self, path: &str) -> Option<http::Answer> {
        http::get(self.port, path).await
    }

    /// A metric's value, summed over its labels; `None` where the host does not answer or has no such metric.
    pub async fn metric(&self, name: &str) -> Option<f64> {
        let answer = self.get("/metrics").await?;
        let values = answer.body.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            let value = if let Some(labelled) = rest.strip_prefix('{') { labelled.rsplit_once('}')?.1 } else { rest };
            value.strip_prefix(' ')?.split(' ').next()?.parse::<f64>().ok()
        });
        values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it without notice, and waits until it is gone.
    ///
    /// # Panics
    /// Where it had ended by itself before.
    pub fn kill(&mut self) {
        assert!(self.is_running(), "host {} had ended before it was killed: {:?}", self.name, self.ended);
        self.child.kill().unwrap();
        self.assert_killed();
    }

    /// Waits for its end, and holds that SIGKILL was it.
    ///
    /// # Panics
    /// Where it ended in another way.
    pub fn assert_killed(&mut self) {
        let status = self.wait();
        assert_eq!(status.signal(), Some(9), "host {} ended with {status} instead of being killed", self.name);
    }

    /// Whether it is frozen: stopped by a signal, and not gone.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
    }

    /// Where it answers HTTP.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its configuration's file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("tidegate.toml")
    }

    /// Writes its configuration's file anew, in one step. Nobody tells it.
    ///
    /// # Panics
    /// Where it cannot be written.
    pub fn configure(&self, setup: &Setup) {
        replace(&self.config(), setup.toml(self.port).as_bytes());
    }

    /// Sends it a signal, such as `HUP`.
    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Asks it to drain and end (SIGTERM).
    pub fn terminate(&self) {
        signal(self.pid(), "TERM");
    }

    /// Freezes it (SIGSTOP): it keeps its connections and believes that it owns what it owned.
    pub fn freeze(&self) {
        signal(self.pid(), "STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        signal(self.pid(), "CONT");
    }

    /// Whether it still runs.
    ///
    /// # Panics
    /// Where the operating system does not know.
    pub fn is_running(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap();
        }
        self.ended.is_none()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// Where it goes on for two minutes.
    pub fn wait(&mut self) -> ExitStatus {
        for _ in 0..6_000 {
            if !self.is_running() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        if let Some(guard) = self.guard.take() {
            guard.disarm();
        }
        self.ended.unwrap_or_else(|| panic!("host {} did not end", self.name))
    }

    /// What it has written so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read(self.folder.path().join("log"))
            .map(|log| String::from_utf8_lossy(&log).into_owned())
            .unwrap_or_default()
    }

    /// What it holds in memory, in bytes; 0 where the process is gone.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|rest| rest.split_whitespace().next()).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
    }

    /// CPU time that it has used, all threads, user and system.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        cpu(self.pid())
    }
}

/// CPU time of a process so far, all threads, user and system; zero where it is gone.
#[must_use]
pub fn cpu(pid: u32) -> Duration {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    // The name in parentheses may hold blanks; what follows are numbers, of which the 12th and 13th are meant.
    let numbers = stat.rsplit_once(')').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
    let ticks: u64 = numbers.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    // Linux has shown 100 ticks a second to user space on every architecture for decades.
    Duration::from_millis(ticks * 10)
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(60)..].join("\n");
            eprintln!("---- log of host {} ({} lines, the last 60) ----\n{tail}\n----", self.name, lines.len());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(guard) = self.guard.take() {
            guard.disarm();
        }
    }
}
