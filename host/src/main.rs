//! The `tidegate` program. The library does everything; see [`tidegate::cli`].

use std::process::ExitCode;

/// Batches are made on one thread and dropped on another, many small pieces at a time: the system's allocator spends a
/// fifth of the program's CPU time on that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tidegate::cli::main()
}
