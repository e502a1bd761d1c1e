//! `config/demo.toml` with its places filled in: written to the demo's folder, then loaded like anybody's file.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
};

use super::error::DemoError;

const TEMPLATE: &str = include_str!("../../../config/demo.toml");
const PREFIX: &str = "${TIDEGATE_DEMO_";

/// What goes into the places, by the name behind `TIDEGATE_DEMO_`.
pub(super) type Places = BTreeMap<&'static str, String>;

/// Fills the places in and writes the file, which only its owner may read: it may hold a password.
pub(super) fn write(file: &Path, places: &Places) -> Result<(), DemoError> {
    let text = filled(TEMPLATE, places)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file).and_then(|mut f| f.write_all(text.as_bytes())).map_err(|source| DemoError::File {
        what: "write",
        path: file.display().to_string(),
        source,
    })
}

/// Every place must be known; what stands in it by default is left out.
fn filled(template: &str, places: &Places) -> Result<String, DemoError> {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find(PREFIX) {
        text.push_str(&rest[..at]);
        let place = &rest[at + PREFIX.len()..];
        let end = place.find('}').ok_or_else(|| DemoError::Config("a place is not closed".into()))?;
        let name = place[..end].split(':').next().unwrap_or_default();
        if name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_') {
            let value = places.get(name).ok_or_else(|| DemoError::Config(format!("nothing to put for {name}")))?;
            text.push_str(&escaped(value));
        } else {
            // The comment that speaks of all places.
            text.push_str(&rest[at..=at + PREFIX.len() + end]);
        }
        rest = &place[end + 1..];
    }
    text.push_str(rest);
    Ok(text)
}

/// For the inside of a TOML basic string, so that nothing in it is taken for a variable once more.
fn escaped(value: &str) -> String {
    let mut text = String::new();
    for c in value.replace("${", "$${").chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            c if c.is_control() => text.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => text.push(c),
        }
    }
    text
}

/// The folder that holds the compiled example plugins.
pub(super) fn plugins(chosen: Option<&Path>) -> Result<PathBuf, DemoError> {
    let folder = match chosen {
        Some(folder) => folder.to_owned(),
        None => beside_the_program().ok_or_else(|| {
            DemoError::Usage(
                "cannot tell where this program lies; say where \
             the plugins are with --plugins DIR"
                    .into(),
            )
        })?,
    };
    for file in ["settlement.wasm", "order_summary.wasm"] {
        if !folder.join(file).is_file() {
            return Err(DemoError::Usage(format!(
                "{} is not there: the demo runs the two example plugins, which are built from source; run `make demo` \
                 in the repository, which builds them first, or name their folder with --plugins DIR",
                folder.join(file).display()
            )));
        }
    }
    folder.canonicalize().map_err(|source| DemoError::File {
        what: "resolve",
        path: folder.display().to_string(),
        source,
    })
}

/// `target/plugins` for `target/debug/tidegate`, else `plugins` beside the program.
fn beside_the_program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?;
    let near = folder.join("plugins");
    let up = folder.parent()?.join("plugins");
    Some(if near.is_dir() || !up.is_dir() { near } else { up })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::demo::service::Service;

    #[test]
    fn places_are_filled_and_quoted() {
        let places = Places::from([("A", r#"x"y\z${Q}"#.to_owned()), ("B", String::new())]);
        let text =
            filled(r#"a = "${TIDEGATE_DEMO_A:default}" b = "${TIDEGATE_DEMO_B:}c" # ${TIDEGATE_DEMO_…}"#, &places);
        assert_eq!(text.unwrap(), r#"a = "x\"y\\z$${Q}" b = "c" # ${TIDEGATE_DEMO_…}"#);
        assert!(filled("${TIDEGATE_DEMO_C}", &places).is_err());
    }

    #[test]
    fn the_file_is_a_configuration_as_it_stands_and_filled_in() {
        let folder = tempfile::tempdir().unwrap();
        let unfilled = folder.path().join("demo.toml");
        std::fs::write(&unfilled, TEMPLATE).unwrap();
        let config = crate::config::load(&unfilled).unwrap();
        assert_eq!(config.consumers.len(), 2);

        let values = [
            ("DATABASE_URL", "postgres://me:p$${x}@db/shop?options[search_path]=demo"),
            ("BOOTSTRAP_SERVERS", "127.0.0.1:1"),
            ("LISTEN", "127.0.0.1:0"),
            ("GROUP_PREFIX", "g."),
            ("TOPIC_PREFIX", "t."),
            ("PLUGINS", "/plug \"ins"),
        ];
        let places = values.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        let filled = folder.path().join("tidegate.toml");
        write(&filled, &places).unwrap();
        let config = crate::config::load(&filled).unwrap();
        assert_eq!(config.databases["main"].url.expose(), values[0].1);
        for (service, consumer) in Service::ALL.into_iter().zip(&config.consumers) {
            assert_eq!(consumer.name.as_str(), service.name());
            assert_eq!(consumer.group, format!("g.{}", service.name()));
            let topics: Vec<_> = service.feeds().iter().map(|f| format!("t.{}", f.topic())).collect();
            assert_eq!(consumer.topics.iter().map(|t| t.name.clone()).collect::<Vec<_>>(), topics);
            assert_eq!(consumer.targets[0].table.name, service.table());
            assert!(consumer.plugin.origin.file().unwrap().starts_with("/plug \"ins"));
        }
        assert!(write(&filled, &places).is_err(), "nothing is overwritten");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&filled).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn missing_plugins_say_what_to_do() {
        let empty = tempfile::tempdir().unwrap();
        let error = plugins(Some(empty.path())).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("make demo") && error.to_string().contains("--plugins"));
    }
}
