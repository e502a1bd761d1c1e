//! `include`: several files read as one.

use std::path::PathBuf;

use super::document::{Entry, Node, Reading, Table, Value};

impl Reading<'_> {
    /// The paths that a file includes, each at most once over the whole reading.
    pub(super) fn included(&self, table: &mut Table) -> Vec<PathBuf> {
        let Some(entry) = table.remove("include") else { return vec![] };
        let Value::Array(nodes) = &entry.node.value else {
            self.error(
                "bad-type",
                &entry.node.place,
                "include",
                "expected a list of file names",
                Some("include = [\"consumers.toml\"]"),
            );
            return vec![];
        };
        let mut paths = vec![];
        for node in nodes {
            match &node.value {
                Value::Text(text) => {
                    let path = self.resolve(&node.place, &text.text);
                    self.looked_for(&path);
                    if self.has_read(&path) || paths.contains(&path) {
                        let message = format!("\"{}\" is included already", text.text);
                        self.error(
                            "include-twice",
                            &node.place,
                            "include",
                            &message,
                            Some("include each file once; files cannot include each other in a circle"),
                        );
                    } else if !path.is_file() {
                        let message = format!("there is no file {}", path.display());
                        self.error(
                            "include-missing",
                            &node.place,
                            "include",
                            &message,
                            Some("paths start at the folder of the file that includes"),
                        );
                    } else {
                        paths.push(path);
                    }
                }
                Value::Broken => {}
                _ => self.error("bad-type", &node.place, "include", "expected a file name in quotes", None),
            }
        }
        paths
    }

    /// Adds an included file's tables to those that are there. Named tables and consumers add up; anything else may
    /// stand in one file only.
    pub(super) fn merge(&self, into: &mut Table, from: Table) {
        for (name, entry) in from {
            match (into.get_mut(&name).map(|there| &mut there.node.value), entry.node.value) {
                (None, value) => {
                    into.insert(name, Entry { key: entry.key, node: Node { place: entry.node.place, value } });
                }
                (Some(Value::Array(there)), Value::Array(mut more)) => there.append(&mut more),
                (Some(Value::Table(there)), Value::Table(more)) if name == "database" || name == "kafka" => {
                    for (key, inner) in more {
                        if let Some(first) = there.get(&key) {
                            let message =
                                format!("[{name}.{key}] is defined twice; first at {}", self.show(&first.key));
                            self.error(
                                "defined-twice",
                                &inner.key,
                                &format!("{name}.{key}"),
                                &message,
                                Some("rename one of them"),
                            );
                        } else {
                            there.insert(key, inner);
                        }
                    }
                }
                _ => {
                    let message = format!("[{name}] stands in two files");
                    self.error("defined-twice", &entry.key, &name, &message, Some("keep it in one of them"));
                }
            }
        }
    }
}
