//! `tidegate plugin …`.

pub(super) mod arguments;
mod capture;
mod check;
mod dev;
mod inspect;
mod new;
mod paint;
mod publish;
mod subject;
mod test;

use arguments::PluginCommand;

use super::{
    Arguments, Exit,
    console::{answer, complain},
};
use crate::plugin::build::build;

pub(super) fn run(arguments: &Arguments, command: &PluginCommand) -> Exit {
    match command {
        PluginCommand::New(options) => new::run(options),
        PluginCommand::Build { folder, output } => match build(folder, output.as_deref()) {
            Ok(built) => {
                let sha256 = hex::encode(built.sha256);
                answer(&format!("{} ({} bytes)\nsha256 = \"{sha256}\"", built.path.display(), built.size));
                Exit::Fine
            }
            Err(error) => {
                complain(&format!("tidegate plugin build: {error}"));
                Exit::Invalid
            }
        },
        PluginCommand::Test(options) => test::run(options),
        PluginCommand::Dev { folder } => dev::run(folder),
        PluginCommand::Capture(options) => capture::run(arguments, options),
        PluginCommand::Sign { file, key } => publish::sign(file, key),
        PluginCommand::Push { file, reference } => publish::push(file, reference),
        PluginCommand::Inspect { plugin, json } => inspect::run(plugin, *json),
        PluginCommand::Check(options) => check::run(arguments, options),
    }
}
