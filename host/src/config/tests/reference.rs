//! The reference configuration is documentation that runs.

use super::*;

const REFERENCE: &str = include_str!("../../../../config/reference.toml");

/// The reference with what it only shows: files, which only a real system has, and secrets.
fn with_the_files() -> String {
    let mut text = REFERENCE.to_owned();
    for (from, to) in [
        ("url = \"sqlite://archive.db\"\n", ""),
        ("# url_file = \"/run/secrets/archive\"", "url_file = \"secret\""),
        ("# tls = {", "tls = {"),
        ("# registry_ca_file = \"/etc/ssl/registry-ca.pem\"", "registry_ca_file = \"registry-ca.pem\""),
        ("# token_file = \"/run/secrets/tidegate-token\"", "token_file = \"token\""),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    text
}

fn reference() -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret"), "postgres://tidegate@localhost/archive\n").unwrap();
    std::fs::write(folder.path().join("token"), "0123456789abcdef\n").unwrap();
    super::super::parse(&with_the_files(), &folder.path().join("reference.toml"), &|_| None).unwrap()
}

#[test]
fn it_loads_as_it_stands() {
    let loaded = super::super::parse(REFERENCE, std::path::Path::new("reference.toml"), &|_| None).unwrap();
    assert_eq!(loaded.warnings, []);
}

#[test]
fn every_key_of_every_section_is_in_it() {
    let text = with_the_files();
    for section in schema::ALL {
        // Of `token` and `token_file` only one can be given.
        for key in section.keys.iter().filter(|key| **key != "token") {
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
    assert_eq!(loaded.config.databases["main"].timeouts, super::super::Timeouts::default());
    assert_eq!(loaded.config.health, good().health);
    assert_eq!(loaded.config.http.listen, good().http.listen);
    assert_eq!(loaded.config.http.token.as_ref().map(|token| token.expose()), Some("0123456789abcdef"));
    assert!(loaded.config.http.tls.is_some_and(|tls| tls.key_file.ends_with("tls.key")));
    assert!(good().http.token.is_none() && good().http.tls.is_none());
    assert_eq!((loaded.config.log.json, &loaded.config.log.filter), (good().log.json, &good().log.filter));
    assert_eq!(loaded.config.databases["archive"].url.expose(), "postgres://tidegate@localhost/archive");
    let plugins = loaded.config.plugins;
    assert!(plugins.cache.is_some_and(|folder| folder.ends_with("plugin-cache")));
    assert!(plugins.registry_ca_file.is_some_and(|file| file.ends_with("registry-ca.pem")));
    assert_eq!(good().plugins, super::super::Plugins::default());
    assert_eq!(shown.plugin.settings, serde_json::json!({"currency": "KRW"}));
}
