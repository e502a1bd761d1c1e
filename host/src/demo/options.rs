//! What `tidegate demo` can be told.

use std::path::PathBuf;

use crate::config::Secret;

/// Options of `tidegate demo`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Events to make up; about a tenth of them is published once more, so more records than this arrive
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    pub events: u64,

    /// Equal seeds give equal events
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,

    /// After the proofs, keep producing a few events a second until Ctrl-C; metrics and status stay up
    #[arg(long)]
    pub keep_running: bool,

    /// Print one JSON object instead of bars and a summary
    #[arg(long)]
    pub json: bool,

    /// Put the database, the log and the configuration here; must be empty or not there yet [default: a fresh
    /// temporary folder]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// The folder of settlement.wasm and order_summary.wasm [default: the plugins folder beside the program]
    #[arg(long, value_name = "DIR")]
    pub plugins: Option<PathBuf>,

    /// Use this PostgreSQL instead of SQLite; the demo works in a new schema of its own
    #[arg(long, value_name = "URL", value_parser = secret)]
    pub database_url: Option<Secret>,

    /// Use this Kafka instead of the embedded one; the demo makes new topics of its own
    #[arg(long, value_name = "HOST:PORT,…")]
    pub bootstrap_servers: Option<String>,

    /// Where metrics and status are served; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: std::net::SocketAddr,
}

/// Takes any text: a refusal by the command line parser would repeat the URL, and with it its password.
fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
pub(super) mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    pub(in crate::demo) fn parsed(line: &[&str]) -> Options {
        <Line as clap::Parser>::try_parse_from(line).unwrap().options
    }

    #[test]
    fn the_command_line_is_well_formed() {
        <Line as clap::CommandFactory>::command().debug_assert();
        let options = parsed(&["demo"]);
        assert_eq!((options.events, options.seed, options.json), (20_000, 42, false));
    }
}
