//! `tidegate plugin …`.

use super::{
    Exit,
    arguments::PluginCommand,
    console::{answer, complain},
};
use crate::plugin::build::build;

pub(super) fn run(command: &PluginCommand) -> Exit {
    match command {
        PluginCommand::Build { folder, output } => match build(folder, output.as_deref()) {
            Ok(built) => {
                let sha256: String = built.sha256.iter().map(|byte| format!("{byte:02x}")).collect();
                answer(&format!("{} ({} bytes)\nsha256 = \"{sha256}\"", built.path.display(), built.size));
                Exit::Fine
            }
            Err(error) => {
                complain(&format!("tidegate plugin build: {error}"));
                Exit::Invalid
            }
        },
    }
}
