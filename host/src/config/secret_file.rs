//! `*_file`: a secret that stands in a file of its own, as container platforms mount them.

use super::section::{Placed, Section};

/// The file's text without the line break at its end; `None` where it was reported as unreadable.
pub(super) fn read(section: &Section<'_>, key: &str, file: &Placed) -> Option<String> {
    let path = section.reading.resolve(&file.place, &file.value);
    section.reading.looked_for(&path);
    let (message, help) = match crate::regular_file::read_text(&path) {
        Ok(text) if text.trim().is_empty() => (format!("{} is empty", path.display()), "put the secret into it"),
        Ok(text) => return Some(text.trim_end_matches(['\n', '\r']).to_owned()),
        Err(error) => (
            format!("cannot read {}: {error}", path.display()),
            "a relative path starts at the folder of the configuration file; tidegate's user must be able to read it",
        ),
    };
    section.error("unreadable-secret", &file.place, key, message, help);
    None
}
