//! Making room in the cache, after something new came in. What a configuration names stays, what was used of late stays, and
//! so do the newest versions of each repository, for whoever goes back to one.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::{
    Reference,
    cache::{CONTENT, Cache, MANIFEST, NOTE, Note},
};

/// So long after its last use a plugin stays.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);
/// So many versions of a repository stay, however old: those that were used last.
const VERSIONS: usize = 3;
/// Younger files may be on their way in: the note that names them is written last.
const YOUNG: Duration = Duration::from_secs(3600);

/// A note, as far as staying goes.
struct Entry {
    path: PathBuf,
    manifest: [u8; 32],
    repository: Option<String>,
    used: SystemTime,
}

impl Cache {
    /// Removes what nobody needs. Several processes may do this at once: what is gone already is gone, and is fetched again.
    ///
    /// # Errors
    /// Where the folder cannot be read.
    pub(super) fn prune(&self, named: &[Reference]) -> io::Result<()> {
        let now = SystemTime::now();
        let named: HashSet<PathBuf> = named.iter().map(|reference| self.note(reference)).collect();
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let Ok(written) = fs::metadata(&path).and_then(|about| about.modified()) else { continue };
            files.push((path, written));
        }
        let is = |path: &Path, kind: &str| path.extension() == Some(OsStr::new(kind));
        let entries = files.iter().filter(|(path, _)| is(path, NOTE)).filter_map(|(path, used)| {
            let Note { manifest, reference } = Note::read(path)?;
            let repository = reference.map(|reference| reference.repository());
            Some(Entry { path: path.clone(), manifest, repository, used: *used })
        });
        let staying = staying(entries.collect(), &named, now);
        let mut needed: BTreeSet<PathBuf> = staying.iter().map(|entry| entry.path.clone()).collect();
        for entry in &staying {
            needed.insert(self.file(&entry.manifest, MANIFEST));
            needed.extend(self.manifest(&entry.manifest).map(|resolved| self.file(&resolved.layer, CONTENT)));
        }
        let ours = [NOTE, MANIFEST, CONTENT, "tmp"];
        for (path, written) in files {
            let is_young = now.duration_since(written).unwrap_or_default() < YOUNG;
            if !is_young && !needed.contains(&path) && ours.iter().any(|kind| is(&path, kind)) {
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }
}

/// The notes that stay.
fn staying(mut entries: Vec<Entry>, named: &HashSet<PathBuf>, now: SystemTime) -> Vec<Entry> {
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.used));
    let mut versions: HashMap<String, HashSet<[u8; 32]>> = HashMap::new();
    entries.retain(|entry| {
        let of_late = now.duration_since(entry.used).unwrap_or_default() < UNUSED;
        // By an older program that wrote no reference into it: it has its time.
        let is_new = entry.repository.as_ref().is_some_and(|repository| {
            let known = versions.entry(repository.clone()).or_default();
            known.len() < VERSIONS && known.insert(entry.manifest) || known.contains(&entry.manifest)
        });
        of_late || is_new || named.contains(&entry.path)
    });
    entries
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use super::{
        super::{
            Origin, Resolved,
            manifest::made::{layer, manifest},
            pins::Pins,
        },
        *,
    };
    use crate::config::{self, Config};

    const DAY: u64 = 24 * 3600;

    fn reference(text: &str) -> Reference {
        Reference::parse(text).unwrap().unwrap()
    }

    fn aged(path: &Path, days: u64) {
        let file = fs::OpenOptions::new().append(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(days * DAY)).unwrap();
    }

    /// Something that was fetched and last used so long ago.
    fn fetched(cache: &Cache, text: &str, days: u64) -> Resolved {
        let manifest = manifest(&layer(text.as_bytes()));
        let resolved = Resolved::of(&manifest).unwrap();
        cache.keep(&resolved.layer, text.as_bytes()).unwrap();
        cache.remember(&reference(text), &manifest, &resolved).unwrap();
        let files = [cache.file(&resolved.layer, CONTENT), cache.file(&resolved.manifest, MANIFEST)];
        files.iter().chain([&cache.note(&reference(text))]).for_each(|file| aged(file, days));
        resolved
    }

    /// A configuration in this file whose consumer has this plugin and shadow.
    fn config(file: &Path, plugin: &str, shadow: &str) -> Config {
        let text = format!(
            "[database.main]\nurl = \"sqlite://x.db\"\n[kafka.main]\nbootstrap.servers = \"a:1\"\n[[consumer]]\nname = \"c\"\n\
             topics = [\"t\"]\nplugin = {{ path = \"{plugin}\" }}\nshadow = {{ path = \"{shadow}\" }}\n[[consumer.target]]\n\
             name = \"t\"\ntable = \"t\"\ncolumns = [\"id\"]\nkey = [\"id\"]\n"
        );
        fs::write(file, &text).unwrap();
        Config { file: Some(file.to_owned()), ..config::parse(&text, file, &|_| None).unwrap().config }
    }

    #[test]
    fn what_a_configuration_names_stays_and_what_nobody_needs_goes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(&folder.path().join("oci")).unwrap();
        let texts: Vec<String> = (1..=9).map(|n| format!("oci://h/n:{n}")).collect();
        // The first three are the newest; the rest has not been used for more and more years.
        let all: Vec<Resolved> = (1..).zip(&texts).map(|(n, text)| fetched(&cache, text, 400 * n)).collect();
        let other = fetched(&cache, "oci://h/other:1", 4000);
        let of_late = fetched(&cache, "oci://h/n:10", 29);
        let there = |one: &Resolved| cache.by_manifest(&one.manifest).is_some();
        let left = || (1..).zip(&all).filter(|(_, one)| there(one)).map(|(n, _)| n).collect::<Vec<u32>>();

        // Two configurations share the folder; one is no more.
        let (file, gone) = (folder.path().join("tidegate.toml"), folder.path().join("gone.toml"));
        let pins = Pins::of(&config(&file, &texts[7], &texts[8])).unwrap();
        pins.add(&reference(&texts[7]), &cache).unwrap();
        Pins::of(&config(&gone, &texts[5], &texts[6])).unwrap().add(&reference(&texts[5]), &cache).unwrap();
        cache.prune(&Pins::references(&cache).unwrap()).unwrap();
        assert_eq!(left(), [1, 2, 6, 7, 8, 9]);
        assert!(there(&other) && there(&of_late));
        fs::remove_file(&gone).unwrap();
        cache.prune(&Pins::references(&cache).unwrap()).unwrap();
        assert_eq!(left(), [1, 2, 8, 9], "the newest three and what is named");

        // What is loaded later is named as well, and what comes in this minute is nobody's to clear away.
        fetched(&cache, &texts[4], 2000);
        pins.add(&reference(&texts[4]), &cache).unwrap();
        let halfway = cache.file(&[7; 32], CONTENT);
        fs::write(&halfway, "a plugin whose note is still to come").unwrap();
        let abandoned = cache.folder.join(".abandoned.tmp");
        fs::write(&abandoned, "").unwrap();
        aged(&abandoned, 1);
        cache.prune(&Pins::references(&cache).unwrap()).unwrap();
        assert_eq!(left(), [1, 2, 5, 8, 9]);
        assert!(halfway.exists() && !abandoned.exists());
        aged(&halfway, 1);
        cache.prune(&[]).unwrap();
        assert_eq!(left(), [1, 2], "nobody names anything");
        assert!(!halfway.exists() && there(&of_late) && there(&other));
    }

    #[test]
    fn a_plugin_that_two_references_name_stays_while_one_of_them_does() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(&folder.path().join("oci")).unwrap();
        let manifest = manifest(&layer(b"plugin"));
        let resolved = Resolved::of(&manifest).unwrap();
        cache.keep(&resolved.layer, b"plugin").unwrap();
        let pinned = reference("oci://h/n:1").pinned(resolved.manifest);
        for reference in [&pinned, &reference("oci://h/n:1")] {
            cache.remember(reference, &manifest, &resolved).unwrap();
            aged(&cache.note(reference), 100);
        }
        for n in 2..9 {
            fetched(&cache, &format!("oci://h/n:{n}"), n);
        }
        cache.prune(std::slice::from_ref(&pinned)).unwrap();
        assert!(cache.last(&pinned).is_some() && cache.last(&reference("oci://h/n:1")).is_none());
        let file = std::path::PathBuf::new();
        assert!(matches!(Origin::parse(&pinned.to_string(), |_| file), Ok(Origin::Registry(same)) if same == pinned));
    }
}
