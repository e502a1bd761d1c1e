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
    /// Its digest: whatever is loaded from now on is this.
    pub(super) sha256: [u8; 32],
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
        Ok(Self { file, sha256: Sha256::digest(bytes).into(), cases: cases.map(Path::to_owned).or(default) })
    }

    /// The plugin with these settings.
    pub(super) fn load(
        &self,
        runtime: &Runtime,
        settings: &serde_json::Value,
        limits: PluginLimits,
    ) -> Result<Arc<dyn Plugin>, PluginError> {
        runtime.load(&config::Plugin {
            path: self.file.clone(),
            sha256: Some(self.sha256),
            signed_by: Vec::new(),
            cases: None,
            limits,
            settings: settings.clone(),
        })
    }
}
