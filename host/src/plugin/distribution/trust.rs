//! Whose certificates a registry may have.

use std::path::Path;

use oci_client::client::{Certificate, CertificateEncoding};
use rustls::pki_types::{CertificateDer, pem::PemObject};

use crate::regular_file;

/// The certificates in a PEM file.
pub(super) fn authorities(file: &Path) -> Result<Vec<Certificate>, String> {
    let broken = |why: &str| format!("[plugins] registry_ca_file: {} {why}", file.display());
    let pem = regular_file::read(file, regular_file::TEXT_LIMIT)
        .map_err(|error| broken(&format!("cannot be read: {error}")))?;
    let certificate = |der: CertificateDer<'_>| Certificate { encoding: CertificateEncoding::Der, data: der.to_vec() };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).map(|der| der.map(certificate)).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(broken("has no certificates in PEM")),
    }
}

/// Whether a registry's certificate is from nobody whom this machine trusts.
pub(super) fn is_of_an_unknown_authority(error: &(dyn std::error::Error + 'static)) -> bool {
    use rustls::{CertificateError::UnknownIssuer, Error::InvalidCertificate};

    let is = |error: &(dyn std::error::Error + 'static)| {
        matches!(error.downcast_ref::<rustls::Error>(), Some(InvalidCertificate(UnknownIssuer)))
    };
    let mut cause = Some(error);
    while let Some(error) = cause {
        // An I/O error passes over what it wraps.
        let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if is(error) || wrapped.is_some_and(|wrapped| is_of_an_unknown_authority(wrapped)) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_of_authorities_has_some_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let said = |content: &str| {
            fs::write(&file, content).unwrap();
            authorities(&file).map(|found| found.len())
        };
        let pem = |name: &str| rcgen::generate_simple_self_signed([name.to_owned()]).unwrap().cert.pem();
        assert_eq!(said(&format!("# ours\n{}{}", pem("a"), pem("b"))), Ok(2));
        for broken in ["", "secret", "-----BEGIN CERTIFICATE-----\nsecret\n"] {
            let why = said(broken).unwrap_err();
            assert!(why.contains("registry_ca_file") && !why.contains("secret"), "{why}");
        }
        assert!(authorities(Path::new("/nowhere.pem")).err().unwrap().contains("/nowhere.pem cannot be read"));
    }
}
