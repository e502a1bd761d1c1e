//! The log, to stderr: for people, or one JSON object per line.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};

use super::{
    Arguments,
    arguments::{Command, LogFormat},
};
use crate::{config::Log, source};

/// What the database's driver says while it reads a URL or a password file repeats values and lines of them.
const SECRETIVE: &str = "sqlx_postgres::options=off";

/// The filter, less what alarms for nothing or shows a secret. A directive of the user's for the same target gives way.
pub(crate) fn with_quiet(filter: EnvFilter) -> EnvFilter {
    [source::kafka::QUIET, SECRETIVE]
        .iter()
        .filter_map(|quiet| quiet.parse().ok())
        .fold(filter, EnvFilter::add_directive)
}

/// Starts the log as the configuration says, unless the command line says otherwise. Commands that answer a question
/// only log warnings.
///
/// # Errors
/// Where `--log` is no filter.
pub(super) fn start(arguments: &Arguments, log: &Log) -> Result<(), String> {
    let quiet = !matches!(&arguments.command, Command::Run(options) if !options.dry_run);
    let text = match &arguments.log {
        Some(filter) => filter,
        None if quiet => "warn",
        None => &log.filter,
    };
    let filter: EnvFilter = text.parse().map_err(|error| {
        format!("error: --log \"{text}\" is no filter: {error}\n  such as info, debug or info,tidegate::store=debug")
    })?;
    let filter = with_quiet(filter);
    let json = match arguments.log_format {
        Some(format) => format == LogFormat::Json,
        None => log.json,
    };
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let layer = if json {
        layer.json().flatten_event(true).with_ansi(false).boxed()
    } else {
        layer.with_target(false).with_ansi(std::io::stderr().is_terminal()).boxed()
    };
    // A second start (a test's) keeps the first.
    let _ = tracing_subscriber::registry().with(filter).with(layer).try_init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quieted_is_a_directive() {
        let filter = with_quiet(EnvFilter::new("info,tidegate=debug")).to_string();
        assert!(
            filter.contains(source::kafka::QUIET) && filter.contains(SECRETIVE) && filter.contains("tidegate=debug"),
            "{filter}"
        );
    }
}
