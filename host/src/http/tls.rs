//! The certificate of `[http] tls`. One that is renewed is taken by itself: its files are looked at once a second.

use std::{
    fmt,
    path::Path,
    sync::{Arc, PoisonError, RwLock, Weak},
    thread,
    time::Duration,
};

use rustls::{
    ServerConfig,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use crate::{
    config::Tls,
    file_stamp::{Stamp, stamp},
    regular_file,
};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What the listener needs to speak TLS (1.2 and 1.3). For as long as it is there, another certificate in the files is shown
/// to whoever comes next; until both are there and belong together, that of before is.
///
/// # Errors
/// As [`examine`]; or the system gives no thread.
pub fn load(tls: &Tls) -> Result<Arc<ServerConfig>, String> {
    let seen = stamps(tls);
    let shown = Arc::new(Shown(RwLock::new(Arc::new(read(tls)?))));
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| of(&tls.cert_file, &error))?
        .with_no_client_auth()
        .with_cert_resolver(Arc::clone(&shown) as Arc<dyn ResolvesServerCert>);
    let (tls, shown) = (tls.clone(), Arc::downgrade(&shown));
    let watcher = thread::Builder::new().name("certificate".to_owned());
    watcher.spawn(move || renew(&tls, &shown, seen)).map_err(|error| format!("start a thread: {error}"))?;
    Ok(Arc::new(config))
}

/// Whether the files are what TLS needs.
///
/// # Errors
/// In words, with the file: it cannot be read, is no PEM, or certificate and key do not belong together.
pub fn examine(tls: &Tls) -> Result<(), String> {
    read(tls).map(drop)
}

fn of(path: &Path, error: &dyn fmt::Display) -> String {
    format!("http.tls: {}: {error}", path.display())
}

fn read(tls: &Tls) -> Result<CertifiedKey, String> {
    let text = |path: &Path| regular_file::read(path, regular_file::TEXT_LIMIT).map_err(|error| of(path, &error));
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&text(&tls.cert_file)?)
        .collect::<Result<_, _>>()
        .map_err(|error| of(&tls.cert_file, &error))?;
    if certificates.is_empty() {
        return Err(of(&tls.cert_file, &"there is no certificate in it (PEM, -----BEGIN CERTIFICATE-----)"));
    }
    let key = PrivateKeyDer::from_pem_slice(&text(&tls.key_file)?).map_err(|error| of(&tls.key_file, &error))?;
    CertifiedKey::from_der(certificates, key, &default_provider()).map_err(|error| of(&tls.cert_file, &error))
}

/// The certificate that is shown now.
#[derive(Debug)]
struct Shown(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn stamps(tls: &Tls) -> [Stamp; 2] {
    [stamp(&tls.cert_file), stamp(&tls.key_file)]
}

/// Until the listener is gone. Two files are replaced by two steps: what does not belong together is told once, and tried
/// again at the next change.
fn renew(tls: &Tls, shown: &Weak<Shown>, mut seen: [Stamp; 2]) {
    loop {
        thread::sleep(LOOK);
        let Some(shown) = shown.upgrade() else { return };
        let now = stamps(tls);
        if now == seen {
            continue;
        }
        seen = now;
        match read(tls) {
            Ok(new) => {
                *shown.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                tracing::info!(file = %tls.cert_file.display(), "the certificate of HTTPS was renewed");
            }
            Err(why) => tracing::error!("the certificate of HTTPS stays as it was: {why}"),
        }
    }
}
