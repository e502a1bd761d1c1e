//! Where the tools of other languages are put that a registry gives by name and version: each in a folder of its own,
//! installed once.

use std::{
    env, fs,
    fs::File,
    path::{Path, PathBuf},
};

use super::{
    BuildError,
    error::failed,
    tool::{Tool, command, run},
};

/// Names the folder.
const VARIABLE: &str = "TIDEGATE_TOOLCHAINS";
/// Written last.
const COMPLETE: &str = "complete";

const PYTHON: Tool = Tool {
    program: "python3",
    what: "Python and C plugins",
    way: "install Python 3.10 or newer with its venv module (Debian: `apt install python3-venv`)",
};

/// The folder of all of them.
pub(super) struct Toolchains(PathBuf);

impl Toolchains {
    /// `$TIDEGATE_TOOLCHAINS`, or `tidegate/toolchains` in the user's cache folder.
    pub(super) fn find() -> Result<Self, BuildError> {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        let folder = variable(VARIABLE).or_else(|| Some(cache()?.join("tidegate/toolchains")));
        let folder = folder.ok_or(BuildError::NoTool {
            tool: "a home folder",
            what: "the tools of this language",
            way: "set TIDEGATE_TOOLCHAINS to a folder for them",
        })?;
        fs::create_dir_all(&folder).map_err(|source| failed(&format!("making {}", folder.display()), source))?;
        let whole = folder.canonicalize().map_err(|source| failed(&format!("finding {}", folder.display()), source))?;
        Ok(Self(whole))
    }

    /// A folder that only the tools write to.
    pub(super) fn scratch(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The folder of this name, filled by `install` the first time. Others who want it at that time wait.
    pub(super) fn once(
        &self,
        name: &str,
        install: impl FnOnce(&Path) -> Result<(), BuildError>,
    ) -> Result<PathBuf, BuildError> {
        let folder = self.0.join(name);
        if folder.join(COMPLETE).is_file() {
            return Ok(folder);
        }
        let doing = |source| failed(&format!("installing into {}", folder.display()), source);
        // Ends with the process that holds it, whatever becomes of that.
        let lock = File::create(self.0.join(format!("{name}.lock"))).map_err(doing)?;
        lock.lock().map_err(doing)?;
        if folder.join(COMPLETE).is_file() {
            return Ok(folder);
        }
        tracing::info!(folder = %folder.display(), "installing {name}, once");
        // Half of an installation that was interrupted.
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(doing)?;
        }
        fs::create_dir_all(&folder).map_err(doing)?;
        install(&folder)?;
        fs::write(folder.join(COMPLETE), "").map_err(doing)?;
        Ok(folder)
    }

    /// The folder of programs of a Python package, by name and exact version: `ziglang==0.17.1`.
    pub(super) fn python_package(&self, requirement: &str) -> Result<PathBuf, BuildError> {
        let folder = self.once(&requirement.replace("==", "-"), |folder| {
            let mut venv = PYTHON.command(folder);
            venv.args(["-m", "venv", "."]);
            PYTHON.run(venv, "making a Python environment (on Debian it needs the package python3-venv)")?;
            let mut pip = command(&folder.join("bin/python"), folder);
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]);
            pip.args(["--only-binary", ":all:", "--no-deps", requirement]);
            run(pip, &format!("installing {requirement} by pip"))
        })?;
        Ok(folder.join("bin"))
    }
}
