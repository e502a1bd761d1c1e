//! A newer Go for a machine whose own is too old for the SDK, as Debian 12's is.
//!
//! Toolchains are modules, `golang.org/toolchain`, of the Go module proxy; from 1.21 on `go` fetches them by itself. Any `go`
//! that knows modules can download one, from wherever GOPROXY says, and holds it against a go.sum: ours, so that nothing but
//! the very toolchain that is named here is ever run.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{
    BuildError,
    error::failed,
    tool::{Tool, command},
    toolchain::Toolchains,
};

pub(super) const GO: Tool = Tool {
    program: "go",
    what: "Go plugins",
    way: "install Go, from go.dev or your system (Debian: `apt install golang`); where it is older than 1.24, that one fetches a \
          newer one",
};

/// The oldest that the SDK builds with: 1.24 has `go:wasmexport`.
const OLDEST: (u32, u32) = (1, 24);
/// The Go that is fetched where the machine's own is too old.
pub const VERSION: &str = "go1.26.8";
const MODULE: &str = "golang.org/toolchain";
/// What go.sum says of its go.mod, whatever the machine.
const GO_MOD: &str = "h1:8wlg68NqwW7eMnI1aABk/C2pDYXj8mrMY4TyRfiLeS0=";
/// What go.sum says of it, by the machine.
const SUMS: [(&str, &str); 4] = [
    ("linux-amd64", "h1:ZOmGe1OnfREDMIdb1Qi4G9JSuDPBLGExZMQ4nis1RXM="),
    ("linux-arm64", "h1:sYL/O6MqS68ML0kjsQ36WoYIpJqkw60TxizWUYUKQMc="),
    ("darwin-amd64", "h1:7/9KPPN8PckcA9s91hm2jmQMhzW4KyTJXHIs45L0C9M="),
    ("darwin-arm64", "h1:dFjGhY6f8DTsY8/rLchUTDRRfjJP4pCrGCwxvHFT2Fg="),
];

/// A toolchain that was fetched.
pub(super) struct Newer(PathBuf);

impl Newer {
    /// A command of it; it runs in `dir`.
    pub(super) fn command(&self, dir: &Path) -> Command {
        let mut go = command(&self.0.join("bin/go"), dir);
        // It knows its own place, and not the other's.
        go.env_remove("GOROOT");
        go
    }
}

/// A newer toolchain, fetched the first time; `None` where the machine's own will do.
pub(super) fn newer(toolchains: &Toolchains) -> Result<Option<Newer>, BuildError> {
    let neutral = tempfile::tempdir().map_err(|source| failed("making a temporary folder", source))?;
    let own = own_version(neutral.path())?;
    // What cannot be read is newer than this program.
    if version(&own).is_none_or(|own| own >= OLDEST) {
        return Ok(None);
    }
    let machine = format!("{}-{}", os(env::consts::OS), architecture(env::consts::ARCH));
    let Some((_, sum)) = SUMS.iter().find(|(known, _)| *known == machine) else {
        let text = format!(
            "{own} is too old for Go plugins, which need 1.24: install a newer one (none is known for {machine})"
        );
        return Err(BuildError::Tool(text));
    };
    let version = format!("v0.0.1-{VERSION}.{machine}");
    let root = |folder: &Path| folder.join("modules").join(format!("{MODULE}@{version}"));
    let folder = toolchains.once(VERSION, |folder| {
        let doing = |source| failed(&format!("unpacking {VERSION}"), source);
        tracing::info!("{own} is too old for Go plugins: fetching {VERSION}");
        download(folder, &version, sum)?;
        make_ready(&root(folder)).map_err(doing)?;
        // The archive itself.
        fs::remove_dir_all(folder.join("modules/cache")).map_err(doing)
    })?;
    Ok(Some(Newer(root(&folder))))
}

/// What the machine's `go` is, such as "go1.19.8"; not what it would fetch.
fn own_version(neutral: &Path) -> Result<String, BuildError> {
    let mut go = GO.command(neutral);
    go.args(["env", "GOVERSION"]).env("GOTOOLCHAIN", "local").stdout(Stdio::piped());
    let output = go.output().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => BuildError::NoTool { tool: GO.program, what: GO.what, way: GO.way },
        _ => failed("asking go for its version", source),
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Major and minor of "go1.24rc1", "go1.19.8" or "go1.26-custom".
fn version(text: &str) -> Option<(u32, u32)> {
    let (major, rest) = text.strip_prefix("go")?.split_once('.')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).map_or(rest, |end| &rest[..end]);
    Some((major.parse().ok()?, digits.parse().ok()?))
}

/// Has the machine's `go` download the toolchain, as a module whose sum is known.
fn download(folder: &Path, version: &str, sum: &str) -> Result<(), BuildError> {
    let write = || {
        fs::write(folder.join("go.mod"), format!("module tidegate\n\ngo 1.17\n\nrequire {MODULE} {version}\n"))?;
        fs::write(folder.join("go.sum"), format!("{MODULE} {version} {sum}\n{MODULE} {version}/go.mod {GO_MOD}\n"))
    };
    write().map_err(|source| failed("writing which Go is wanted", source))?;
    let mut go = GO.command(folder);
    go.args(["mod", "download", MODULE]).env("GOMODCACHE", folder.join("modules")).env("GO111MODULE", "on");
    // So that what is unpacked can be removed; and the sum is known, so that nobody has to be asked for it.
    go.env("GOFLAGS", "-modcacherw").env("GONOSUMDB", MODULE).env("GOWORK", "off").env("GOTOOLCHAIN", "local");
    GO.run(go, &format!("fetching {VERSION} by go mod download"))
}

/// A module has neither executable files nor other modules in it: `go` makes them up when it switches, and so do we.
fn make_ready(root: &Path) -> io::Result<()> {
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let is_program = folder == root.join("bin") || folder.starts_with(root.join("pkg/tool"));
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            #[cfg(unix)]
            if is_program {
                fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
            }
            if path.ends_with("_go.mod") {
                fs::copy(&path, folder.join("go.mod"))?;
            }
        }
    }
    Ok(())
}

/// As Go calls it.
fn os(name: &str) -> &str {
    if name == "macos" { "darwin" } else { name }
}

/// As Go calls it.
fn architecture(name: &str) -> &str {
    match name {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(version("go1.19.8"), Some((1, 19)));
        assert_eq!(version("go1.24rc1"), Some((1, 24)));
        assert_eq!(version("go1.26"), Some((1, 26)));
        assert!(version("go1.9").is_some_and(|old| old < OLDEST) && version("go1.100").is_some_and(|new| new > OLDEST));
        assert!(version(VERSION).is_some_and(|fetched| fetched >= OLDEST));
        assert_eq!(version("devel +abc"), None);
    }
}
