//! `oci://HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]`.

use std::fmt;

use super::{digest_of, shown};

/// How a plugin in a registry begins.
pub const SCHEME: &str = "oci://";

/// A plugin in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    host: String,
    name: String,
    tag: Option<String>,
    digest: Option<[u8; 32]>,
}

impl Reference {
    /// Reads a path; `None` where it is a file's.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let Some(rest) = text.strip_prefix(SCHEME) else { return Ok(None) };
        let form = "is written oci://HOST/NAME@sha256:DIGEST or oci://HOST/NAME:TAG";
        let (rest, digest) = match rest.split_once('@') {
            None => (rest, None),
            Some((rest, digest)) => {
                (rest, Some(digest_of(digest).ok_or_else(|| format!("{form}, the digest with 64 hexadecimal digits"))?))
            }
        };
        let (host, path) = rest.split_once('/').ok_or_else(|| form.to_owned())?;
        let (name, tag) = match path.rsplit_once(':') {
            Some((name, tag)) => (name, Some(tag)),
            None => (path, None),
        };
        let word = |text: &str, more: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        let name_fine =
            name.split('/').all(|part| word(part, "._-") && !part.contains(|c: char| c.is_ascii_uppercase()));
        let tag_fine = tag.is_none_or(|tag| word(tag, "._-") && tag.len() <= 128);
        if !word(host, ".:-[]") || !name_fine || !tag_fine {
            return Err(form.to_owned());
        }
        if tag.is_none() && digest.is_none() {
            return Err(format!("names no version: {form}"));
        }
        Ok(Some(Self { host: host.to_owned(), name: name.to_owned(), tag: tag.map(str::to_owned), digest }))
    }

    /// The registry, with its port.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Where all its versions are.
    pub(super) fn repository(&self) -> String {
        format!("{}/{}", self.host, self.name)
    }

    /// The digest of the manifest that it is pinned to.
    #[must_use]
    pub fn digest(&self) -> Option<&[u8; 32]> {
        self.digest.as_ref()
    }

    /// The same place, pinned.
    #[must_use]
    pub fn pinned(&self, digest: [u8; 32]) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }

    /// As the client library has it.
    pub(super) fn for_client(&self) -> oci_client::Reference {
        let (host, name) = (self.host.clone(), self.name.clone());
        match (&self.digest, &self.tag) {
            (Some(digest), _) => oci_client::Reference::with_digest(host, name, shown(digest)),
            (None, tag) => oci_client::Reference::with_tag(host, name, tag.clone().unwrap_or_default()),
        }
    }

    /// Whether the registry is on this machine: only such a one is spoken to without TLS, and never by a proxy.
    pub(super) fn is_local(&self) -> bool {
        let host = match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => self.host.as_str(),
        };
        matches!(host, "localhost" | "127.0.0.1" | "[::1]")
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.host, self.name)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{}", shown(digest)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_as_they_are_written() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        for text in [
            "oci://registry.example.com/team/settlement:1.4.0".to_owned(),
            "oci://localhost:5000/settlement:latest".to_owned(),
            format!("oci://ghcr.io/a/b@{digest}"),
            format!("oci://ghcr.io/a/b:v1@{digest}"),
        ] {
            assert_eq!(Reference::parse(&text).unwrap().unwrap().to_string(), text);
        }
        assert_eq!(Reference::parse("plugins/settlement.wasm"), Ok(None));
        for bad in [
            "oci://",
            "oci://host",
            "oci://host/name",
            "oci://host/Name:1",
            "oci://host/../name:1",
            "oci://host/name:",
            "oci://user@host/name:1",
            "oci://host/name@sha256:12",
            "oci://host/name:1?x",
        ] {
            let parsed = Reference::parse(bad);
            assert!(parsed.is_err() || bad.contains(".."), "{bad}: {parsed:?}");
        }
    }

    #[test]
    fn only_this_machine_is_spoken_to_in_plain_text() {
        let local = |text: &str| Reference::parse(text).unwrap().unwrap().is_local();
        assert!(local("oci://localhost:5000/a:1") && local("oci://127.0.0.1:1/a:1") && local("oci://[::1]:1/a:1"));
        assert!(!local("oci://localhost.example.com/a:1") && !local("oci://127.0.0.1.example.com:80/a:1"));
    }
}
