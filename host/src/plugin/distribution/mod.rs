//! Where a plugin comes from: a file, or an OCI registry. What was fetched is kept in a private folder, under the digest of
//! its content, so that a registry that is down stops no start.
//!
//! `oci://HOST/NAME@sha256:…` says which plugin it is, and is asked for once. `oci://HOST/NAME:TAG` is asked for at every
//! start and reload; where the registry does not answer, the last answer counts, with a warning.

mod cache;
mod credentials;
mod manifest;
mod origin;
mod pins;
mod prune;
mod reference;
mod registry;
mod signature;
mod trust;

use std::{
    io,
    path::{Path, PathBuf},
};

use cache::{Cache, Kept};
use manifest::Resolved;
pub use origin::Origin;
use pins::Pins;
pub use reference::{Reference, SCHEME};
use registry::{FetchError, Pulled, Registry};
use sha2::{Digest, Sha256};
pub use signature::{KeyError, PrivateKey, PublicKey, Signatures, signatures_beside};

use super::{FILE_LIMIT, PluginError};
use crate::{
    config::{self, Config},
    regular_file,
};

/// A plugin's content, read once: it is what the configuration asks for, and signed by whom it must be.
pub(super) struct Artifact {
    /// The component.
    pub(super) content: Vec<u8>,
    /// Its SHA-256.
    pub(super) digest: [u8; 32],
}

/// Fetches plugins.
#[derive(Default)]
pub(super) struct Distribution {
    /// `[plugins] cache`.
    folder: Option<PathBuf>,
    registry_ca_file: Option<PathBuf>,
    pins: Option<Pins>,
}

impl Distribution {
    /// Keeps what it fetches in this folder, and takes what this machine trusts.
    pub(super) fn new(folder: Option<&Path>) -> Self {
        Self { folder: folder.map(Path::to_owned), ..Self::default() }
    }

    /// As a configuration says.
    pub(super) fn of(config: &Config) -> Self {
        Self {
            folder: config.plugins.cache.clone(),
            registry_ca_file: config.plugins.registry_ca_file.clone(),
            pins: Pins::of(config),
        }
    }

    /// Reads a plugin. Fetches it where it is in a registry; blocks, not for an async worker.
    ///
    /// # Errors
    /// [`PluginError::Load`] with the way out: what cannot be fetched and was not fetched before, or is not what was asked
    /// for.
    pub(super) fn artifact(&self, plugin: &config::Plugin) -> Result<Artifact, PluginError> {
        let refuse = |message: String| PluginError::Load { path: plugin.origin.to_string(), message };
        let (artifact, signatures) = match &plugin.origin {
            Origin::File(path) => {
                let signatures =
                    if plugin.signed_by.is_empty() { Ok(Signatures::default()) } else { Signatures::beside(path) };
                (read_file(path).map_err(&refuse)?, signatures.map_err(&refuse)?)
            }
            Origin::Registry(reference) => {
                let Kept { resolved, content } = self.kept(reference)?;
                let signatures = Signatures::from_annotations(&resolved.annotations);
                (Artifact { content, digest: resolved.layer }, signatures)
            }
        };
        signatures.check(&artifact.digest, &plugin.signed_by).map_err(&refuse)?;
        match &plugin.sha256 {
            Some(pin) if *pin != artifact.digest => Err(refuse(format!(
                "has the SHA-256 {}, but {} is pinned: deploy the pinned file, or change [consumer.plugin] sha256",
                hex::encode(artifact.digest),
                hex::encode(pin)
            ))),
            _ => Ok(artifact),
        }
    }

    fn kept(&self, reference: &Reference) -> Result<Kept, PluginError> {
        let refuse = |message: String| PluginError::Load { path: reference.to_string(), message };
        let cannot_keep = |error: io::Error| refuse(format!("cannot be kept: {error}"));
        let folder = self.folder.as_ref().ok_or_else(|| {
            refuse("comes from a registry, which needs a folder to keep it in: set [plugins] cache".to_owned())
        })?;
        let cache = Cache::open(&folder.join("oci")).map_err(cannot_keep)?;
        if let Some(pins) = &self.pins {
            // First of all: from here on nobody clears it away.
            pins.add(reference, &cache).map_err(cannot_keep)?;
        }
        self.resolve(reference, &cache).map_err(|error| match error {
            // It may answer a minute later: the consumer waits, and tries again.
            FetchError::Away(message) => PluginError::Unreachable { path: reference.to_string(), message },
            FetchError::Refused(message) => refuse(message),
        })
    }

    /// From what was kept, where that is certain; otherwise from the registry.
    fn resolve(&self, reference: &Reference, cache: &Cache) -> Result<Kept, FetchError> {
        let kept = |digest: &[u8; 32]| cache.by_manifest(digest);
        if let Some(kept) = reference.digest().and_then(kept) {
            cache.used(reference, &kept.resolved);
            return Ok(kept);
        }
        let away = match self.fetch(reference, cache) {
            Err(FetchError::Away(why)) => why,
            answered => return answered,
        };
        let last = cache.last(reference).ok_or_else(|| FetchError::Away(away.clone()))?;
        tracing::warn!(plugin = %reference, why = %away, "the registry does not answer: taking what it said last");
        cache.used(reference, &last.resolved);
        Ok(last)
    }

    fn fetch(&self, reference: &Reference, cache: &Cache) -> Result<Kept, FetchError> {
        let keep = |error: io::Error| FetchError::Refused(format!("cannot be kept: {error}"));
        let registry = Registry::of(reference, self.registry_ca_file.as_deref())?;
        let Pulled { manifest, resolved, content, is_new } =
            registry.pull(reference.digest(), |layer| cache.content(layer))?;
        if is_new {
            cache.keep(&resolved.layer, &content).map_err(keep)?;
        }
        cache.remember(reference, &manifest, &resolved).map_err(keep)?;
        if is_new && let Err(error) = Pins::references(cache).and_then(|named| cache.prune(&named)) {
            tracing::warn!(folder = %cache.folder.display(), %error, "no room was made among fetched plugins");
        }
        Ok(Kept { resolved, content })
    }
}

/// Reads a component's file, once.
///
/// # Errors
/// Why it cannot be read.
pub(super) fn read_file(path: &Path) -> Result<Artifact, String> {
    let content = regular_file::read(path, FILE_LIMIT).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => error.to_string(),
        _ => format!("cannot be read: {error}"),
    })?;
    let digest = Sha256::digest(&content).into();
    Ok(Artifact { content, digest })
}

/// Puts a plugin into a registry, with the signatures that stand beside its file, and answers the manifest's digest: what
/// `oci://…@sha256:…` names. Blocks.
///
/// # Errors
/// In words.
pub fn push(file: &Path, reference: &Reference) -> Result<[u8; 32], String> {
    let Artifact { content, digest } = read_file(file).map_err(|error| format!("{} {error}", file.display()))?;
    // A folder of signatures of something else would be found out by nobody until it is too late.
    let signatures = Signatures::beside(file)?;
    signatures.check_all(&digest)?;
    let registry = Registry::of(reference, None).map_err(|error| error.to_string())?;
    registry.push(content, signatures.annotations()).map_err(|error| error.to_string())
}

/// A digest as registries write it.
fn shown(digest: &[u8; 32]) -> String {
    format!("sha256:{}", hex::encode(digest))
}

/// Reads `sha256:…`.
fn digest_of(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    hex::decode_to_slice(text.strip_prefix("sha256:")?, &mut digest).ok()?;
    Some(digest)
}
