//! Where a plugin comes from: a file, or an OCI registry. What was fetched is a file too, in a private folder, under the
//! digest of its content, so that nothing further on knows the difference, and so that a registry that is down stops no
//! start.
//!
//! `oci://HOST/NAME@sha256:…` says which plugin it is, and is asked for once. `oci://HOST/NAME:TAG` is asked for at every
//! start and reload; where the registry does not answer, the last answer counts, with a warning.

mod cache;
mod credentials;
mod reference;
mod registry;
mod signature;

use std::path::{Path, PathBuf};

use cache::{Cache, Resolved};
pub use reference::{Reference, SCHEME};
use registry::{FetchError, Registry};
use sha2::{Digest, Sha256};
pub use signature::{KeyError, PrivateKey, PublicKey, Signatures, signatures_beside};

use super::{FILE_LIMIT, PluginError};
use crate::config;

/// A plugin's file on this machine, and what its content must be.
pub(super) struct Local {
    /// The file.
    pub(super) file: PathBuf,
    /// What it was fetched as.
    digest: Option<[u8; 32]>,
    signatures: Signatures,
    signed_by: Vec<PublicKey>,
}

impl Local {
    /// Whether the file's content, by its digest, is what was asked for, and signed by whom it must be.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn check(&self, digest: &[u8; 32]) -> Result<(), String> {
        if self.digest.is_some_and(|wanted| wanted != *digest) {
            return Err(format!("was changed after it was fetched: remove {}", self.file.display()));
        }
        self.signatures.check(digest, &self.signed_by)
    }
}

/// A plugin's file. Fetches it where it is in a registry; blocks, not for an async worker. `folder` is `[plugins] cache`.
///
/// # Errors
/// [`PluginError::Load`] with the way out: what cannot be fetched and was not fetched before, or is not what was asked for.
pub(super) fn local(plugin: &config::Plugin, folder: Option<&Path>) -> Result<Local, PluginError> {
    let text = plugin.path.display().to_string();
    let refuse = |message: String| PluginError::Load { path: text.clone(), message };
    let signed_by = plugin.signed_by.clone();
    let Some(reference) = Reference::parse(&text).map_err(&refuse)? else {
        let signatures =
            if signed_by.is_empty() { Ok(Signatures::default()) } else { Signatures::beside(&plugin.path) };
        return Ok(Local {
            file: plugin.path.clone(),
            digest: None,
            signatures: signatures.map_err(&refuse)?,
            signed_by,
        });
    };
    let folder = folder.ok_or_else(|| {
        refuse("comes from a registry, which needs a folder to keep it in: set [plugins] cache".to_owned())
    })?;
    let cache = Cache::open(&folder.join("oci")).map_err(|error| refuse(format!("cannot be kept: {error}")))?;
    let resolved = resolve(&reference, &cache).map_err(|error| match error {
        // It may answer a minute later: the consumer waits, and tries again.
        FetchError::Away(message) => PluginError::Unreachable { path: text.clone(), message },
        FetchError::Refused(message) => refuse(message),
    })?;
    Ok(Local {
        file: cache.file(&resolved.layer),
        digest: Some(resolved.layer),
        signatures: Signatures::from_annotations(&resolved.annotations),
        signed_by,
    })
}

/// From what was kept, where that is certain; otherwise from the registry.
fn resolve(reference: &Reference, cache: &Cache) -> Result<Resolved, FetchError> {
    if let Some(digest) = reference.digest()
        && let Some(resolved) = cache.by_manifest(digest)
    {
        return Ok(resolved);
    }
    let away = match fetch(reference, cache) {
        Err(FetchError::Away(why)) => why,
        answered => return answered,
    };
    let last = cache.last(reference).ok_or_else(|| FetchError::Away(away.clone()))?;
    tracing::warn!(plugin = %reference, why = %away, "the registry does not answer: taking what it said last");
    Ok(last)
}

fn fetch(reference: &Reference, cache: &Cache) -> Result<Resolved, FetchError> {
    let keep = |error: std::io::Error| FetchError::Refused(format!("cannot be kept: {error}"));
    let registry = Registry::of(reference)?;
    let manifest = registry.manifest()?;
    let resolved = Resolved::of(&manifest).map_err(FetchError::Refused)?;
    if let Some(wanted) = reference.digest()
        && resolved.manifest != *wanted
    {
        return Err(FetchError::Refused("the registry answered with something else than the digest names".to_owned()));
    }
    if cache.has(&resolved.layer) {
        cache.remember(reference, &manifest, &resolved).map_err(keep)?;
        return Ok(resolved);
    }
    let content = registry.blob(&resolved, FILE_LIMIT)?;
    let digest: [u8; 32] = Sha256::digest(&content).into();
    if digest != resolved.layer {
        return Err(FetchError::Refused("the registry's file is not the one that its manifest names".to_owned()));
    }
    cache.keep(&resolved.layer, &content).map_err(keep)?;
    cache.remember(reference, &manifest, &resolved).map_err(keep)?;
    Ok(resolved)
}

/// Puts a plugin into a registry, with the signatures that stand beside its file, and answers the manifest's digest: what
/// `oci://…@sha256:…` names. Blocks.
///
/// # Errors
/// In words.
pub fn push(file: &Path, reference: &Reference) -> Result<[u8; 32], String> {
    let content = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    // A folder of signatures of something else would be found out by nobody until it is too late.
    let signatures = Signatures::beside(file)?;
    signatures.check_all(&Sha256::digest(&content).into())?;
    let registry = Registry::of(reference).map_err(|error| error.to_string())?;
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
