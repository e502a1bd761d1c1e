//! What was fetched from registries: contents and manifests under their digests, and a note per reference of what it meant
//! last. A note's age is how long ago it was used.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use sha2::{Digest, Sha256};

use super::{Reference, Resolved, digest_of, shown};
use crate::{atomic_file, plugin::wasm::private};

/// A note's file is called so.
pub(super) const NOTE: &str = "reference";
/// A manifest's.
pub(super) const MANIFEST: &str = "manifest";
/// A plugin's.
pub(super) const CONTENT: &str = "wasm";

/// A private folder: what is in it was checked when it came in, and is checked again when it is used.
pub(super) struct Cache {
    pub(super) folder: PathBuf,
}

/// A plugin that is there and whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// What its manifest says.
    pub(super) resolved: Resolved,
    /// The plugin.
    pub(super) content: Vec<u8>,
}

/// What a reference meant last.
pub(super) struct Note {
    pub(super) manifest: [u8; 32],
    /// As it is written in configurations; an older program wrote none.
    pub(super) reference: Option<Reference>,
}

impl Note {
    pub(super) fn read(path: &Path) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let mut lines = text.lines();
        let manifest = digest_of(lines.next()?)?;
        let reference = lines.next().and_then(|line| Reference::parse(line).ok().flatten());
        Some(Self { manifest, reference })
    }
}

impl Cache {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        private::make_private(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// The plugin of this digest, where it is there and whole.
    pub(super) fn content(&self, digest: &[u8; 32]) -> Option<Vec<u8>> {
        let content = fs::read(self.file(digest, CONTENT)).ok()?;
        (Sha256::digest(&content)[..] == *digest).then_some(content)
    }

    /// Keeps a plugin.
    pub(super) fn keep(&self, digest: &[u8; 32], content: &[u8]) -> io::Result<()> {
        atomic_file::write_private(&self.file(digest, CONTENT), &[content])
    }

    /// The plugin that the manifest of this digest names, where both are there and whole.
    pub(super) fn by_manifest(&self, digest: &[u8; 32]) -> Option<Kept> {
        let resolved = self.manifest(digest)?;
        let content = self.content(&resolved.layer)?;
        Some(Kept { resolved, content })
    }

    /// What the manifest of this digest says, where it is there and whole.
    pub(super) fn manifest(&self, digest: &[u8; 32]) -> Option<Resolved> {
        let resolved = Resolved::of(&fs::read(self.file(digest, MANIFEST)).ok()?).ok()?;
        (resolved.manifest == *digest).then_some(resolved)
    }

    /// What a reference meant last.
    pub(super) fn last(&self, reference: &Reference) -> Option<Kept> {
        self.by_manifest(&Note::read(&self.note(reference))?.manifest)
    }

    /// Writes down what a reference means now.
    pub(super) fn remember(&self, reference: &Reference, manifest: &[u8], resolved: &Resolved) -> io::Result<()> {
        atomic_file::write_private(&self.file(&resolved.manifest, MANIFEST), &[manifest])?;
        self.write_note(reference, resolved)
    }

    /// What is used is what stays. A folder that cannot be written to holds up nobody.
    pub(super) fn used(&self, reference: &Reference, resolved: &Resolved) {
        let note = self.note(reference);
        let known =
            Note::read(&note).is_some_and(|note| note.manifest == resolved.manifest && note.reference.is_some());
        let marked = if known {
            fs::OpenOptions::new().append(true).open(&note).and_then(|file| file.set_modified(SystemTime::now()))
        } else {
            self.write_note(reference, resolved)
        };
        if let Err(error) = marked {
            tracing::warn!(plugin = %reference, %error, "that a fetched plugin is in use could not be written down");
        }
    }

    fn write_note(&self, reference: &Reference, resolved: &Resolved) -> io::Result<()> {
        let note = format!("{}\n{reference}\n", shown(&resolved.manifest));
        atomic_file::write_private(&self.note(reference), &[note.as_bytes()])
    }

    pub(super) fn file(&self, digest: &[u8; 32], kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", hex::encode(digest)))
    }

    /// A reference has characters that a file's name has not.
    pub(super) fn note(&self, reference: &Reference) -> PathBuf {
        self.file(&Sha256::digest(reference.to_string()).into(), NOTE)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use super::{
        super::manifest::made::{layer, manifest},
        *,
    };

    #[test]
    fn what_was_fetched_is_known_again_while_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(&folder.path().join("oci")).unwrap();
        let reference = Reference::parse("oci://h/n:1").unwrap().unwrap();
        let manifest = manifest(&layer(b"plugin"));
        let resolved = Resolved::of(&manifest).unwrap();
        let kept = Some(Kept { resolved: resolved.clone(), content: b"plugin".to_vec() });
        assert_eq!(resolved.annotations["a"], "b");
        assert_eq!(cache.last(&reference), None);
        cache.remember(&reference, &manifest, &resolved).unwrap();
        assert_eq!(cache.last(&reference), None, "the plugin itself is not there");
        cache.keep(&resolved.layer, b"plugin").unwrap();
        assert_eq!(cache.last(&reference), kept);
        assert_eq!(cache.by_manifest(&resolved.manifest), kept);
        // As an older program wrote it.
        fs::write(cache.note(&reference), shown(&resolved.manifest)).unwrap();
        assert_eq!(cache.last(&reference), kept);
        cache.used(&reference, &resolved);
        assert_eq!(Note::read(&cache.note(&reference)).unwrap().reference, Some(reference.clone()));
        fs::write(cache.file(&resolved.layer, CONTENT), b"tampered").unwrap();
        assert_eq!(cache.last(&reference), None);
        cache.keep(&resolved.layer, b"plugin").unwrap();
        fs::write(cache.file(&resolved.manifest, MANIFEST), b"{}").unwrap();
        assert_eq!(cache.last(&reference), None);
    }
}
