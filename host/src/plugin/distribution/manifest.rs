//! What a registry says of a plugin: an image whose one layer it is.

use std::collections::BTreeMap;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::digest_of;

/// Media types of a layer that is a plugin: the registries' guideline for WebAssembly, and what came before it.
const WASM: [&str; 2] = ["application/wasm", "application/vnd.wasm.content.layer.v1+wasm"];

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
    ///
    /// # Errors
    /// Why it is none of a plugin's.
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

/// Manifests for tests.
#[cfg(test)]
pub(super) mod made {
    use super::*;

    /// With these layers.
    pub(in super::super) fn manifest(layers: &str) -> Vec<u8> {
        format!(r#"{{"schemaVersion":2,"layers":[{layers}],"annotations":{{"a":"b"}}}}"#).into_bytes()
    }

    /// Of this content.
    pub(in super::super) fn layer(content: &[u8]) -> String {
        let digest = super::super::shown(&Sha256::digest(content).into());
        format!(r#"{{"mediaType":"application/wasm","digest":"{digest}","size":{}}}"#, content.len())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        made::{layer, manifest},
        *,
    };

    #[test]
    fn what_is_no_plugin_is_told() {
        let two = format!("{},{}", layer(b"a"), layer(b"b"));
        for bad in ["", &two, &layer(b"a").replace("wasm", "tar"), &layer(b"a").replace("sha256", "md5")] {
            assert!(Resolved::of(&manifest(bad)).is_err(), "{bad}");
        }
        assert!(Resolved::of(b"[]").is_err());
    }
}
