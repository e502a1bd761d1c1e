//! The certificate of `[http] tls`. Read once, at start.

use std::{path::Path, sync::Arc};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::config::Tls;

/// What the listener needs to speak TLS (1.2 and 1.3).
///
/// # Errors
/// In words, with the file: it cannot be read, is no PEM, or certificate and key do not belong together.
pub fn load(tls: &Tls) -> Result<Arc<ServerConfig>, String> {
    let of = |path: &Path, error: &dyn std::fmt::Display| format!("http.tls: {}: {error}", path.display());
    let certificates: Vec<_> = CertificateDer::pem_file_iter(&tls.cert_file)
        .and_then(Iterator::collect)
        .map_err(|error| of(&tls.cert_file, &error))?;
    if certificates.is_empty() {
        return Err(of(&tls.cert_file, &"there is no certificate in it (PEM, -----BEGIN CERTIFICATE-----)"));
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key_file).map_err(|error| of(&tls.key_file, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_no_client_auth())
        .and_then(|builder| builder.with_single_cert(certificates, key))
        .map_err(|error| of(&tls.cert_file, &error))?;
    Ok(Arc::new(config))
}
