//! One run of one contestant, in a process of its own on a fresh database, and what it cost.

use std::{collections::BTreeMap, fs, process::Command, time::Duration};

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use super::{
    handwritten::{self, Backlog},
    lane::CONSUMER,
    replaced::Replaced,
    roof,
};
use crate::{
    Broker, Database,
    host::{self, HostProcess, Setup},
    oracle,
    settlement::{NEWEST_WINS, Settlement},
    workload::{Event, Expected, SETTLEMENTS, Workload},
};

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contestant {
    /// The same SQL, data in memory.
    Roof,
    /// rdkafka, serde_json and the same SQL.
    HandWritten,
    /// The product, as a process with the settlement plugin.
    Tidegate,
    /// The same while its plugin is replaced by another build of it once a second.
    Reloading,
}

impl Contestant {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Roof, Self::HandWritten, Self::Tidegate, Self::Reloading];

    /// As on the command line and in the report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Roof => "roof",
            Self::HandWritten => "hand-written",
            Self::Tidegate => "tidegate",
            Self::Reloading => "reloading",
        }
    }
}

/// What a run cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Messages per second between the first commit and the last.
    pub rate: f64,
    /// CPU time of the contestant's process per message, in microseconds.
    pub cpu_us: f64,
    /// CPU time of its database backends per message, in microseconds; absent where the server runs elsewhere.
    pub database_cpu_us: Option<f64>,
    /// The most memory that the process ever held, in MiB.
    pub peak_mib: f64,
    /// How many plugins have had messages applied by them after the first; absent where none was replaced.
    pub reloads: Option<f64>,
}

/// The backlog and the frame of all runs.
pub struct Contest {
    /// What is to be drained.
    pub workload: Workload,
    /// Database connections that apply in parallel.
    pub lanes: usize,
    /// Messages in a transaction, at most.
    pub batch: usize,
    broker: Broker,
    topic: String,
    ends: Vec<i64>,
    expected: Expected,
    server: String,
}

/// What a contestant told of itself.
struct Told {
    commits: Vec<(u128, usize)>,
    cpu: Duration,
    peak_kib: u64,
}

impl Contest {
    /// Produces the backlog into a fresh topic of twelve partitions.
    ///
    /// # Panics
    /// Where there is no Kafka or no PostgreSQL.
    pub async fn prepare(workload: Workload, lanes: usize, batch: usize) -> Self {
        let broker = crate::kafka();
        let topic = broker.topic(12).await;
        let events = workload.events();
        broker.producer(&[]).send(&topic, events.iter().map(Event::message));
        let ends = broker.watermarks(&topic).into_iter().map(|(_, end)| end).collect();
        let server = std::env::var("DATABASE_URL").expect("DATABASE_URL; `make bench` sets it");
        let expected = Workload::expected(&events);
        Self { workload, lanes, batch, broker, topic, ends, expected, server }
    }

    /// Lets one contestant drain the backlog into a fresh database, and holds its tables against the expectation.
    ///
    /// # Panics
    /// Where it fails, or its tables are wrong: a fast wrong answer is no result.
    pub async fn run(&self, contestant: Contestant) -> Run {
        let database = Database::on(&self.server).await;
        database.execute(SETTLEMENTS).await;
        let replaced = (contestant == Contestant::Reloading).then(Replaced::new);
        let setup = self.setup(&database, replaced.as_ref());
        let migrated = host::run_once(&setup, &["migrate"]);
        assert!(migrated.status.success(), "migrate: {}", String::from_utf8_lossy(&migrated.stderr));
        // Nobody pays for the pages of the one before.
        database.execute("CHECKPOINT").await;

        let mut observer = PgConnection::connect(&self.server).await.unwrap();
        let postmaster = postmaster(&mut observer).await;
        let before = postmaster.map(children_cpu);
        let told = match contestant {
            Contestant::Tidegate | Contestant::Reloading => self.tidegate(&database, &setup, replaced).await,
            Contestant::Roof | Contestant::HandWritten => self.child(contestant, &database),
        };
        self.assert_right(contestant, &database).await;
        let plugins = "SELECT count(DISTINCT plugin_digest) FROM checkpoints WHERE consumed > 0";
        let plugins = usize::try_from(database.number(plugins).await).unwrap_or(0);
        let reloads = (contestant == Contestant::Reloading).then(|| as_f64(plugins.saturating_sub(1)));
        drop(database);

        let messages = as_f64(self.workload.messages);
        let database_cpu_us = postmaster.zip(before).map(|(pid, before)| {
            // The server notices the end of a backend when it has reaped it; dropping the database waited for that.
            (children_cpu(pid).saturating_sub(before)).as_secs_f64() * 1e6 / messages
        });
        Run {
            rate: rate(&told.commits),
            cpu_us: told.cpu.as_secs_f64() * 1e6 / messages,
            database_cpu_us,
            peak_mib: as_f64(usize::try_from(told.peak_kib).unwrap_or(0)) / 1024.0,
            reloads,
        }
    }

    fn setup(&self, database: &Database, replaced: Option<&Replaced>) -> Setup {
        let batch = format!("max_records = {}, max_bytes = \"8MiB\", linger = \"5ms\"", self.batch);
        let consumer = Settlement::of(&self.topic)
            .named(CONSUMER)
            .in_group(&format!("{CONSUMER}-{}", uuid::Uuid::new_v4().simple()))
            .reading(self.lanes, &batch)
            .merging(NEWEST_WINS);
        let consumer = match replaced {
            Some(replaced) => consumer.with_plugin(&replaced.file()),
            None => consumer,
        };
        Setup::new(database.url(), &self.broker, consumer.toml())
    }

    async fn tidegate(&self, database: &Database, setup: &Setup, replaced: Option<Replaced>) -> Told {
        let mut host = HostProcess::start("bench", setup);
        // Start-up, such as compiling the plugin, is no cost of a message.
        host.ready().await;
        let before = host.cpu();
        let replacing = replaced.map(Replaced::once_a_second);
        oracle::until_consumed(database, &self.broker, CONSUMER, &self.topic).await;
        drop(replacing);
        let cpu = host.cpu().saturating_sub(before);
        let peak_kib = peak_kib(host.pid());
        host.terminate();
        host.wait();
        let commits: Vec<(i64, i64)> = sqlx::query_as(
            "SELECT (extract(epoch FROM committed_at) * 1000)::bigint, sum(consumed)::bigint FROM checkpoints
             WHERE consumer_name = $1 AND consumed > 0 GROUP BY 1",
        )
        .bind(CONSUMER)
        .fetch_all(database.pool())
        .await
        .unwrap();
        let positive = |(at, n): (i64, i64)| (u128::try_from(at).unwrap_or(0), usize::try_from(n).unwrap_or(0));
        Told { commits: commits.into_iter().map(positive).collect(), cpu, peak_kib }
    }

    /// Runs this program again as the contestant, so that its CPU time and memory are its own.
    fn child(&self, contestant: Contestant, database: &Database) -> Told {
        let mandate = json!({
            "contestant": contestant.name(), "url": database.url(), "bootstrap": self.broker.bootstrap(), "topic": self.topic,
            "ends": self.ends, "messages": self.workload.messages, "seed": self.workload.seed,
            "lanes": self.lanes, "batch": self.batch,
        });
        let this = std::env::current_exe().unwrap();
        let output = Command::new(this).args(["--child", &mandate.to_string()]).output().unwrap();
        let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}: {}\n{errors}", contestant.name(), output.status);
        let told: Value = serde_json::from_str(&said).unwrap();
        let commits: Vec<(u64, usize)> = serde_json::from_value(told["commits"].clone()).unwrap();
        Told {
            commits: commits.into_iter().map(|(at, n)| (u128::from(at), n)).collect(),
            cpu: Duration::from_micros(told["cpu_us"].as_u64().unwrap()),
            peak_kib: told["peak_kib"].as_u64().unwrap(),
        }
    }

    async fn assert_right(&self, contestant: Contestant, database: &Database) {
        let found = Expected {
            applied: database.number("SELECT count(*) FROM processed_messages").await,
            rows: database.number("SELECT count(*) FROM settlements").await,
            versions: database.number("SELECT sum(event_version) FROM settlements").await,
            cents: database.number("SELECT sum(amount * 100) FROM settlements").await,
        };
        assert_eq!(found, self.expected, "the tables of {}", contestant.name());
    }
}

/// The other side of a contestant's process: does what it is told and prints what it cost.
///
/// # Panics
/// Where the mandate is not one that [`Contest`] wrote, or the work fails.
pub fn child(mandate: &str) {
    let mandate: Value = serde_json::from_str(mandate).unwrap();
    let text = |name: &str| mandate[name].as_str().unwrap().to_owned();
    let number = |name: &str| usize::try_from(mandate[name].as_u64().unwrap()).unwrap();
    let (url, lanes, batch) = (text("url"), number("lanes"), number("batch"));
    let this = std::process::id();
    let (before, commits) = if text("contestant") == Contestant::Roof.name() {
        let workload = Workload { messages: number("messages"), seed: mandate["seed"].as_u64().unwrap() };
        let events = workload.events();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let before = host::cpu(this);
        (before, runtime.block_on(roof::run(&url, &events, lanes, batch)))
    } else {
        let ends = serde_json::from_value(mandate["ends"].clone()).unwrap();
        let backlog = Backlog { bootstrap: text("bootstrap"), topic: text("topic"), ends };
        (host::cpu(this), handwritten::run(&url, &backlog, lanes, batch))
    };
    let cpu = host::cpu(this).saturating_sub(before).as_micros();
    let commits: Vec<_> = commits.into_iter().map(|(at, n)| json!([u64::try_from(at).unwrap_or(0), n])).collect();
    println!(
        "{}",
        json!({ "commits": commits, "cpu_us": u64::try_from(cpu).unwrap_or(0), "peak_kib": peak_kib(this) })
    );
}

/// Messages per second between the first commit and the last; what the first one covered was done before.
fn rate(commits: &[(u128, usize)]) -> f64 {
    let mut by_time: BTreeMap<u128, usize> = BTreeMap::new();
    for &(at, messages) in commits {
        *by_time.entry(at).or_default() += messages;
    }
    let (Some((first, _)), Some((last, _))) = (by_time.first_key_value(), by_time.last_key_value()) else { return 0.0 };
    let messages: usize = by_time.values().skip(1).sum();
    let seconds = Duration::from_millis(u64::try_from(last - first).unwrap_or(u64::MAX)).as_secs_f64();
    if seconds > 0.0 { as_f64(messages) / seconds } else { 0.0 }
}

/// The server's main process, where it runs on this machine.
async fn postmaster(connection: &mut PgConnection) -> Option<u32> {
    let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(connection).await.ok()?;
    let parent = stat_fields(u32::try_from(backend).ok()?).get(1)?.parse().ok()?;
    let name = fs::read_to_string(format!("/proc/{parent}/comm")).ok()?;
    name.starts_with("postgres").then_some(parent)
}

/// CPU time of all children that a process has reaped: for a postmaster, of all backends that have ended.
fn children_cpu(pid: u32) -> Duration {
    let ticks: u64 = stat_fields(pid).iter().skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// `/proc/PID/stat` behind the name: state, parent, …
fn stat_fields(pid: u32) -> Vec<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().map(str::to_owned).collect());
    fields.unwrap_or_default()
}

pub(super) fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

#[allow(clippy::cast_precision_loss, reason = "counts of a bench stay far below 2^53")]
fn as_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_commit_starts_the_clock() {
        assert!((rate(&[(1_000, 500), (2_000, 300), (3_000, 700)]) - 500.0).abs() < 1e-9);
        assert!(rate(&[]).abs() < 1e-9);
    }
}
