//! What every command needs: the configuration, a runtime, a way to print.

use std::io::Write;

use super::{Arguments, Exit, logging};
use crate::{
    config::{self, Config, Diagnostic},
    store::StoreError,
};

/// Reads the configuration and sets up the log; prints every mistake and answers the exit code where there is one.
pub(super) fn configuration(arguments: &Arguments) -> Result<(Config, Vec<Diagnostic>), Exit> {
    match config::load_with_warnings(&arguments.config) {
        Ok(loaded) => {
            if let Err(why) = logging::start(arguments, &loaded.config.log) {
                complain(&why);
                return Err(Exit::Invalid);
            }
            Ok((loaded.config, loaded.warnings))
        }
        Err(error) => {
            complain(&error.to_string());
            Err(Exit::Invalid)
        }
    }
}

/// A database's error for people, with the exit code: a server that refuses what `url` asks for is a mistake of the
/// configuration, one that cannot be asked is the environment's.
pub(super) fn database_failed(name: &str, error: &StoreError) -> (Exit, String) {
    match error.refused() {
        Some((what, way_out)) => (Exit::Invalid, format!("database {name}: {what}: {error}\n  {way_out}")),
        None => (Exit::Environment, format!("database {name}: {error}")),
    }
}

/// Runs something asynchronous to its end.
pub(super) fn block_on(work: impl Future<Output = Exit>) -> Exit {
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let exit = runtime.block_on(work);
            // A blocking question to a broker that does not answer must not hold the process.
            runtime.shutdown_background();
            exit
        }
        Err(error) => {
            complain(&format!("cannot start the runtime: {error}"));
            Exit::Environment
        }
    }
}

/// Prints an answer to stdout. A reader that went away (`| head`) is no failure.
pub(super) fn answer(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Prints what is wrong to stderr.
pub(super) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// `user@machine`, as far as the environment says.
pub(super) fn who() -> String {
    let variable = |name| std::env::var(name).ok().filter(|text: &String| !text.is_empty());
    let user = variable("SUDO_USER").or_else(|| variable("USER")).or_else(|| variable("LOGNAME"));
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| variable("HOSTNAME"));
    let unknown = || "unknown".to_owned();
    format!("{}@{}", user.unwrap_or_else(unknown), machine.map_or_else(unknown, |name| name.trim().to_owned()))
}
