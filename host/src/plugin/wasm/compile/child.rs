//! The parent's side of compiling in a child process.

use std::{
    io::{self, Read, Write},
    path::PathBuf,
    process::{Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

/// The most compiled code that is taken: an interpreter with its library gives some 60 MB.
const CODE_LIMIT: u64 = 512 << 20;
/// How much of what the compiler says about a failure is kept.
const WORDS: usize = 2 << 10;

/// A program that compiles in a child process, and what it may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// `tidegate`.
    pub program: PathBuf,
    /// CPU time, over all of its threads; whole seconds.
    pub cpu: Duration,
    /// Bytes of memory.
    pub memory: u64,
}

/// Why no code came back.
#[derive(Debug)]
pub(in crate::plugin::wasm) enum Failed {
    /// Not the plugin's fault.
    Start(io::Error),
    /// With the reason, to be read behind the file's name.
    Refused(String),
}

impl Compiler {
    /// The program's word for it.
    pub const VERB: &str = "compile-plugin";
    /// An interpreter takes 25 s on a busy machine, and its compiler 350 MB.
    pub const CPU: Duration = Duration::from_secs(120);
    /// See [`Compiler::CPU`].
    pub const MEMORY: u64 = 2 << 30;

    /// The running program, also where its file has been replaced by now: parent and child have to be the same version.
    pub(super) fn this_program() -> Option<Self> {
        let program = if cfg!(target_os = "linux") {
            PathBuf::from("/proc/self/exe")
        } else if cfg!(unix) {
            std::env::current_exe().ok()?
        } else {
            return None;
        };
        Some(Self { program, cpu: Self::CPU, memory: Self::MEMORY })
    }

    /// The compiled code of a plugin's file.
    pub(in crate::plugin::wasm) fn compile(&self, file: &[u8]) -> Result<Vec<u8>, Failed> {
        let mut command = Command::new(&self.program);
        command.args([Self::VERB, "--cpu-seconds", &self.cpu.as_secs().to_string()]);
        command.args(["--memory-bytes", &self.memory.to_string()]);
        // The environment may hold secrets, which are none of the compiler's business.
        command.env_clear().envs(std::env::var_os("LD_LIBRARY_PATH").map(|path| ("LD_LIBRARY_PATH", path)));
        // The allocator would begin by taking a gigabyte ahead, which counts as used.
        command.env("MIMALLOC_ARENA_EAGER_COMMIT", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(Failed::Start)?;
        let (Some(mut stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Failed::Start(io::Error::other("the child process has no pipes")));
        };

        let mut code = Vec::new();
        let (taken, words) = thread::scope(|scope| {
            // A child that ends early does not read on; why it ended is told below.
            scope.spawn(move || stdin.write_all(file));
            let words = scope.spawn(move || words_of(stderr));
            // Whoever gives more than that finds the pipe closed, and ends.
            let taken = stdout.take(CODE_LIMIT + 1).read_to_end(&mut code);
            (taken, words.join().unwrap_or_default())
        });
        let ended = child.wait().map_err(Failed::Start)?;
        taken.map_err(Failed::Start)?;
        if u64::try_from(code.len()).unwrap_or(u64::MAX) > CODE_LIMIT {
            return Err(Failed::Refused(format!("gives more than {CODE_LIMIT} bytes of compiled code")));
        }
        if ended.success() { Ok(code) } else { Err(Failed::Refused(self.reason(ended, &words))) }
    }

    fn reason(&self, ended: ExitStatus, words: &str) -> String {
        // 2 is what the child says of itself; everything else happened to it.
        if ended.code() == Some(2) {
            return words.to_owned();
        }
        let how = match signal(ended) {
            Some(libc::SIGXCPU) => "it takes the compiler longer".to_owned(),
            Some(libc::SIGKILL) => "the compiler was killed, by its limits or for want of memory".to_owned(),
            Some(signal) => format!("it broke the compiler (signal {signal}): {words}"),
            None => format!("it broke the compiler: {words}"),
        };
        format!(
            "cannot be compiled within {} s of CPU time and {} MiB of memory: {how}. Build it smaller: optimised, without \
             debug information, without libraries that it does not use",
            self.cpu.as_secs(),
            self.memory >> 20
        )
    }
}

#[cfg(unix)]
fn signal(ended: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&ended)
}

#[cfg(not(unix))]
fn signal(_: ExitStatus) -> Option<i32> {
    None
}

/// The beginning of it, on one line; all of it is read, so that nobody waits for room in the pipe.
fn words_of(mut stderr: impl Read) -> String {
    let mut words = Vec::new();
    let _ = (&mut stderr).take(WORDS as u64).read_to_end(&mut words);
    let _ = io::copy(&mut stderr, &mut io::sink());
    let text = String::from_utf8_lossy(&words);
    text.split(char::is_control).map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}
