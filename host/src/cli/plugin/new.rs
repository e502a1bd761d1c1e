//! `tidegate plugin new`.

use super::{
    super::{
        Exit,
        console::{answer, complain},
    },
    arguments::NewOptions,
};
use crate::plugin::scaffold::{ScaffoldError, scaffold};

pub(super) fn run(options: &NewOptions) -> Exit {
    let folder = &options.folder;
    match scaffold(&options.lang, folder) {
        Ok(written) => {
            answer(&format!(
                "{} has a plugin in {} now ({} files; README.md says how it goes on). Next:\n  tidegate plugin test {}",
                folder.display(),
                options.lang,
                written.len(),
                folder.display()
            ));
            Exit::Fine
        }
        Err(error) => {
            complain(&format!("tidegate plugin new: {error}"));
            if matches!(error, ScaffoldError::Io { .. }) { Exit::Environment } else { Exit::Invalid }
        }
    }
}
