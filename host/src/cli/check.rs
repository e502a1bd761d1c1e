//! `tidegate check`.

use super::{
    Arguments, Exit,
    arguments::CheckOptions,
    console::{answer, block_on, complain},
    logging,
};
use crate::{
    check::{self, Report},
    config::{self, Consumer},
    plugin::Runtime,
};

pub(super) fn run(arguments: &Arguments, options: &CheckOptions) -> Exit {
    let loaded = match config::load_with_warnings(&arguments.config) {
        Ok(loaded) => loaded,
        Err(error) => {
            if options.json {
                answer(&Report::of(&error.diagnostics).json().to_string());
            } else {
                complain(&error.to_string());
            }
            return Exit::Invalid;
        }
    };
    if let Err(why) = logging::start(arguments, &loaded.config.log) {
        complain(&why);
        return Exit::Invalid;
    }
    let mut report = Report::of(&loaded.warnings);
    // Only where a plugin has to be fetched: the folder is the service's own, and may be another user's.
    let is_remote = |consumer: &Consumer| consumer.plugin.origin.reference().is_some();
    let remote = loaded.config.consumers.iter().any(is_remote);
    let runtime = match if remote { Runtime::of(&loaded.config) } else { Runtime::new(None) } {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("cannot start the plugin runtime: {error}"));
            return Exit::Environment;
        }
    };
    let plugins = check::offline(&loaded.config, &mut report, &|plugin| runtime.load(plugin));
    if options.online {
        block_on(async {
            check::online(&loaded.config, &plugins, &mut report).await;
            Exit::Fine
        });
    }
    answer(&if options.json { report.json().to_string() } else { report.to_string() });
    Exit::Code(report.exit_code())
}
