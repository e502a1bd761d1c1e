//! Speaking to a registry.

use std::{collections::BTreeMap, path::Path, time::Duration};

use bytes::Bytes;
use oci_client::{
    Client, RegistryOperation,
    client::{ClientConfig, ClientProtocol},
    errors::{OciDistributionError, OciErrorCode},
    manifest::{OciDescriptor, OciImageManifest},
};
use sha2::{Digest, Sha256};

use super::{
    FILE_LIMIT, Reference, Resolved,
    credentials::Login,
    shown,
    trust::{authorities, is_of_an_unknown_authority},
};

/// A registry that is silent for so long is away.
const SILENCE: Duration = Duration::from_secs(20);
/// What [`Reference::is_local`] names, as the client has it.
const THIS_MACHINE: &str = "localhost,127.0.0.1,::1";
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
    login: Login,
    host: String,
}

/// What a registry gave.
pub(super) struct Pulled {
    /// Byte for byte.
    pub(super) manifest: Bytes,
    /// What it says.
    pub(super) resolved: Resolved,
    /// The plugin.
    pub(super) content: Vec<u8>,
    /// It was not here before.
    pub(super) is_new: bool,
}

impl Registry {
    /// The place of this reference. `ca_file` has certificates of authorities to trust besides the system's.
    pub(super) fn of(reference: &Reference, ca_file: Option<&Path>) -> Result<Self, FetchError> {
        let config = ClientConfig {
            connect_timeout: Some(SILENCE),
            read_timeout: Some(SILENCE),
            user_agent: concat!("tidegate/", env!("CARGO_PKG_VERSION")),
            extra_root_certificates: ca_file.map_or(Ok(Vec::new()), authorities).map_err(FetchError::Refused)?,
            // A plugin runs anywhere: an index of platforms is none.
            platform_resolver: None,
            ..ClientConfig::default()
        };
        let config = if reference.is_local() {
            // A proxy that is used for nobody: otherwise the client takes the environment's, to which this machine is another.
            let (http_proxy, no_proxy) = (Some("http://127.0.0.1:9".to_owned()), Some(THIS_MACHINE.to_owned()));
            ClientConfig { protocol: ClientProtocol::Http, http_proxy, no_proxy, ..config }
        } else {
            ClientConfig { protocol: ClientProtocol::Https, ..config }
        };
        // The library takes whatever the process has for TLS; a second try finds it there.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let login = Login::of(reference.host());
        let client = Client::try_from(config).map_err(|error| refused(reference.host(), &login, &error))?;
        Ok(Self { client, reference: reference.for_client(), login, host: reference.host().to_owned() })
    }

    /// Asks what the reference means, and for the plugin where `kept` has none of its digest.
    pub(super) fn pull(
        &self,
        wanted: Option<&[u8; 32]>,
        kept: impl Fn(&[u8; 32]) -> Option<Vec<u8>> + Send,
    ) -> Result<Pulled, FetchError> {
        let no = |why: String| FetchError::Refused(why);
        self.talk(async move {
            let auth = self.login.auth();
            let asked = self.client.pull_manifest_raw(&self.reference, auth, &[MANIFEST]).await;
            let (manifest, _) = asked.map_err(|error| self.refused(&error))?;
            if manifest.len() > MANIFEST_LIMIT {
                return Err(no(format!("has a manifest of {} bytes", manifest.len())));
            }
            let resolved = Resolved::of(&manifest).map_err(no)?;
            if wanted.is_some_and(|wanted| *wanted != resolved.manifest) {
                return Err(no("the registry answered with something else than the digest names".to_owned()));
            }
            if let Some(content) = kept(&resolved.layer) {
                return Ok(Pulled { manifest, resolved, content, is_new: false });
            }
            let content = self.blob(&resolved).await?;
            if Sha256::digest(&content)[..] != resolved.layer {
                return Err(no("the registry's file is not the one that its manifest names".to_owned()));
            }
            Ok(Pulled { manifest, resolved, content, is_new: true })
        })
    }

    /// The plugin, no larger than any may be.
    async fn blob(&self, resolved: &Resolved) -> Result<Vec<u8>, FetchError> {
        if resolved.size > FILE_LIMIT {
            return Err(FetchError::Refused(format!("has {} bytes; the most is {FILE_LIMIT}", resolved.size)));
        }
        let (digest, size) = (shown(&resolved.layer), i64::try_from(resolved.size).unwrap_or(i64::MAX));
        let layer = OciDescriptor { media_type: LAYER.to_owned(), digest, size, ..OciDescriptor::default() };
        let mut content = Bounded { content: Vec::new(), limit: usize::try_from(resolved.size).unwrap_or(usize::MAX) };
        let asked = self.client.pull_blob(&self.reference, &layer, &mut content).await;
        asked.map(|()| content.content).map_err(|error| self.refused(&error))
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
            self.client.auth(&self.reference, self.login.auth(), RegistryOperation::Push).await?;
            self.client.push_blob(&self.reference, plugin, &plugin_digest).await?;
            self.client.push_blob(&self.reference, config, &config_digest).await?;
            let kind = MANIFEST.parse().map_err(|_| OciDistributionError::GenericError(None))?;
            self.client.push_manifest_raw(&self.reference, body, kind).await
        };
        self.talk(async { put.await.map(|_| digest).map_err(|error| self.refused(&error)) })
    }

    fn refused(&self, error: &OciDistributionError) -> FetchError {
        refused(&self.host, &self.login, error)
    }

    /// Waits for the end of a conversation, on a thread of its own: whoever asks may be one that must not wait in its own
    /// runtime.
    fn talk<T: Send>(&self, conversation: impl Future<Output = Result<T, FetchError>> + Send) -> Result<T, FetchError> {
        let waiting = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|error| FetchError::Refused(error.to_string()))?.block_on(conversation)
        };
        std::thread::scope(|scope| scope.spawn(waiting).join())
            .unwrap_or_else(|_| Err(FetchError::Refused("the registry's answer broke the client".to_owned())))
    }
}

/// Whether it is away, or says no; and what to do about it.
fn refused(host: &str, login: &Login, error: &OciDistributionError) -> FetchError {
    let text = format!("{host}: {}", whole(error));
    match error {
        OciDistributionError::RequestError(error) if is_of_an_unknown_authority(error) => FetchError::Away(format!(
            "{text}. Where its certificate is from an authority of your own, name that one's in [plugins] registry_ca_file, \
             have the system trust it, or set SSL_CERT_FILE"
        )),
        OciDistributionError::RequestError(_) => FetchError::Away(text),
        OciDistributionError::ServerError { code, .. } if *code >= 500 || *code == 429 => FetchError::Away(text),
        OciDistributionError::RegistryError { envelope, .. }
            if envelope.errors.iter().any(|error| error.code == OciErrorCode::Toomanyrequests) =>
        {
            FetchError::Away(text)
        }
        // What the server says of it may repeat what it was given.
        OciDistributionError::UnauthorizedError { .. }
        | OciDistributionError::AuthenticationFailure(_)
        | OciDistributionError::ServerError { code: 401 | 403, .. } => FetchError::Refused(login.refused_by(host)),
        OciDistributionError::RegistryError { envelope, .. }
            if envelope
                .errors
                .iter()
                .any(|error| matches!(error.code, OciErrorCode::Unauthorized | OciErrorCode::Denied)) =>
        {
            FetchError::Refused(login.refused_by(host))
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
        assert!(matches!(refused("h", &Login::default(), &server(503)), FetchError::Away(_)));
        assert!(matches!(refused("h", &Login::default(), &server(404)), FetchError::Refused(_)));
        let unknown = OciDistributionError::ImageManifestNotFoundError("x".into());
        assert!(matches!(refused("h", &Login::default(), &unknown), FetchError::Refused(_)));
    }

    #[test]
    fn what_is_a_digest_is_read() {
        assert_eq!(digest_of(&shown(&[0xab; 32])), Some([0xab; 32]));
        assert_eq!(digest_of("sha256:zz"), None);
    }
}
