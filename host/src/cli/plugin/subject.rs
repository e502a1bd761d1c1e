//! The plugin that a command is about: a component, or a folder that gives one.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use sha2::{Digest, Sha256};

use crate::{
    config::{self, PluginLimits},
    plugin::{Plugin, PluginError, Runtime, build::build, cases},
};

/// A component and where its cases are.
pub(super) struct Subject {
    /// The component.
    pub(super) file: PathBuf,
    /// What was in the file: whatever is loaded from now on is this.
    pub(super) bytes: Vec<u8>,
    /// The folder of cases, where there is one.
    pub(super) cases: Option<PathBuf>,
}

impl Subject {
    /// Builds a folder's plugin, or takes the component as it is. `cases` where somebody named the folder.
    pub(super) fn find(plugin: &Path, cases: Option<&Path>) -> Result<Self, String> {
        let (file, default) = if plugin.is_dir() {
            let built = build(plugin, None).map_err(|error| error.to_string())?;
            (built.path, Some(plugin.join("cases")).filter(|folder| folder.is_dir()))
        } else {
            (plugin.to_owned(), cases::beside(plugin))
        };
        let bytes = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Self { file, bytes, cases: cases.map(Path::to_owned).or(default) })
    }

    /// The plugin, to be given settings.
    pub(super) fn load(&self, runtime: &Runtime, limits: PluginLimits) -> Result<Arc<dyn Plugin>, PluginError> {
        let sha256 = Some(Sha256::digest(&self.bytes).into());
        runtime.unconfigured(&config::Plugin { sha256, limits, ..config::Plugin::at(self.file.clone()) })
    }
}
