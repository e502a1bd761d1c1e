//! Has Go's `time.Now` ask the host first, which ends the call while records are looked at.
//!
//! The clock behind it cannot: the garbage collector reads the same one, whenever it likes. So a plugin is compiled with a
//! `time` package whose `Now` has one more line.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{BuildError, error::failed};

/// As every Go from 1.24 on has it.
const NOW: &str = "\nfunc Now() Time {\n";
/// What comes after it.
pub(super) const ASK: &str = "\tvar room [2]uint64\n\ttidegateTimeOfDay(&room[0])\n";
/// What comes at the end of the file.
pub(super) const IMPORT: &str = "\n//go:wasmimport wasi_snapshot_preview1 tidegate_time_of_day\n//go:noescape\n\
                                 func tidegateTimeOfDay(room *uint64)\n";

/// The file that `go build -overlay` takes, in the folder `work`; `None`, and a warning, for a Go whose `time.Now` is not
/// known. `go` runs in the plugin's folder, so that it is the Go that will compile it.
pub(super) fn overlay(mut go: Command, work: &Path) -> Result<Option<PathBuf>, BuildError> {
    let output = go.args(["env", "GOROOT"]).stdout(Stdio::piped()).output();
    let output = output.map_err(|source| failed("asking go where it is", source))?;
    let root = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let source = Path::new(&root).join("src/time/time.go");
    // Where there is none, compiling says why.
    let Some(asking) = fs::read_to_string(&source).ok().and_then(|text| asking(&text)) else {
        tracing::warn!(
            "{} has no time.Now as it is known: in this plugin it gives the epoch where it should end the call, so do not \
             use it",
            source.display()
        );
        return Ok(None);
    };
    let write = || {
        let (file, overlay) = (work.join("time.go"), work.join("overlay.json"));
        fs::write(&file, asking)?;
        let replaced = BTreeMap::from([(&source, &file)]);
        fs::write(&overlay, serde_json::json!({"Replace": replaced}).to_string())?;
        Ok(overlay)
    };
    write().map(Some).map_err(|source| failed("writing what time.Now asks", source))
}

/// The `time` package's file with a `Now` that asks; `None` where it has no such function.
fn asking(source: &str) -> Option<String> {
    let (before, after) = source.split_once(NOW)?;
    Some(format!("{before}{NOW}{ASK}{after}{IMPORT}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn now_asks_before_all_else() {
        let asks = asking("package time\n\nfunc Now() Time {\n\treturn Time{}\n}\n").unwrap();
        let body = "func Now() Time {\n\tvar room [2]uint64\n\ttidegateTimeOfDay(&room[0])\n\treturn Time{}\n}\n";
        assert!(asks.contains(body) && asks.ends_with(IMPORT), "{asks}");
        assert_eq!(asking("package time\n\nfunc Now(of Clock) Time {\n"), None);
    }
}
