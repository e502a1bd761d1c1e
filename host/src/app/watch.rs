//! Watches the files of the configuration and the plugins'. By looking at them once a second, through whatever links lead there:
//! that sees an editor that renames, a mount of Kubernetes that turns a symbolic link round, and a network file system, and
//! needs no service of the operating system's.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Weak,
    time::Duration,
};

use super::Inner;
use crate::{
    config,
    file_stamp::{Seen, stamp},
    plugin::distribution::signatures_beside,
};

/// How often.
const LOOK: Duration = Duration::from_secs(1);
/// A file that has changed must not change again for so long, before it is read.
const SETTLED: Duration = Duration::from_millis(300);
/// So often at most.
const LOOKS: usize = 100;

/// Until the application is gone.
pub(super) async fn watch(app: Weak<Inner>) {
    loop {
        let Some(inner) = app.upgrade() else { return };
        // A mount turns all of its files round at once: the configuration is read when none of them moves any more. First of
        // all, since it may say which plugin files are the right ones by now.
        let mut settled = BTreeSet::new();
        let mut read_again = false;
        for (seen, what) in [
            (&inner.files, "a file of the configuration has changed"),
            (&inner.refused, "a plugin's file has changed which a refused configuration names"),
        ] {
            for file in changed(seen, &mut settled).await {
                tracing::info!(file = %file.display(), "{what}");
                read_again = true;
            }
        }
        if read_again {
            inner.read_again().await;
        }
        for launch in inner.launches() {
            for seen in [&launch.ruling, &launch.shading] {
                for file in changed(seen, &mut settled).await {
                    let consumer = &launch.settings().name;
                    tracing::info!(%consumer, file = %file.display(), "a plugin's file has changed");
                    launch.orders.look();
                }
            }
        }
        drop(inner);
        tokio::time::sleep(LOOK).await;
    }
}

/// Those that have changed, and are no longer written to. Waited for once per file, however many consumers have it.
async fn changed(seen: &Seen, settled: &mut BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let changed = seen.changed();
    for file in &changed {
        if settled.insert(file.clone()) {
            settle(file).await;
        }
    }
    changed
}

/// A plugin's file, and its signatures', which may come later.
pub(super) fn files(plugin: &config::Plugin) -> impl Iterator<Item = PathBuf> {
    let file = plugin.origin.file().map(Path::to_owned);
    let signatures = file.as_deref().filter(|_| !plugin.signed_by.is_empty()).map(signatures_beside);
    file.into_iter().chain(signatures)
}

/// Those of all plugins and shadows.
pub(super) fn files_of_all(config: &config::Config) -> impl Iterator<Item = PathBuf> {
    config.plugins_and_shadows().flat_map(files)
}

/// Waits until a file is no longer written to, but not for ever: others are watched, too.
async fn settle(path: &Path) {
    let mut before = stamp(path);
    for _ in 0..LOOKS {
        tokio::time::sleep(SETTLED).await;
        let now = stamp(path);
        if now == before {
            return;
        }
        before = now;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
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
            files_of_all(&config).collect::<Vec<_>>()
        };
        assert_eq!(of(""), [Path::new("/x/p.wasm")]);
        let signed = of(", signed_by = [\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"]");
        assert_eq!(signed, [Path::new("/x/p.wasm"), Path::new("/x/p.wasm.sig")]);
    }
}
