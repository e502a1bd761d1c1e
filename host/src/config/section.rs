//! Reads the values of one table, by the keys of its [`schema::Section`]. Every read notes what is wrong and goes on.

use std::time::Duration;

use super::{
    document::{Node, Place, Reading, Table, Text, Value},
    quantity, schema, secret,
    suggest::nearest,
};

/// A text and where it stands. Not secret: it may be shown.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    /// The text.
    pub(super) value: String,
    /// Where it stands.
    pub(super) place: Place,
}

impl Placed {
    /// The text for a message, in quotes.
    pub(super) fn shown(&self) -> String {
        format!("\"{}\"", self.value.escape_debug())
    }
}

/// One table of the configuration.
pub(super) struct Section<'a> {
    /// The reading that it belongs to.
    pub(super) reading: &'a Reading<'a>,
    /// Where mistakes of the whole table are shown.
    pub(super) place: Place,
    /// Its path, such as `consumer[settlement].ledger`.
    pub(super) path: String,
    schema: &'static schema::Section,
    table: &'a Table,
}

impl<'a> Section<'a> {
    /// Opens a table and reports every key that the schema does not have.
    pub(super) fn open(
        reading: &'a Reading<'a>,
        schema: &'static schema::Section,
        table: &'a Table,
        place: &Place,
        path: impl Into<String>,
    ) -> Self {
        let section = Self { reading, place: place.clone(), path: path.into(), schema, table };
        for (key, entry) in table {
            if !schema.keys.contains(&key.as_str()) {
                if schema.bears_secrets() || secret::unknown_key_may_be_secret(key) || !is_harmless(&entry.node) {
                    reading.mask(&entry.node);
                }
                let help = match nearest(key, schema.keys.iter().copied()) {
                    Some(known) => format!("did you mean `{known}`?"),
                    None => format!("{} knows: {}", schema.name, schema.keys.join(", ")),
                };
                reading.error(
                    "unknown-key",
                    &entry.key,
                    &section.at(key),
                    &format!("unknown key `{key}`"),
                    Some(&help),
                );
            }
        }
        section
    }

    /// The path of one of its keys.
    pub(super) fn at(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Notes an error at a place under one of its keys.
    pub(super) fn error(
        &self,
        kind: &'static str,
        place: &Place,
        key: &str,
        message: impl AsRef<str>,
        help: impl AsRef<str>,
    ) {
        self.reading.error(kind, place, &self.at(key), message.as_ref(), Some(help.as_ref()));
    }

    /// A key's value; `None` where it is absent or was reported as broken.
    pub(super) fn node(&self, key: &'static str) -> Option<&'a Node> {
        debug_assert!(self.schema.keys.contains(&key), "{key} is missing in the schema of {}", self.schema.name);
        self.table.get(key).map(|entry| &entry.node).filter(|node| !matches!(node.value, Value::Broken))
    }

    /// Whether the key stands there, readable or not.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Where a key stands; the section's own place where it does not.
    pub(super) fn place_of(&self, key: &str) -> Place {
        self.table.get(key).map_or_else(|| self.place.clone(), |entry| entry.node.place.clone())
    }

    /// Reports that a key which is needed is not there.
    pub(super) fn missing(&self, key: &str, help: &str) {
        if !self.has(key) {
            self.error("missing-key", &self.place, key, format!("{} needs `{key}`", self.schema.name), help);
        }
    }

    /// Text.
    pub(super) fn text(&self, key: &'static str) -> Option<Placed> {
        let node = self.node(key)?;
        match &node.value {
            Value::Text(text) => self.open_text(key, text, &node.place),
            _ => self.bad_type(key, node, "text in quotes"),
        }
    }

    /// A text that is not secret. What a secret variable holds has no place in names, which appear in logs, metrics
    /// and rows.
    pub(super) fn open_text(&self, key: &str, text: &Text, place: &Place) -> Option<Placed> {
        if text.secret && !secret::key_is_secret(key) {
            let help = "use a variable whose name does not say that it is secret";
            self.error("secret-variable", place, key, "a secret variable where everybody can see it", help);
            return None;
        }
        Some(Placed { value: text.text.clone(), place: place.clone() })
    }

    /// Text that must be there and not be empty.
    pub(super) fn required_text(&self, key: &'static str, help: &str) -> Option<Placed> {
        self.missing(key, help);
        let text = self.text(key)?;
        if text.value.is_empty() {
            self.error("empty", &text.place, key, format!("`{key}` is empty"), help);
            return None;
        }
        Some(text)
    }

    /// A whole number within a range. A number in quotes is taken where a variable gave it.
    pub(super) fn number(&self, key: &'static str, default: usize, range: std::ops::RangeInclusive<usize>) -> usize {
        let Some(node) = self.node(key) else { return default };
        let number = match &node.value {
            Value::Integer(number) => Some(*number),
            Value::Text(text) if text.from_environment => text.text.trim().parse().ok(),
            _ => None,
        };
        let Some(number) = number else {
            return self.bad_type(key, node, "a whole number").unwrap_or(default);
        };
        match usize::try_from(number).ok().filter(|n| range.contains(n)) {
            Some(n) => n,
            None => {
                let help = format!("it must be from {} to {}; the default is {default}", range.start(), range.end());
                self.error("out-of-range", &node.place, key, format!("`{key}` is {number}"), help);
                default
            }
        }
    }

    /// true or false.
    pub(super) fn boolean(&self, key: &'static str, default: bool) -> bool {
        let Some(node) = self.node(key) else { return default };
        match &node.value {
            Value::Boolean(value) => *value,
            Value::Text(text) if text.from_environment && text.text == "true" => true,
            Value::Text(text) if text.from_environment && text.text == "false" => false,
            _ => self.bad_type(key, node, "true or false").unwrap_or(default),
        }
    }

    /// A duration within a range.
    pub(super) fn duration(
        &self,
        key: &'static str,
        default: Duration,
        range: std::ops::RangeInclusive<Duration>,
    ) -> Duration {
        let show = quantity::show_duration;
        self.quantity(key, default, range, quantity::duration, show, "a duration in quotes, such as \"5ms\" or \"14d\"")
    }

    /// A size in bytes within a range.
    pub(super) fn size(&self, key: &'static str, default: usize, range: std::ops::RangeInclusive<usize>) -> usize {
        self.quantity(key, default, range, quantity::size, show_size, "a size in quotes, such as \"8MiB\"")
    }

    fn quantity<T: PartialOrd + Copy>(
        &self,
        key: &'static str,
        default: T,
        range: std::ops::RangeInclusive<T>,
        parse: impl Fn(&str) -> Result<T, String>,
        show: impl Fn(T) -> String,
        expected: &str,
    ) -> T {
        let Some(node) = self.node(key) else { return default };
        let Value::Text(text) = &node.value else {
            return self.bad_type(key, node, expected).unwrap_or(default);
        };
        match parse(&text.text) {
            Ok(value) if range.contains(&value) => value,
            Ok(value) => {
                let (low, high) = (show(*range.start()), show(*range.end()));
                let help = format!("it must be from {low} to {high}; the default is {}", show(default));
                self.error("out-of-range", &node.place, key, format!("`{key}` is {}", show(value)), help);
                default
            }
            Err(why) => {
                let message = format!("`{key}` = {} {why}", self.shown(key, node));
                self.error("bad-value", &node.place, key, message, format!("the default is \"{}\"", show(default)));
                default
            }
        }
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&self, key: &'static str, default: T, words: &[(&str, T)]) -> T {
        let Some(node) = self.node(key) else { return default };
        let Value::Text(text) = &node.value else {
            return self.bad_type(key, node, "a word in quotes").unwrap_or(default);
        };
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text.text) {
            return *value;
        }
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let hint = nearest(&text.text, known.iter().copied()).map(|word| format!("did you mean \"{word}\"? "));
        let help = format!("{}it is one of \"{}\"", hint.unwrap_or_default(), known.join("\", \""));
        self.error("bad-value", &node.place, key, format!("`{key}` cannot be {}", self.shown(key, node)), help);
        default
    }

    /// A list of texts; absent = empty.
    pub(super) fn texts(&self, key: &'static str) -> Vec<Placed> {
        let Some(node) = self.node(key) else { return vec![] };
        let Value::Array(nodes) = &node.value else {
            self.bad_type::<()>(key, node, "a list of texts, such as [\"a\", \"b\"]");
            return vec![];
        };
        nodes
            .iter()
            .filter_map(|node| match &node.value {
                Value::Text(text) => self.open_text(key, text, &node.place),
                Value::Broken => None,
                _ => self.bad_type(key, node, "text in quotes"),
            })
            .collect()
    }

    /// A table; absent = `None`.
    pub(super) fn table(&self, key: &'static str) -> Option<(&'a Table, &'a Place)> {
        let node = self.node(key)?;
        match &node.value {
            Value::Table(table) => Some((table, &node.place)),
            _ => {
                self.reading.mask(node);
                self.bad_type(key, node, "a table")
            }
        }
    }

    /// A table with its schema; absent = `None`.
    pub(super) fn section(&self, key: &'static str, schema: &'static schema::Section) -> Option<Section<'a>> {
        let (table, place) = self.table(key)?;
        Some(Section::open(self.reading, schema, table, place, self.at(key)))
    }

    /// The tables of `[[key]]`; absent = none.
    pub(super) fn tables(&self, key: &'static str) -> Vec<(&'a Table, &'a Place)> {
        let Some(node) = self.node(key) else { return vec![] };
        let Value::Array(nodes) = &node.value else {
            self.reading.mask(node);
            self.bad_type::<()>(key, node, &format!("tables, each headed [[{}]]", self.at(key)));
            return vec![];
        };
        nodes
            .iter()
            .filter_map(|node| match &node.value {
                Value::Table(table) => Some((table, &node.place)),
                Value::Broken => None,
                _ => self.bad_type(key, node, "a table"),
            })
            .collect()
    }

    /// Reports a value of the wrong type.
    pub(super) fn bad_type<T>(&self, key: &str, node: &Node, expected: &str) -> Option<T> {
        let found = match &node.value {
            Value::Text(_) => "text",
            Value::Integer(_) => "a whole number",
            Value::Float(_) => "a number with a point",
            Value::Boolean(_) => "true or false",
            Value::Datetime(_) => "a date",
            Value::Array(_) => "a list",
            Value::Table(_) => "a table",
            Value::Broken => return None,
        };
        self.error("bad-type", &node.place, key, format!("`{key}` is {found}"), format!("expected {expected}"));
        None
    }

    /// A value for a message; `***` where it is secret.
    pub(super) fn shown(&self, key: &str, node: &Node) -> String {
        match &node.value {
            Value::Text(text) if text.secret || secret::key_is_secret(key) => "***".to_owned(),
            Value::Text(text) => format!("\"{}\"", text.text.escape_debug()),
            Value::Integer(number) => number.to_string(),
            Value::Boolean(value) => value.to_string(),
            _ => "this".to_owned(),
        }
    }
}

/// Whether an unknown key's value may be shown as far as itself can tell. A table may have anything in it.
fn is_harmless(node: &Node) -> bool {
    match &node.value {
        Value::Text(text) => !secret::text_may_be_secret(&text.text),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => true,
        Value::Array(nodes) => nodes.iter().all(is_harmless),
        Value::Table(_) | Value::Broken => false,
    }
}

/// A size as people write it.
fn show_size(bytes: usize) -> String {
    for (unit, factor) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{unit}", bytes / factor);
        }
    }
    format!("{bytes}B")
}
