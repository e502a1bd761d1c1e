//! What can be typed.

use std::path::PathBuf;

/// The consumer between Kafka and your database when a message must count once.
#[derive(Debug, clap::Parser)]
#[command(
    name = "tidegate",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 fine, 1 failed while running, 2 invalid configuration or input, 3 database, broker or \
                  machine, 130/143 forced to stop."
)]
pub struct Arguments {
    /// The configuration file
    #[arg(
        short,
        long,
        global = true,
        value_name = "FILE",
        default_value = "tidegate.toml",
        env = "TIDEGATE_CONFIG",
        hide_env_values = true,
        help_heading = "For every command"
    )]
    pub config: PathBuf,

    /// What to log, such as debug, or info,tidegate::store=debug
    #[arg(long, global = true, value_name = "FILTER", help_heading = "For every command")]
    pub log: Option<String>,

    /// How to log, to stderr: human or json
    #[arg(long, global = true, value_name = "FORMAT", hide_possible_values = true, help_heading = "For every command")]
    pub log_format: Option<LogFormat>,

    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// How to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    Human,
    /// One JSON object per line
    Json,
}

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Run the consumers of the configuration until SIGTERM or Ctrl-C
    ///
    /// The first signal drains: finish the batches at hand, commit, leave the group, exit 0. A second one forces.
    Run(RunOptions),
    /// Look for mistakes and danger signs before anything runs
    ///
    /// Offline: the configuration, the plugins, what they write, what each target promises.
    Check(CheckOptions),
    /// Bring the databases' own tables to this program's version
    Migrate(MigrateOptions),
    /// Show what the databases know: checkpoints, outcomes, dead letters, whether the checkpoint chains add up
    Status(StatusOptions),
    /// Move a consumer to another place in its topics; shows what it would do, and does it with --execute
    ///
    /// With the consumer's hosts stopped. Going back repeats records, which are duplicates as far as the ledger
    /// remembers; going forward passes records over that will never be applied.
    Seek(SeekOptions),
    /// Look at the consumers of a running host; pause, resume and restart them
    ///
    /// Asks the host's HTTP side (docs/http.md): where the configuration says it listens, or --url. A change needs the
    /// token of its [http]: from the configuration, --token-file, or the environment's TIDEGATE_TOKEN.
    Consumers(ConsumersOptions),
    /// See it work: real messages through an embedded broker, two plugins and a database, then the proofs
    Demo(crate::demo::Options),
    /// Work with plugins
    #[command(subcommand)]
    Plugin(super::plugin::arguments::PluginCommand),
    /// Compile a plugin from stdin to stdout, within limits: the program calls itself so
    #[command(hide = true)]
    CompilePlugin(CompileOptions),
}

/// Options of the hidden `tidegate compile-plugin`.
#[derive(Debug, clap::Args)]
pub struct CompileOptions {
    /// CPU time that it may use
    #[arg(long)]
    pub cpu_seconds: u64,

    /// Memory that it may use
    #[arg(long)]
    pub memory_bytes: u64,
}

/// Options of `tidegate run`.
#[derive(Debug, clap::Args)]
pub struct RunOptions {
    /// Only show what would become of the messages in the topics: joins no group, asks no database, writes nothing
    #[arg(long)]
    pub dry_run: bool,

    /// With --dry-run: only this consumer
    #[arg(long, value_name = "NAME", requires = "dry_run")]
    pub consumer: Option<String>,

    /// With --dry-run: so many messages at most
    #[arg(long, value_name = "N", requires = "dry_run")]
    pub max: Option<u64>,

    /// With --dry-run: where to begin: oldest, 2026-01-31T00:00:00Z, or -2h for two hours ago [default: oldest]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, requires = "dry_run")]
    pub from: Option<String>,

    /// With --dry-run: print one JSON object per message
    #[arg(long, requires = "dry_run")]
    pub json: bool,

    /// Accept that a consumer's plugin gives other keys than before: CONSUMER, or CONSUMER@SHA256 for one plugin alone;
    /// may be given again
    ///
    /// It raises the consumer's key version: whoever still runs under the old one commits nothing from then on. What was
    /// applied before is not recognised under the new keys. Recorded in the table key_changes.
    #[arg(long, value_name = "CONSUMER", conflicts_with = "dry_run")]
    pub accept_key_change: Vec<String>,
}

/// Options of `tidegate check`.
#[derive(Debug, clap::Args)]
pub struct CheckOptions {
    /// Ask brokers and databases too: topics, retention, schema, tables, key versions
    #[arg(long)]
    pub online: bool,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Options of `tidegate migrate`.
#[derive(Debug, clap::Args)]
pub struct MigrateOptions {
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,

    /// Only say whether something is to be done: exit code 2 if so
    #[arg(long, conflicts_with = "dry_run")]
    pub check: bool,
}

/// Options of `tidegate status`.
#[derive(Debug, clap::Args)]
pub struct StatusOptions {
    /// Only this consumer
    #[arg(long, value_name = "NAME")]
    pub consumer: Option<String>,

    /// Ask the brokers too: lag, and partitions that cannot go on, with the way out
    #[arg(long)]
    pub online: bool,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Options of `tidegate seek`.
#[derive(Debug, clap::Args)]
pub struct SeekOptions {
    /// Whose place
    #[arg(long, value_name = "NAME")]
    pub consumer: String,

    /// Only this topic; may be given again [default: all of the consumer's]
    #[arg(long, value_name = "TOPIC")]
    pub topic: Vec<String>,

    /// Only this partition; may be given again [default: all]
    #[arg(long, value_name = "N")]
    pub partition: Vec<i32>,

    /// Where to.
    #[command(flatten)]
    pub to: SeekTo,

    /// Allow a move forward: records that it passes over are never applied
    #[arg(long)]
    pub pass_over: bool,

    /// Do it; without this nothing is changed
    #[arg(long, visible_alias = "yes")]
    pub execute: bool,

    /// Why, for whoever reads the table seeks later
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Where `tidegate seek` goes: one of these.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct SeekTo {
    /// To this offset
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub offset: Option<i64>,

    /// To the first record at or after this time: 2026-01-31T00:00:00Z, or -2h for two hours ago
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub time: Option<String>,

    /// To the oldest record
    #[arg(long)]
    pub start: bool,

    /// Behind the newest record
    #[arg(long)]
    pub end: bool,

    /// Accept that the topic was deleted and made again: to the new one's oldest record
    #[arg(long)]
    pub topic_recreated: bool,

    /// Give up offsets that were deleted before they were read: to the oldest record that is there
    #[arg(long)]
    pub offsets_lost: bool,
}

/// Options of `tidegate consumers`.
#[derive(Debug, clap::Args)]
pub struct ConsumersOptions {
    /// What to tell which [default: list]
    #[command(subcommand)]
    pub command: Option<ConsumersCommand>,

    /// Where the host listens: http://NAME:PORT or https://NAME:PORT [default: as the configuration says]
    #[arg(long, global = true, value_name = "URL", env = "TIDEGATE_URL", hide_env_values = true)]
    pub url: Option<String>,

    /// A file with the token that a change needs
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// Who vouches for an https:// host: a PEM file [default: the configuration's certificate]
    #[arg(long, global = true, value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// Do not wait for what becomes of a reload, a promotion or a restart (30 s at most)
    #[arg(long, global = true)]
    pub no_wait: bool,

    /// Print one JSON object
    #[arg(long, global = true)]
    pub json: bool,
}

/// What `tidegate consumers` does.
#[derive(Debug, clap::Subcommand)]
pub enum ConsumersCommand {
    /// Show each consumer's state, and why it is not ready
    List,
    /// Take no more records, but stay in the group and keep the partitions
    Pause {
        /// Which
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Take records again
    Resume {
        /// Which
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Start one again that stopped by itself; mend first what made it stop
    Restart {
        /// Which
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Have it look at its plugin's file again; exit code 1 where what is there is refused
    Reload {
        /// Which
        #[arg(value_name = "NAME")]
        name: String,
        /// Let it take the plugin of this digest (all 64 digits), though it gives other keys: it finishes what is at hand and
        /// starts again under the next key version, which ends whoever runs under the old one
        #[arg(long, value_name = "SHA256")]
        accept_key_change: Option<String>,
    },
    /// Show what its shadow has found, as JSON
    Shadow {
        /// Whose
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Make its shadow's plugin its own, if that passes the gates
    PromoteShadow {
        /// Whose
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Have its shadow look on no longer
    DropShadow {
        /// Whose
        #[arg(value_name = "NAME")]
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
