//! Which plugins configurations name: those stay in the cache, however long ago they were used.
//!
//! Each configuration has a file in the cache, whose first line is the configuration's own file; the others are what it
//! named when it was last read, and what was loaded by it since. It counts as long as the configuration's file exists.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use sha2::{Digest, Sha256};

use super::{Reference, cache::Cache};
use crate::{atomic_file, config::Config};

const PINS: &str = "pins";

/// What one configuration names.
pub(super) struct Pins {
    config: PathBuf,
    references: Mutex<References>,
}

struct References {
    texts: BTreeSet<String>,
    written: bool,
}

impl Pins {
    /// Those of a configuration; none where it has no file, by which it would be known again.
    pub(super) fn of(config: &Config) -> Option<Self> {
        let texts = config
            .plugins_and_shadows()
            .filter_map(|plugin| plugin.origin.reference().map(ToString::to_string))
            .collect();
        let references = Mutex::new(References { texts, written: false });
        config.file.clone().map(|config| Self { config, references })
    }

    /// This one, too, from now on.
    ///
    /// # Errors
    /// Where it cannot be written down.
    pub(super) fn add(&self, reference: &Reference, cache: &Cache) -> io::Result<()> {
        let mut references = self.references.lock().unwrap_or_else(PoisonError::into_inner);
        if !references.texts.insert(reference.to_string()) && references.written {
            return Ok(());
        }
        let file = cache.file(&Sha256::digest(self.config.as_os_str().as_encoded_bytes()).into(), PINS);
        // Without a name that text can say it counts for ever.
        let mut text = self.config.to_str().unwrap_or_default().to_owned();
        for reference in &references.texts {
            text = format!("{text}\n{reference}");
        }
        atomic_file::write_private(&file, &[text.as_bytes()])?;
        references.written = true;
        Ok(())
    }

    /// Those of all configurations that there are. What cannot be read is an error: then nobody knows what is named.
    pub(super) fn references(cache: &Cache) -> io::Result<Vec<Reference>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&cache.folder)? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != PINS) {
                continue;
            }
            let text = fs::read_to_string(&path)?;
            let (config, references) = text.split_once('\n').unwrap_or((&text, ""));
            if config.is_empty() || Path::new(config).try_exists().unwrap_or(true) {
                all.extend(references.lines().filter_map(|line| Reference::parse(line).ok().flatten()));
            } else {
                fs::remove_file(&path)?;
            }
        }
        Ok(all)
    }
}
