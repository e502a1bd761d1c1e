//! What the documents show works: configurations parse, links lead somewhere. (The README's plugin is a doctest of the
//! guest SDK.)

use std::{fs, path::Path};

use tidegate_tests::services::checkout;

/// The fenced blocks of this language.
fn blocks(markdown: &str, language: &str) -> Vec<String> {
    let (mut blocks, mut open) = (Vec::new(), None);
    for line in markdown.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(tag)) => open = Some((tag == language, String::new())),
            (Some((true, text)), Some(_)) => {
                blocks.push(std::mem::take(text));
                open = None;
            }
            (Some((false, _)), Some(_)) => open = None,
            (Some((_, text)), None) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

#[test]
fn the_readmes_configuration_is_one() {
    let readme = fs::read_to_string(checkout().join("README.md")).unwrap();
    let blocks = blocks(&readme, "toml");
    assert_eq!(blocks.len(), 1);
    let loaded = tidegate::config::parse(&blocks[0], Path::new("README.md"), &|_| None);
    let loaded = loaded.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.config.consumers[0].targets[0].name, "payments");
    assert_eq!(loaded.warnings.len(), 0, "{:?}", loaded.warnings);
}

#[test]
fn links_lead_somewhere() {
    let root = checkout();
    let documents = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/demo.md", "plugins/README.md"];
    let mut broken = Vec::new();
    for document in documents {
        let text = fs::read_to_string(root.join(document)).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            if !root.join(document).parent().unwrap().join(path).exists() {
                broken.push(format!("{document}: {link}"));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}
