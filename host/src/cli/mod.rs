//! The command line. Configuration builds the application; the commands here only run it, ask about it, or prepare for it.

mod arguments;
mod check;
mod console;
mod consumers;
mod dry_run;
pub(crate) mod logging;
mod migrate;
mod plugin;
mod reading;
mod run;
mod seek;
mod status;

use std::{process::ExitCode, time::Duration};

pub use arguments::Arguments;
use arguments::{Command, CompileOptions};
use clap::Parser;

/// What a command ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: fine.
    Fine,
    /// 1: it ran and failed.
    Failed,
    /// 2: invalid configuration or input.
    Invalid,
    /// 3: database, broker or machine.
    Environment,
    /// Any other code: a subcommand's own, or 128 + a signal.
    Code(u8),
}

impl Exit {
    /// The process's exit code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Failed => 1,
            Self::Invalid => 2,
            Self::Environment => 3,
            Self::Code(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Runs the program: the command line of this process decides.
#[must_use]
pub fn main() -> ExitCode {
    crate::panics::watch();
    let arguments = Arguments::parse();
    crate::plugin::compile_in_child_processes();
    let exit = match &arguments.command {
        Command::Run(options) => run::run(&arguments, options),
        Command::Check(options) => check::run(&arguments, options),
        Command::Migrate(options) => migrate::run(&arguments, options),
        Command::Status(options) => status::run(&arguments, options),
        Command::Seek(options) => seek::run(&arguments, options),
        Command::Consumers(options) => consumers::run(&arguments, options),
        Command::Demo(options) => Exit::Code(crate::demo::run(options)),
        Command::Plugin(command) => plugin::run(&arguments, command),
        Command::CompilePlugin(options) => compile_plugin(options),
    };
    exit.into()
}

/// The child's side of compiling; its parent reads what it says. See [`crate::plugin::Compiler`].
fn compile_plugin(options: &CompileOptions) -> Exit {
    match crate::plugin::compile_as_child(Duration::from_secs(options.cpu_seconds), options.memory_bytes) {
        Ok(()) => Exit::Fine,
        Err(reason) => {
            console::complain(&reason);
            Exit::Invalid
        }
    }
}
