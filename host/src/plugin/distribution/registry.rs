//! Speaking to a registry.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use oci_client::{
    Client, RegistryOperation,
    client::{ClientConfig, ClientProtocol},
    errors::{OciDistributionError, OciErrorCode},
    manifest::{OciDescriptor, OciImageManifest},
    secrets::RegistryAuth,
};
use sha2::{Digest, Sha256};

use super::{Reference, cache::Resolved, credentials, shown};

/// A registry that is silent for so long is away.
const SILENCE: Duration = Duration::from_secs(20);
/// Manifests of plugins have a few hundred bytes.
const MANIFEST_LIMIT: usize = 1 << 20;
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
const LAYER: &str = "application/wasm";

/// Why something was not fetched.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// The registry does not answer: what it said last may do.
    #[error("{0}")]
    Away(String),
    /// It answers, and says no; or what it gave is not right.
    #[error("{0}")]
    Refused(String),
}

/// A plugin's place in a registry.
pub(super) struct Registry {
    client: Client,
    reference: oci_client::Reference,
    auth: RegistryAuth,
    host: String,
}

impl Registry {
    pub(super) fn of(reference: &Reference) -> Result<Self, FetchError> {
        let config = ClientConfig {
            protocol: if reference.is_local() { ClientProtocol::Http } else { ClientProtocol::Https },
            connect_timeout: Some(SILENCE),
            read_timeout: Some(SILENCE),
            user_agent: concat!("tidegate/", env!("CARGO_PKG_VERSION")),
            // A plugin runs anywhere: an index of platforms is none.
            platform_resolver: None,
            ..ClientConfig::default()
        };
        // The library takes whatever the process has for TLS; a second try finds it there.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::try_from(config).map_err(|error| refused(reference.host(), &error))?;
        Ok(Self {
            client,
            reference: reference.for_client(),
            auth: credentials::of(reference.host()),
            host: reference.host().to_owned(),
        })
    }

    /// The manifest, byte for byte.
    pub(super) fn manifest(&self) -> Result<Bytes, FetchError> {
        let (manifest, _) = self.ask(self.client.pull_manifest_raw(&self.reference, &self.auth, &[MANIFEST]))?;
        if manifest.len() > MANIFEST_LIMIT {
            return Err(FetchError::Refused(format!("has a manifest of {} bytes", manifest.len())));
        }
        Ok(manifest)
    }

    /// The plugin, no more than `limit` bytes.
    pub(super) fn blob(&self, resolved: &Resolved, limit: u64) -> Result<Vec<u8>, FetchError> {
        if resolved.size > limit {
            return Err(FetchError::Refused(format!("has {} bytes; the most is {limit}", resolved.size)));
        }
        let (digest, size) = (shown(&resolved.layer), i64::try_from(resolved.size).unwrap_or(i64::MAX));
        let layer = OciDescriptor { media_type: LAYER.to_owned(), digest, size, ..OciDescriptor::default() };
        let mut content = Bounded { content: Vec::new(), limit: usize::try_from(resolved.size).unwrap_or(usize::MAX) };
        self.ask(self.client.pull_blob(&self.reference, &layer, &mut content))?;
        Ok(content.content)
    }

    /// Puts a plugin there, under the reference's tag.
    pub(super) fn push(&self, plugin: Vec<u8>, annotations: BTreeMap<String, String>) -> Result<[u8; 32], FetchError> {
        let config = Bytes::from_static(b"{}");
        let descriptor = |media_type: &str, content: &[u8]| OciDescriptor {
            media_type: media_type.to_owned(),
            digest: shown(&Sha256::digest(content).into()),
            size: i64::try_from(content.len()).unwrap_or(i64::MAX),
            ..OciDescriptor::default()
        };
        let manifest = OciImageManifest {
            media_type: Some(MANIFEST.to_owned()),
            config: descriptor(CONFIG, &config),
            layers: vec![descriptor(LAYER, &plugin)],
            annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
            ..OciImageManifest::default()
        };
        let body = serde_json::to_vec(&manifest).map_err(|error| FetchError::Refused(error.to_string()))?;
        let digest: [u8; 32] = Sha256::digest(&body).into();
        let (plugin_digest, config_digest) = (manifest.layers[0].digest.clone(), manifest.config.digest.clone());
        let put = async {
            self.client.auth(&self.reference, &self.auth, RegistryOperation::Push).await?;
            self.client.push_blob(&self.reference, plugin, &plugin_digest).await?;
            self.client.push_blob(&self.reference, config, &config_digest).await?;
            let kind = MANIFEST.parse().map_err(|_| OciDistributionError::GenericError(None))?;
            self.client.push_manifest_raw(&self.reference, body, kind).await
        };
        self.ask(put)?;
        Ok(digest)
    }

    /// Waits for the answer, on a thread of its own: whoever asks may be one that must not wait in its own runtime.
    fn ask<T: Send>(
        &self,
        question: impl Future<Output = Result<T, OciDistributionError>> + Send,
    ) -> Result<T, FetchError> {
        let waiting = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| FetchError::Refused(error.to_string()))?;
            runtime.block_on(question).map_err(|error| refused(&self.host, &error))
        };
        std::thread::scope(|scope| scope.spawn(waiting).join())
            .unwrap_or_else(|_| Err(FetchError::Refused("the registry's answer broke the client".to_owned())))
    }
}

/// Whether it is away, or says no.
fn refused(host: &str, error: &OciDistributionError) -> FetchError {
    let text = format!("{host}: {}", whole(error));
    match error {
        OciDistributionError::RequestError(_) => FetchError::Away(text),
        OciDistributionError::ServerError { code, .. } if *code >= 500 || *code == 429 => FetchError::Away(text),
        OciDistributionError::RegistryError { envelope, .. }
            if envelope.errors.iter().any(|error| error.code == OciErrorCode::Toomanyrequests) =>
        {
            FetchError::Away(text)
        }
        _ => FetchError::Refused(text),
    }
}

/// An error with its causes, of which the outermost often says nothing.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Takes no more than was announced.
struct Bounded {
    content: Vec<u8>,
    limit: usize,
}

impl tokio::io::AsyncWrite for Bounded {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        more: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        if self.content.len() + more.len() > self.limit {
            return std::task::Poll::Ready(Err(std::io::Error::other("the file is larger than its manifest says")));
        }
        self.content.extend_from_slice(more);
        std::task::Poll::Ready(Ok(more.len()))
    }

    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::digest_of, *};

    #[test]
    fn a_server_that_is_ill_is_away_and_one_that_says_no_is_not() {
        let server = |code| OciDistributionError::ServerError { code, url: String::new(), message: String::new() };
        assert!(matches!(refused("h", &server(503)), FetchError::Away(_)));
        assert!(matches!(refused("h", &server(404)), FetchError::Refused(_)));
        let unknown = OciDistributionError::ImageManifestNotFoundError("x".into());
        assert!(matches!(refused("h", &unknown), FetchError::Refused(_)));
    }

    #[test]
    fn what_is_a_digest_is_read() {
        assert_eq!(digest_of(&shown(&[0xab; 32])), Some([0xab; 32]));
        assert_eq!(digest_of("sha256:zz"), None);
    }
}
