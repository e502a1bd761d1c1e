//! Watches the files of the configuration and the plugins'. By looking at them once a second, through whatever links lead there:
//! that sees an editor that renames, a mount of Kubernetes that turns a symbolic link round, and a network file system, and
//! needs no service of the operating system's.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::Weak,
    time::Duration,
};

use super::{Inner, locked};
use crate::{
    config,
    file_stamp::{Stamp, stamp},
    plugin::distribution::signatures_beside,
};

/// How often.
const LOOK: Duration = Duration::from_secs(1);
/// A file that has changed must not change again for so long, before it is read.
const SETTLED: Duration = Duration::from_millis(300);
/// So often at most.
const LOOKS: usize = 100;

/// What was seen last of each file.
#[derive(Default)]
struct Seen(HashMap<PathBuf, Stamp>);

impl Seen {
    /// Whether the file is another than last time. Not so at the first look, and not while it is away: who replaces a
    /// file by two steps has not finished.
    fn changed(&mut self, path: &Path, now: Stamp) -> bool {
        match self.0.get(path) {
            None => {
                self.0.insert(path.to_owned(), now);
                false
            }
            Some(before) if now.is_none() || *before == now => false,
            Some(_) => {
                self.0.insert(path.to_owned(), now);
                true
            }
        }
    }
}

/// Until the application is gone.
pub(super) async fn watch(app: Weak<Inner>) {
    let mut seen = Seen::default();
    loop {
        let Some(inner) = app.upgrade() else { return };
        // A mount turns all of its files round at once: the configuration is read when none of them moves any more.
        let configuration = locked(&inner.files).clone();
        let mut read_again = false;
        for file in &configuration {
            if seen.changed(file, stamp(file)) {
                tracing::info!(file = %file.display(), "a file of the configuration has changed");
                settle(file, &mut seen).await;
                read_again = true;
            }
        }
        if read_again {
            inner.read_again().await;
        }
        let launches = inner.launches();
        // Once per file, however many consumers have it.
        let mut changed = BTreeSet::new();
        for file in launches.iter().flat_map(|launch| files(&launch.settings())).collect::<BTreeSet<_>>() {
            if seen.changed(&file, stamp(&file)) {
                settle(&file, &mut seen).await;
                changed.insert(file);
            }
        }
        for launch in launches {
            let settings = launch.settings();
            for file in files(&settings).intersection(&changed) {
                tracing::info!(consumer = %settings.name, file = %file.display(), "a plugin's file has changed");
                launch.orders.look();
            }
        }
        drop(inner);
        tokio::time::sleep(LOOK).await;
    }
}

/// The files of a consumer's plugins, and their signatures, which may come later.
fn files(settings: &config::Consumer) -> BTreeSet<PathBuf> {
    let plugins = [Some(&settings.plugin), settings.shadow.as_ref()].into_iter().flatten();
    let of = |plugin: &config::Plugin| {
        let file = plugin.origin.file().map(Path::to_owned);
        let signatures = file.as_deref().filter(|_| !plugin.signed_by.is_empty()).map(signatures_beside);
        [file, signatures]
    };
    plugins.flat_map(of).flatten().collect()
}

/// Waits until a file is no longer written to, but not for ever: others are watched, too.
async fn settle(path: &Path, seen: &mut Seen) {
    for _ in 0..LOOKS {
        tokio::time::sleep(SETTLED).await;
        if !seen.changed(path, stamp(path)) {
            return;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_signature_that_comes_after_its_plugin_is_waited_for() {
        let text = |signed: &str| {
            format!(
                "[database.main]\nurl = \"postgres://h/d\"\n[kafka.main]\n\"bootstrap.servers\" = \"h:1\"\n[[consumer]]\n\
                 name = \"a\"\ntopics = [\"t\"]\nplugin = {{ path = \"p.wasm\"{signed} }}\n[[consumer.target]]\nname = \
                 \"o\"\ntable = \"o\"\ncolumns = [\"id\", \"n\"]\nkey = [\"id\"]\n"
            )
        };
        let of = |signed: &str| {
            let config = config::parse(&text(signed), Path::new("/x/t.toml"), &|_| None).unwrap().config;
            files(&config.consumers[0])
        };
        assert_eq!(of(""), BTreeSet::from(["/x/p.wasm".into()]));
        let signed = of(", signed_by = [\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"]");
        assert_eq!(signed, BTreeSet::from(["/x/p.wasm".into(), "/x/p.wasm.sig".into()]));
    }

    #[test]
    fn whatever_way_a_file_is_replaced_it_is_seen_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("p.wasm"), "one").unwrap();
        let mut seen = Seen::default();
        let mut changed = |path: &Path| seen.changed(path, stamp(path));
        assert!(!changed(&at("p.wasm")) && !changed(&at("p.wasm")));
        // An editor's way: another file takes the name.
        fs::write(at("new"), "two").unwrap();
        fs::rename(at("new"), at("p.wasm")).unwrap();
        assert!(changed(&at("p.wasm")) && !changed(&at("p.wasm")));
        // In place, of the same size.
        fs::write(at("p.wasm"), "six").unwrap();
        assert!(changed(&at("p.wasm")) && !changed(&at("p.wasm")));
        // Away for a moment.
        fs::remove_file(at("p.wasm")).unwrap();
        assert!(!changed(&at("p.wasm")));
        fs::write(at("p.wasm"), "back").unwrap();
        assert!(changed(&at("p.wasm")));

        // Kubernetes: p -> ..data/p, ..data -> ..1, and ..data is turned to ..2.
        for version in ["..1", "..2"] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("mounted.wasm"), version).unwrap();
        }
        symlink("..1", at("..data")).unwrap();
        symlink("..data/mounted.wasm", at("mounted.wasm")).unwrap();
        assert!(!changed(&at("mounted.wasm")));
        symlink("..2", at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        assert!(changed(&at("mounted.wasm")) && !changed(&at("mounted.wasm")));
    }
}
