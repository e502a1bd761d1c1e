//! What was fetched from registries: contents under their digests, and what a reference meant last.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{Reference, digest_of};
use crate::plugin::wasm::private;

/// Media types of a layer that is a plugin: the registries' guideline for WebAssembly, and what came before it.
const WASM: [&str; 2] = ["application/wasm", "application/vnd.wasm.content.layer.v1+wasm"];

/// A private folder: what is in it was checked when it came in, and is checked again when it is used.
pub(super) struct Cache {
    folder: PathBuf,
}

/// What a manifest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    /// The digest of the manifest itself.
    pub(super) manifest: [u8; 32],
    /// The digest of the plugin.
    pub(super) layer: [u8; 32],
    /// The plugin's size in bytes.
    pub(super) size: u64,
    /// Of the manifest.
    pub(super) annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct RawManifest {
    layers: Vec<RawLayer>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawLayer {
    media_type: String,
    digest: String,
    size: u64,
}

impl Resolved {
    /// Reads a manifest.
    pub(super) fn of(manifest: &[u8]) -> Result<Self, String> {
        let raw: RawManifest = serde_json::from_slice(manifest).map_err(|error| {
            format!("is no image with layers in the registry ({error}): push it by `tidegate plugin push`")
        })?;
        let mut layers = raw.layers.iter().filter(|layer| WASM.contains(&layer.media_type.as_str()));
        let (Some(layer), None) = (layers.next(), layers.next()) else {
            return Err(format!("has not just one layer of type {}: push it by `tidegate plugin push`", WASM[0]));
        };
        let digest = digest_of(&layer.digest).ok_or_else(|| format!("has a layer with the digest {}", layer.digest))?;
        Ok(Self {
            manifest: Sha256::digest(manifest).into(),
            layer: digest,
            size: layer.size,
            annotations: raw.annotations.unwrap_or_default(),
        })
    }
}

impl Cache {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        private::make_private(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Where the plugin of this digest is, or would be.
    pub(super) fn file(&self, digest: &[u8; 32]) -> PathBuf {
        self.folder.join(format!("{}.wasm", hex::encode(digest)))
    }

    /// Whether it is there and whole.
    pub(super) fn has(&self, digest: &[u8; 32]) -> bool {
        fs::read(self.file(digest)).is_ok_and(|content| Sha256::digest(content)[..] == *digest)
    }

    pub(super) fn keep(&self, digest: &[u8; 32], content: &[u8]) -> io::Result<()> {
        self.write(&self.file(digest), content)
    }

    /// What the manifest of this digest says, where it and its plugin are there and whole.
    pub(super) fn by_manifest(&self, digest: &[u8; 32]) -> Option<Resolved> {
        let manifest = fs::read(self.manifest(digest)).ok()?;
        let resolved = Resolved::of(&manifest).ok()?;
        (resolved.manifest == *digest && self.has(&resolved.layer)).then_some(resolved)
    }

    /// What a reference meant last.
    pub(super) fn last(&self, reference: &Reference) -> Option<Resolved> {
        let note = fs::read_to_string(self.note(reference)).ok()?;
        self.by_manifest(&digest_of(note.trim())?)
    }

    pub(super) fn remember(&self, reference: &Reference, manifest: &[u8], resolved: &Resolved) -> io::Result<()> {
        self.write(&self.manifest(&resolved.manifest), manifest)?;
        self.write(&self.note(reference), super::shown(&resolved.manifest).as_bytes())
    }

    fn manifest(&self, digest: &[u8; 32]) -> PathBuf {
        self.folder.join(format!("{}.manifest", hex::encode(digest)))
    }

    /// A reference has characters that a file's name has not.
    fn note(&self, reference: &Reference) -> PathBuf {
        self.folder.join(format!("{}.reference", hex::encode(Sha256::digest(reference.to_string()))))
    }

    /// Whole or not at all.
    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let temporary = self.folder.join(format!("{}.{:?}.tmp", std::process::id(), std::thread::current().id()));
        io::Write::write_all(&mut private::private_file(&temporary)?, content)?;
        fs::rename(&temporary, path)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use super::*;

    fn manifest(layers: &str) -> Vec<u8> {
        format!(r#"{{"schemaVersion":2,"layers":[{layers}],"annotations":{{"a":"b"}}}}"#).into_bytes()
    }

    fn layer(content: &[u8]) -> String {
        let digest = super::super::shown(&Sha256::digest(content).into());
        format!(r#"{{"mediaType":"application/wasm","digest":"{digest}","size":{}}}"#, content.len())
    }

    #[test]
    fn what_was_fetched_is_known_again_while_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(&folder.path().join("oci")).unwrap();
        let reference = Reference::parse("oci://h/n:1").unwrap().unwrap();
        let manifest = manifest(&layer(b"plugin"));
        let resolved = Resolved::of(&manifest).unwrap();
        assert_eq!(resolved.annotations["a"], "b");
        assert_eq!(cache.last(&reference), None);
        cache.remember(&reference, &manifest, &resolved).unwrap();
        assert_eq!(cache.last(&reference), None, "the plugin itself is not there");
        cache.keep(&resolved.layer, b"plugin").unwrap();
        assert_eq!(cache.last(&reference), Some(resolved.clone()));
        assert_eq!(cache.by_manifest(&resolved.manifest), Some(resolved.clone()));
        fs::write(cache.file(&resolved.layer), b"tampered").unwrap();
        assert_eq!(cache.last(&reference), None);
        cache.keep(&resolved.layer, b"plugin").unwrap();
        fs::write(cache.manifest(&resolved.manifest), b"{}").unwrap();
        assert_eq!(cache.last(&reference), None);
    }

    #[test]
    fn what_is_no_plugin_is_told() {
        let two = format!("{},{}", layer(b"a"), layer(b"b"));
        for bad in ["", &two, &layer(b"a").replace("wasm", "tar"), &layer(b"a").replace("sha256", "md5")] {
            assert!(Resolved::of(&manifest(bad)).is_err(), "{bad}");
        }
        assert!(Resolved::of(b"[]").is_err());
    }
}
