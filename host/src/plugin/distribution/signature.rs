//! Detached Ed25519 signatures of a plugin.
//!
//! What is signed is the line `tidegate-plugin-v1 sha256:DIGEST`, with the SHA-256 of the component in hexadecimal, without a
//! line break: so a signature holds for the plugin wherever it lies. A signature is a line of `ed25519`, the public key and
//! the signature, both in base64, with a blank between. They stand in `FILE.sig` beside the file, and in a registry in the
//! manifest's annotation `io.tidegate.plugin.signatures`.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};

use super::shown;
use crate::{atomic_file, regular_file};

/// What a file's signatures are called, behind its own name.
const SIGNATURE_SUFFIX: &str = ".sig";
const ANNOTATION: &str = "io.tidegate.plugin.signatures";
const ALGORITHM: &str = "ed25519";

/// Who may sign.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// Reads 32 bytes of base64.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        BASE64.decode(text.trim()).ok()?.try_into().ok().map(Self)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Why there is no key. Nothing of the file is repeated.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What came of it.
        source: io::Error,
    },
    /// Its content.
    #[error("{} is no Ed25519 private key in PEM (PKCS #8), as `openssl genpkey -algorithm ed25519` makes it", .0.display())]
    NoKey(PathBuf),
}

/// Signs.
pub struct PrivateKey(Ed25519KeyPair);

impl PrivateKey {
    /// Reads a key.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let content = fs::read(path).map_err(|source| KeyError::Io { path: path.to_owned(), source })?;
        let no_key = || KeyError::NoKey(path.to_owned());
        let PrivateKeyDer::Pkcs8(der) = PrivateKeyDer::from_pem_slice(&content).map_err(|_| no_key())? else {
            return Err(no_key());
        };
        // OpenSSL leaves the public key out.
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der()).map_err(|_| no_key())?;
        Ok(Self(pair))
    }

    /// Who signs with it.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(key)
    }

    /// Signs the plugin of this digest.
    #[must_use]
    pub fn sign(&self, digest: &[u8; 32]) -> Signatures {
        let mut signature = [0; 64];
        signature.copy_from_slice(self.0.sign(signed(digest).as_bytes()).as_ref());
        Signatures(vec![(self.public(), signature)])
    }
}

fn signed(digest: &[u8; 32]) -> String {
    format!("tidegate-plugin-v1 {}", shown(digest))
}

/// Signatures of one plugin, not yet checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signatures(Vec<(PublicKey, [u8; 64])>);

impl Signatures {
    /// Those beside a file; none where there is no such file.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn beside(file: &Path) -> Result<Self, String> {
        let path = signatures_beside(file);
        match regular_file::read_text(&path) {
            Ok(text) => {
                Self::parse(&text).map_err(|line| format!("{} is no signature file: line {line}", path.display()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    /// Those of a manifest. What cannot be read signs nothing.
    pub(super) fn from_annotations(annotations: &BTreeMap<String, String>) -> Self {
        annotations.get(ANNOTATION).and_then(|text| Self::parse(text).ok()).unwrap_or_default()
    }

    pub(super) fn annotations(&self) -> BTreeMap<String, String> {
        if self.0.is_empty() { BTreeMap::new() } else { [(ANNOTATION.to_owned(), self.to_string())].into() }
    }

    /// Writes them beside a file, together with those of other keys that are there.
    ///
    /// # Errors
    /// Where the file cannot be read or written.
    pub fn write_beside(&self, file: &Path) -> Result<PathBuf, String> {
        let mut all = Self::beside(file)?;
        all.0.retain(|(key, _)| self.0.iter().all(|(other, _)| other != key));
        all.0.extend(self.0.iter().copied());
        let path = signatures_beside(file);
        atomic_file::write(&path, format!("{all}\n").as_bytes())
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// The error is the number of the first line that is no signature.
    fn parse(text: &str) -> Result<Self, usize> {
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let (Some(ALGORITHM), Some(key), Some(signature), None) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                return None;
            };
            Some((PublicKey::parse(key)?, BASE64.decode(signature).ok()?.try_into().ok()?))
        };
        let lines = text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty());
        lines.map(|(number, text)| line(text).ok_or(number + 1)).collect::<Result<_, _>>().map(Self)
    }

    /// Whether one of the keys has signed the plugin of this digest; without keys nothing is asked.
    ///
    /// # Errors
    /// What is missing.
    pub(super) fn check(&self, digest: &[u8; 32], keys: &[PublicKey]) -> Result<(), String> {
        if keys.is_empty() {
            return Ok(());
        }
        let by: Vec<_> = self.0.iter().filter(|(key, _)| keys.contains(key)).collect();
        if by.iter().any(|(key, signature)| holds(key, signature, digest)) {
            return Ok(());
        }
        Err(match (self.0.is_empty(), by.is_empty()) {
            (true, _) => {
                "is not signed, and [consumer.plugin] signed_by wants it to be: `tidegate plugin sign`".to_owned()
            }
            (false, true) => {
                let keys: Vec<_> = self.0.iter().map(|(key, _)| key.to_string()).collect();
                format!("is signed by {}, which is not in [consumer.plugin] signed_by", keys.join(", "))
            }
            (false, false) => "has a signature of something else: it was changed after it was signed".to_owned(),
        })
    }

    /// Whether every signature holds.
    pub(super) fn check_all(&self, digest: &[u8; 32]) -> Result<(), String> {
        match self.0.iter().find(|(key, signature)| !holds(key, signature, digest)) {
            None => Ok(()),
            Some((key, _)) => Err(format!("the signature of {key} beside the file is of something else: sign it anew")),
        }
    }
}

fn holds(key: &PublicKey, signature: &[u8; 64], digest: &[u8; 32]) -> bool {
    UnparsedPublicKey::new(&ED25519, key.0).verify(signed(digest).as_bytes(), signature).is_ok()
}

/// Where the signatures of a file stand.
#[must_use]
pub fn signatures_beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(SIGNATURE_SUFFIX);
    name.into()
}

impl fmt::Display for Signatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (key, signature)) in self.0.iter().enumerate() {
            let start = if number == 0 { "" } else { "\n" };
            write!(f, "{start}{ALGORITHM} {key} {}", BASE64.encode(signature))?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use super::*;

    fn key(seed: u8) -> PrivateKey {
        PrivateKey(Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap())
    }

    #[test]
    fn a_signature_holds_for_its_plugin_and_its_key_alone() {
        let (one, two) = (key(1), key(2));
        let signatures = one.sign(&[7; 32]);
        let check = |digest, keys: &[PublicKey]| signatures.check(digest, keys);
        assert_eq!(check(&[7; 32], &[two.public(), one.public()]), Ok(()));
        assert_eq!(check(&[9; 32], &[]), Ok(()), "nobody asks");
        assert!(check(&[7; 32], &[two.public()]).unwrap_err().contains("which is not in"));
        assert!(check(&[8; 32], &[one.public()]).unwrap_err().contains("changed after it was signed"));
        assert!(Signatures::default().check(&[7; 32], &[one.public()]).unwrap_err().contains("is not signed"));
        // A signature under another's name.
        let forged = Signatures(vec![(two.public(), one.sign(&[7; 32]).0[0].1)]);
        assert!(forged.check(&[7; 32], &[two.public()]).is_err());
        assert!(forged.check_all(&[7; 32]).is_err() && signatures.check_all(&[7; 32]).is_ok());
    }

    #[test]
    fn signatures_come_back_from_their_lines() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p.wasm");
        assert_eq!(Signatures::beside(&file), Ok(Signatures::default()));
        key(1).sign(&[7; 32]).write_beside(&file).unwrap();
        key(2).sign(&[7; 32]).write_beside(&file).unwrap();
        key(1).sign(&[7; 32]).write_beside(&file).unwrap();
        let both = Signatures::beside(&file).unwrap();
        assert_eq!(both.0.len(), 2, "one of each key");
        assert_eq!(Signatures::from_annotations(&both.annotations()), both);
        fs::write(signatures_beside(&file), "ed25519 AAAA\n").unwrap();
        assert!(Signatures::beside(&file).unwrap_err().ends_with("line 1"));
    }

    /// Made by `openssl genpkey -algorithm ed25519`, for this test and nothing else.
    #[test]
    fn an_openssl_key_is_read_and_anything_else_is_refused_without_a_word_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key.pem");
        let der = [&b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20"[..], &[1; 32]].concat();
        let pem =
            |kind: &str, der: &[u8]| format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", BASE64.encode(der));
        fs::write(&file, pem("PRIVATE KEY", &der)).unwrap();
        assert_eq!(PrivateKey::read(&file).unwrap().public(), key(1).public());
        for bad in ["secret".to_owned(), pem("PRIVATE KEY", &der[..40]), pem("EC PRIVATE KEY", &der)] {
            fs::write(&file, &bad).unwrap();
            let error = PrivateKey::read(&file).err().unwrap().to_string();
            assert!(error.contains("no Ed25519 private key") && !error.contains("secret"), "{error}");
        }
    }
}
