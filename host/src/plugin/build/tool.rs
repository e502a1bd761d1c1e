//! Running the tools of a language.

use std::{
    io,
    path::Path,
    process::{Command, Stdio},
};

use super::{BuildError, error::failed};

/// A tool that a person has to install, and how.
pub(super) struct Tool {
    pub(super) program: &'static str,
    /// The plugins that cannot be built without it.
    pub(super) what: &'static str,
    pub(super) way: &'static str,
}

impl Tool {
    /// A command of it; it runs in `dir`.
    pub(super) fn command(&self, dir: &Path) -> Command {
        command(Path::new(self.program), dir)
    }

    /// Runs a command of [`Tool::command`].
    pub(super) fn run(&self, command: Command, doing: &str) -> Result<(), BuildError> {
        match run(command, doing) {
            Err(BuildError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Err(BuildError::NoTool { tool: self.program, what: self.what, way: self.way })
            }
            other => other,
        }
    }
}

/// A command that runs in `dir`. What it says on stdout goes to stderr: the answer on stdout is ours.
pub(super) fn command(program: &Path, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).stdin(Stdio::null()).stdout(io::stderr()).stderr(Stdio::inherit());
    command
}

/// Runs it to its end.
pub(super) fn run(mut command: Command, doing: &str) -> Result<(), BuildError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|source| failed(&format!("{doing}: running {program}"), source))?;
    if status.success() {
        return Ok(());
    }
    Err(BuildError::Tool(format!("{doing} failed ({program}: {status}); its own words are above")))
}
