//! The `tidegate` program. The library does everything; see [`tidegate::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    tidegate::cli::main()
}
