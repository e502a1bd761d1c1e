//! The reference configuration is documentation that runs.

use super::*;

const REFERENCE: &str = include_str!("../../../../config/reference.toml");

/// The reference with its other way to say where a database is: a file, which only a real system has.
fn with_the_file() -> String {
    let one = "url = \"sqlite://archive.db\"\n";
    let other = "# url_file = \"/run/secrets/archive\"";
    assert!(REFERENCE.contains(one) && REFERENCE.contains(other));
    REFERENCE.replace(one, "").replace(other, "url_file = \"secret\"")
}

fn reference() -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret"), "postgres://tidegate@localhost/archive\n").unwrap();
    super::super::parse(&with_the_file(), &folder.path().join("reference.toml"), &|_| None).unwrap()
}

#[test]
fn it_loads_as_it_stands() {
    let loaded = super::super::parse(REFERENCE, std::path::Path::new("reference.toml"), &|_| None).unwrap();
    assert_eq!(loaded.warnings, []);
}

#[test]
fn every_key_of_every_section_is_in_it() {
    let text = with_the_file();
    for section in schema::ALL {
        for key in section.keys {
            let told = |line: &str| {
                let line = line.trim_start_matches(['[', ' ']);
                line.starts_with(&format!("{key} ="))
                    || line.starts_with(&format!("{key}."))
                    || line.starts_with(&format!("{key}]"))
                    || line.contains(&format!(".{key}]"))
                    || line.contains(&format!("{{ {key} ="))
                    || line.contains(&format!(", {key} ="))
            };
            assert!(text.lines().any(told), "`{key}` of {} is missing in config/reference.toml", section.name);
        }
    }
}

#[test]
fn it_loads_and_shows_the_defaults() {
    let loaded = reference();
    assert_eq!(loaded.warnings, []);
    let shown = &loaded.config.consumers[0];
    let small = &good().consumers[0];
    // What the small configuration leaves out, the reference must show with its default.
    assert_eq!(shown.batch, small.batch);
    assert_eq!(shown.ledger, super::super::Ledger::default());
    assert_eq!(shown.plugin.limits, small.plugin.limits);
    assert_eq!((shown.payload, shown.tombstones, shown.start), (small.payload, small.tombstones, small.start));
    assert_eq!((shown.queue_bytes, shown.revoke_deadline), (small.queue_bytes, small.revoke_deadline));
    assert_eq!(shown.lanes, parse(&with("lanes = 2", "")).unwrap().config.consumers[0].lanes);
    assert_eq!(loaded.config.http.listen, good().http.listen);
    assert_eq!((loaded.config.log.json, &loaded.config.log.filter), (good().log.json, &good().log.filter));
    assert_eq!(loaded.config.databases["archive"].url.expose(), "postgres://tidegate@localhost/archive");
    assert!(loaded.config.plugin_cache.is_some_and(|folder| folder.ends_with("plugin-cache")));
    assert_eq!(good().plugin_cache, None);
    assert_eq!(shown.plugin.settings, serde_json::json!({"currency": "KRW"}));
}
