//! The validated configuration: what the rest of the host works with.

use std::{collections::BTreeMap, fmt, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use super::{HealthBounds, Timeouts};
use crate::{
    identity::ConsumerName,
    merge::TargetSpec,
    plugin::distribution::{Origin, PublicKey},
};

/// Text that is never shown: `Debug` prints `***`, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Everything. `Debug` shows no secret.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file that it came from, as an absolute path; `None` = it was made otherwise.
    pub file: Option<PathBuf>,
    /// Every file that was read for it, or looked for: itself, those that it includes, and those of secrets.
    pub files: super::Files,
    /// Files that the Kafka client reads at a start, and that are not part of it: certificates and keys.
    pub linked: BTreeMap<PathBuf, Linked>,
    /// `[database.NAME]`.
    pub databases: BTreeMap<String, Database>,
    /// `[kafka.NAME]`.
    pub kafka: BTreeMap<String, KafkaCluster>,
    /// `[http]`.
    pub http: Http,
    /// `[health]`.
    pub health: HealthBounds,
    /// `[log]`.
    pub log: Log,
    /// `[plugins]`.
    pub plugins: Plugins,
    /// `[[consumer]]`, in the file's order; names are unique.
    pub consumers: Vec<Consumer>,
}

impl Config {
    /// The plugins of all consumers, and their shadows.
    pub(crate) fn plugins_and_shadows(&self) -> impl Iterator<Item = &Plugin> {
        self.consumers.iter().flat_map(|consumer| std::iter::once(&consumer.plugin).chain(&consumer.shadow))
    }
}

/// What all plugins have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugins {
    /// A private folder for compiled plugins and those of registries; `None` = compile at every start.
    pub cache: Option<PathBuf>,
    /// Whether a plugin's file that changes is reloaded by itself.
    pub watch: bool,
    /// A PEM file with certificates of authorities that registries' certificates may be from, besides the system's.
    pub registry_ca_file: Option<PathBuf>,
}

impl Default for Plugins {
    fn default() -> Self {
        Self { cache: None, watch: true, registry_ca_file: None }
    }
}

/// A file that the configuration only names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// Under which key, such as `[kafka.main] ssl.ca.location`.
    pub key: String,
    /// Of its content; `None` = it could not be read.
    pub sha256: Option<[u8; 32]>,
}

/// A database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// With the password in it.
    pub url: Secret,
    /// By the URL's scheme.
    pub dialect: Dialect,
    /// How long its transactions may take. Not for SQLite.
    pub timeouts: Timeouts,
}

impl Database {
    /// With the usual time-outs.
    #[must_use]
    pub fn new(url: Secret, dialect: Dialect) -> Self {
        Self { url, dialect, timeouts: Timeouts::default() }
    }
}

/// Which dialect a database speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `postgres://`, `postgresql://`.
    Postgres,
    /// `sqlite://FILE`.
    Sqlite,
}

/// librdkafka's own settings, checked: none that safety needs is among them.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaCluster {
    /// As the user gave them. Some are secrets: `Debug` shows only names.
    pub properties: BTreeMap<String, String>,
}

impl fmt::Debug for KafkaCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.properties.keys()).finish()
    }
}

/// The HTTP side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// Loopback by default; `None` = off. Beyond loopback only with [`Self::tls`], or where the file says in so many
    /// words that plain text is meant.
    pub listen: Option<SocketAddr>,
    /// What whoever changes something must show; `None` = nothing can be changed.
    pub token: Option<Secret>,
    /// Files that make it HTTPS.
    pub tls: Option<Tls>,
}

/// A certificate and its key, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate, and those between it and the authority's.
    pub cert_file: PathBuf,
    /// The private key.
    pub key_file: PathBuf,
}

/// How to log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// JSON lines or for people.
    pub json: bool,
    /// A `tracing` filter, such as `info,tidegate=debug`.
    pub filter: String,
}

/// Bytes of one lane's prefetch queue, unless said otherwise.
pub const DEFAULT_QUEUE_BYTES: usize = 4 << 20;

/// How long a revoke may take, unless said otherwise (or half the session time-out, where that is less).
pub const DEFAULT_REVOKE_DEADLINE: Duration = Duration::from_secs(20);

/// One consumer.
#[derive(Clone, Debug, PartialEq)]
pub struct Consumer {
    /// Half of the ledger's key.
    pub name: ConsumerName,
    /// The Kafka group; the name unless said otherwise.
    pub group: String,
    /// Key into [`Config::databases`].
    pub database: String,
    /// Key into [`Config::kafka`].
    pub kafka: String,
    /// What to read.
    pub topics: Vec<Topic>,
    /// Where a consumer begins that has no checkpoint yet.
    pub start: Start,
    /// Lanes: database connections that apply in parallel. At least 1; exactly 1 on SQLite.
    pub lanes: usize,
    /// How big a batch gets.
    pub batch: BatchLimits,
    /// The ledger's memory.
    pub ledger: Ledger,
    /// How the plugin gets the payload.
    pub payload: Payload,
    /// What becomes of records without a value.
    pub tombstones: Tombstones,
    /// Bytes that one lane's prefetch queue may hold (payload, after decompression).
    pub queue_bytes: usize,
    /// How long a revoke may take to drain before the partition is given up uncommitted.
    pub revoke_deadline: Duration,
    /// Whether some inputs are kept in the database with their keys, for the gate that another plugin has to pass.
    pub key_samples: bool,
    /// The business rules.
    pub plugin: Plugin,
    /// A candidate that looks on: `[consumer.shadow]`.
    pub shadow: Option<Plugin>,
    /// What the plugin may write. Names are unique.
    pub targets: Vec<TargetSpec>,
}

impl Consumer {
    /// Whether both say the same of everything but their shadows.
    #[must_use]
    pub fn rules_alike(&self, other: &Self) -> bool {
        *self == Self { shadow: self.shadow.clone(), ..other.clone() }
    }
}

/// A topic and what the plugin is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// The topic's name in Kafka.
    pub name: String,
    /// `message.source`; "default" unless said otherwise.
    pub source: Arc<str>,
}

/// Applies once, at a consumer's first checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// From the oldest record.
    Earliest,
    /// Only what comes from now on.
    Latest,
    /// From the first record at or after this time (milliseconds since the epoch).
    Time(i64),
}

/// Natural batching: what is queued, up to these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Records.
    pub max_records: usize,
    /// Bytes of keys, payloads and headers.
    pub max_bytes: usize,
    /// How long a thin batch waits to be filled.
    pub linger: Duration,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self { max_records: 2000, max_bytes: 8 << 20, linger: Duration::from_millis(5) }
    }
}

/// `retention = "forever"`: what compacted topics and topics without a limit need.
pub const FOREVER: Duration = Duration::from_secs(36_500 * 86_400);

/// R3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// How long ledger rows are kept; [`FOREVER`] = they are never deleted.
    pub retention: Duration,
    /// The declared operational replay window.
    pub replay_window: Duration,
    /// What becomes of an input from before the horizon.
    pub older_than_retention: OlderThanRetention,
}

impl Default for Ledger {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(86_400);
        // What Kafka's own defaults can still deliver is up to 15 days old (a week's retention, a segment open for a
        // week, and a day), and operators may replay two more.
        Self { retention: 30 * DAY, replay_window: 2 * DAY, older_than_retention: OlderThanRetention::DeadLetter }
    }
}

/// R3.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OlderThanRetention {
    /// The default: kept as a dead letter (and counted as too old).
    DeadLetter,
    /// Only counted.
    Skip,
}

/// How the plugin gets the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// As a string; what is not UTF-8 is a dead letter.
    Text,
    /// As bytes.
    Binary,
}

/// What becomes of records without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tombstones {
    /// Counted as skipped.
    Skip,
    /// The plugin decides.
    Plugin,
}

/// A consumer's plugin.
#[derive(Clone, PartialEq)]
pub struct Plugin {
    /// `path`. Loading has put the configuration file's folder before a relative one.
    pub origin: Origin,
    /// The pinned digest.
    pub sha256: Option<[u8; 32]>,
    /// Ed25519 keys, one of which must have signed it; none = nobody asks.
    pub signed_by: Vec<PublicKey>,
    /// What it may use.
    pub limits: PluginLimits,
    /// A folder of golden cases that it has to answer as they say before it rules.
    pub cases: Option<PathBuf>,
    /// Given to `configure` as JSON. May come from environment variables: `Debug` does not show it.
    pub settings: serde_json::Value,
}

impl Plugin {
    /// The plugin that is there, whatever it is, without settings and under the usual limits.
    #[must_use]
    pub fn at(origin: impl Into<Origin>) -> Self {
        Self {
            origin: origin.into(),
            sha256: None,
            signed_by: Vec::new(),
            limits: PluginLimits::default(),
            cases: None,
            settings: serde_json::Value::Object(serde_json::Map::new()),
        }
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("origin", &self.origin).field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// A plugin's budgets (Invariant 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginLimits {
    /// Bytes over all memories of an instance.
    pub memory: usize,
    /// CPU time of every entry, whatever the batch.
    pub cpu_base: Duration,
    /// CPU time on top, per event.
    pub cpu_per_event: Duration,
    /// Changes that one event may give.
    pub changes_per_event: usize,
    /// Bytes of a batch's output per event.
    pub output_per_event: usize,
    /// Bytes of log lines per batch.
    pub log_bytes: usize,
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            cpu_base: Duration::from_millis(500),
            cpu_per_event: Duration::from_millis(2),
            changes_per_event: 64,
            output_per_event: 256 << 10,
            log_bytes: 64 << 10,
        }
    }
}
