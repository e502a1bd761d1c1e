//! Files that the configuration only names, and that the Kafka client reads once: a certificate that is renewed there is a
//! change of the configuration.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::{Config, Linked};

/// More than any certificate has.
const LARGEST: u64 = 4 << 20;

/// Those of this configuration, each with its key and the SHA-256 of its content. Whether they are there and any good is
/// their readers' business.
pub(super) fn read(config: &Config) -> BTreeMap<PathBuf, Linked> {
    let mut files = BTreeMap::new();
    for (name, cluster) in &config.kafka {
        let paths = cluster.properties.iter().filter(|(key, _)| key.ends_with(".location"));
        files.extend(paths.map(|(key, file)| (PathBuf::from(file), format!("[kafka.{name}] {key}"))));
    }
    files.into_iter().map(|(file, key)| (file.clone(), Linked { key, sha256: digest(&file) })).collect()
}

fn digest(file: &Path) -> Option<[u8; 32]> {
    let meta = fs::metadata(file).ok()?;
    // `ssl.ca.location` may be a folder, and a name may lead to what never ends.
    if !meta.is_file() || meta.len() > LARGEST {
        return None;
    }
    Some(Sha256::digest(fs::read(file).ok()?).into())
}
