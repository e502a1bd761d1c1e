//! Files that the configuration only names, and that the Kafka client reads once: a certificate that is renewed there is a
//! change of the configuration.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::{Config, Linked};
use crate::regular_file;

/// More than any certificate has.
const LARGEST: u64 = 4 << 20;

/// Those of this configuration, each with its key and the SHA-256 of its content. Whether they are there and any good is
/// their readers' business.
pub(super) fn read(config: &Config) -> BTreeMap<PathBuf, Linked> {
    let with_digest = |(file, key): (PathBuf, String)| {
        let sha256 = digest(&file);
        (file, Linked { key, sha256 })
    };
    named(config).into_iter().map(with_digest).collect()
}

/// Those, each with its key.
pub(super) fn named(config: &Config) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    for (name, cluster) in &config.kafka {
        let paths = cluster.properties.iter().filter(|(key, _)| key.ends_with(".location"));
        files.extend(paths.map(|(key, file)| (PathBuf::from(file), format!("[kafka.{name}] {key}"))));
    }
    files
}

fn digest(file: &Path) -> Option<[u8; 32]> {
    // `ssl.ca.location` may be a folder.
    Some(Sha256::digest(regular_file::read(file, LARGEST).ok()?).into())
}
