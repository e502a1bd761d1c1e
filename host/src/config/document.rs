//! The raw form: a TOML tree in which every key and value knows its place, over all included files.
//!
//! A derived serde form would stop at the first mistake and forget where the rest stands; here the readers walk the
//! whole tree and report everything at once. Variables are put in here, so readers never see `${…}`.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
};

use toml::de::{DeArray, DeTable, DeValue};

use super::{
    diagnostic::{Diagnostic, Excerpt, Severity},
    excerpt::{self, Line},
    interpolate::{self, Fault},
    secret,
};
use crate::{file_stamp::Files, regular_file};

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Index into the files read.
    pub(super) file: usize,
    /// Bytes of the file's text.
    pub(super) range: Range<usize>,
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Where the value stands.
    pub(super) place: Place,
    /// The value.
    pub(super) value: Value,
}

/// A TOML value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A string, variables put in.
    Text(Text),
    /// 64 bits; others were reported.
    Integer(i64),
    /// A float.
    Float(f64),
    /// true, false.
    Boolean(bool),
    /// In TOML's own notation.
    Datetime(String),
    /// `[…]` or `[[…]]`.
    Array(Vec<Node>),
    /// `{…}` or `[…]`.
    Table(Table),
    /// Was reported when it was read; readers pass it over in silence.
    Broken,
}

/// A string after its variables were put in.
#[derive(Clone, Debug)]
pub(super) struct Text {
    /// The text.
    pub(super) text: String,
    /// A variable was put in, so numbers may be read from it.
    pub(super) from_environment: bool,
    /// Must not be shown, whatever the key.
    pub(super) secret: bool,
}

/// Entries by key.
pub(super) type Table = BTreeMap<String, Entry>;

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Where the key stands.
    pub(super) key: Place,
    /// Its value.
    pub(super) node: Node,
}

/// A file that was read.
struct SourceFile {
    path: PathBuf,
    /// Without links.
    real: Option<PathBuf>,
    text: String,
}

/// A mistake before it is rendered.
struct Found {
    severity: Severity,
    kind: &'static str,
    place: Option<Place>,
    /// For files that could not be read.
    file: PathBuf,
    key: String,
    message: String,
    help: Option<String>,
    /// Shows no source text: the line could not be understood, so it may hold anything.
    hidden: bool,
}

/// Everything about one reading: the files, what is secret in them, the mistakes found so far.
pub(super) struct Reading<'e> {
    lookup: &'e dyn Fn(&str) -> Option<String>,
    files: Vec<SourceFile>,
    /// Files that were read, or looked for.
    looked_for: RefCell<Files>,
    /// Paths start at the root, whatever the name of the file that they stand in.
    absolute: bool,
    masks: RefCell<Vec<Place>>,
    found: RefCell<Vec<Found>>,
}

impl<'e> Reading<'e> {
    /// `lookup` answers for environment variables.
    pub(super) fn new(lookup: &'e dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            lookup,
            files: vec![],
            looked_for: RefCell::default(),
            absolute: false,
            masks: RefCell::default(),
            found: RefCell::default(),
        }
    }

    /// For who reads it again, by another name of the same file: paths in it must be the same.
    pub(super) fn make_paths_absolute(&mut self) {
        self.absolute = true;
    }

    /// Reads a file and all that it includes into one table.
    pub(super) fn read(&mut self, path: &Path) -> Table {
        self.looked_for(path);
        match regular_file::read_text(path) {
            Ok(text) => self.read_text(path, text),
            Err(error) => {
                let help = match error.kind() {
                    std::io::ErrorKind::NotFound => {
                        "give the file with --config FILE or TIDEGATE_CONFIG; config/reference.toml shows every key"
                    }
                    std::io::ErrorKind::InvalidData => "save the file as UTF-8",
                    std::io::ErrorKind::InvalidInput => "give a file: what is read must be there to be read again",
                    _ => "make the file readable for the user that tidegate runs as",
                };
                self.found.borrow_mut().push(Found {
                    severity: Severity::Error,
                    kind: "unreadable-file",
                    place: None,
                    file: path.to_owned(),
                    key: String::new(),
                    message: format!("cannot read the configuration: {error}"),
                    help: Some(help.to_owned()),
                    hidden: true,
                });
                Table::new()
            }
        }
    }

    /// As [`Self::read`], with the text given; `path` names it and is where its relative paths start.
    pub(super) fn read_text(&mut self, path: &Path, text: String) -> Table {
        let file = self.files.len();
        let real = std::fs::canonicalize(path).ok();
        self.files.push(SourceFile { path: path.to_owned(), real, text: text.clone() });
        let (table, errors) = DeTable::parse_recoverable(&text);
        if !errors.is_empty() {
            // What follows the first syntax error is guesswork.
            for error in errors.iter().take(1) {
                let place = Place { file, range: error.span().unwrap_or(0..0) };
                let hidden = !secret::line_is_harmless(self.line_at(&place).text);
                self.push(
                    Severity::Error,
                    "syntax",
                    &place,
                    "",
                    format!("invalid TOML: {}", error.message()),
                    None,
                    hidden,
                );
            }
            return Table::new();
        }
        let mut table = self.table(file, table.get_ref(), "");
        for included in self.included(&mut table) {
            let before = self.files.len();
            let inner = self.read(&included);
            if self.files.len() > before {
                self.merge(&mut table, inner);
            }
        }
        table
    }

    fn table(&self, file: usize, table: &DeTable<'_>, path: &str) -> Table {
        let mut out = Table::new();
        for (key, value) in table {
            let name = key.get_ref().to_string();
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let node = self.node(file, value.span(), value.get_ref(), &path);
            if secret::key_is_secret(&name) {
                self.mask(&node);
            }
            out.insert(name, Entry { key: Place { file, range: key.span() }, node });
        }
        out
    }

    fn array(&self, file: usize, array: &DeArray<'_>, path: &str) -> Vec<Node> {
        let element = |(i, node): (usize, &toml::Spanned<DeValue<'_>>)| {
            self.node(file, node.span(), node.get_ref(), &format!("{path}[{}]", i + 1))
        };
        array.iter().enumerate().map(element).collect()
    }

    fn node(&self, file: usize, range: Range<usize>, value: &DeValue<'_>, path: &str) -> Node {
        let place = Place { file, range };
        let value = match value {
            DeValue::String(text) => self.text(&place, text, path),
            DeValue::Integer(digits) => match i64::from_str_radix(digits.as_str(), digits.radix()) {
                Ok(number) => Value::Integer(number),
                Err(_) => {
                    self.error("out-of-range", &place, path, "this number does not fit 64 bits", None);
                    Value::Broken
                }
            },
            DeValue::Float(digits) => Value::Float(digits.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(value) => Value::Boolean(*value),
            DeValue::Datetime(value) => Value::Datetime(value.to_string()),
            DeValue::Array(array) => Value::Array(self.array(file, array, path)),
            DeValue::Table(table) => Value::Table(self.table(file, table, path)),
        };
        Node { place, value }
    }

    fn text(&self, place: &Place, text: &str, path: &str) -> Value {
        let faults = match interpolate::expand(text, self.lookup) {
            Ok(expanded) => {
                let secret = expanded.variables.iter().any(|name| secret::variable_is_secret(name));
                return Value::Text(Text {
                    text: expanded.text,
                    from_environment: !expanded.variables.is_empty(),
                    secret,
                });
            }
            Err(faults) => faults,
        };
        for fault in faults {
            let (kind, message, help) = match fault {
                Fault::Unset(name) => (
                    "unset-variable",
                    format!("the environment variable {name} is not set"),
                    format!("set {name}, or give a default: ${{{name}:default}}"),
                ),
                Fault::Unclosed => (
                    "bad-variable",
                    "`${` without `}`".to_owned(),
                    "close it, or write $${ for a literal ${".to_owned(),
                ),
                // The text may be anything, a piece of a password too.
                Fault::BadName(_) => (
                    "bad-variable",
                    "between `${` and `}` must stand a variable's name: letters, digits and _".to_owned(),
                    "write ${NAME} or ${NAME:default}, or $${ for a literal ${".to_owned(),
                ),
            };
            self.error(kind, place, path, &message, Some(&help));
        }
        Value::Broken
    }

    /// A file that the configuration comes from, or would. To be called before it is read.
    pub(super) fn looked_for(&self, path: &Path) {
        if let Ok(path) = std::path::absolute(path) {
            self.looked_for.borrow_mut().add(path);
        }
    }

    /// Every file that was read or looked for, as absolute paths.
    pub(super) fn files(&self) -> Files {
        self.looked_for.borrow().clone()
    }

    /// Whether a file was read already, by whatever name.
    pub(super) fn has_read(&self, path: &Path) -> bool {
        let real = std::fs::canonicalize(path).ok();
        self.files.iter().any(|file| file.path == path || (file.real.is_some() && file.real == real))
    }

    /// A path in the configuration starts at the folder of the file that it stands in.
    pub(super) fn resolve(&self, place: &Place, path: &str) -> PathBuf {
        let folder = self.files[place.file].path.parent().unwrap_or(Path::new(""));
        let whole =
            |folder: &Path| std::path::absolute(if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
        match whole(folder) {
            Ok(whole) if self.absolute => whole.join(path),
            _ => folder.join(path),
        }
    }

    /// Keeps a value out of every excerpt, unless it is but the name of the variable that has it.
    pub(super) fn mask(&self, node: &Node) {
        match &node.value {
            Value::Table(table) => table.values().for_each(|entry| self.mask(&entry.node)),
            Value::Array(nodes) => nodes.iter().for_each(|node| self.mask(node)),
            _ => {
                let source = self.files[node.place.file].text.get(node.place.range.clone()).unwrap_or_default();
                if !secret::is_only_variables(source) {
                    self.masks.borrow_mut().push(node.place.clone());
                }
            }
        }
    }

    /// Notes an error.
    pub(super) fn error(&self, kind: &'static str, place: &Place, key: &str, message: &str, help: Option<&str>) {
        self.push(Severity::Error, kind, place, key, message.to_owned(), help, false);
    }

    /// Notes a warning.
    pub(super) fn warning(&self, kind: &'static str, place: &Place, key: &str, message: &str, help: Option<&str>) {
        self.push(Severity::Warning, kind, place, key, message.to_owned(), help, false);
    }

    #[expect(clippy::too_many_arguments, reason = "the one place where a mistake is put together")]
    fn push(
        &self,
        severity: Severity,
        kind: &'static str,
        place: &Place,
        key: &str,
        message: String,
        help: Option<&str>,
        hidden: bool,
    ) {
        self.found.borrow_mut().push(Found {
            severity,
            kind,
            place: Some(place.clone()),
            file: PathBuf::new(),
            key: key.to_owned(),
            message,
            help: help.map(str::to_owned),
            hidden,
        });
    }

    /// `file:line:column`.
    pub(super) fn show(&self, place: &Place) -> String {
        let Line { number, column, .. } = self.line_at(place);
        format!("{}:{number}:{column}", self.files[place.file].path.display())
    }

    fn line_at(&self, place: &Place) -> Line<'_> {
        excerpt::line_at(&self.files[place.file].text, place.range.start)
    }

    /// The line with what is secret masked, and the caret's place in it.
    fn excerpt(&self, place: &Place) -> Excerpt {
        let masks = self.masks.borrow();
        let masks: Vec<_> =
            masks.iter().filter(|mask| mask.file == place.file).map(|mask| mask.range.clone()).collect();
        excerpt::cut(&self.files[place.file].text, &place.range, &masks)
    }

    /// Whether a file could not be read or parsed at all: what the rest would say of it is guesswork.
    pub(super) fn stopped(&self) -> bool {
        self.found.borrow().iter().any(|found| ["unreadable-file", "syntax"].contains(&found.kind))
    }

    /// Every mistake so far, errors first, each kind in the order of the files.
    pub(super) fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut found: Vec<_> = self.found.borrow_mut().drain(..).collect();
        let position = |f: &Found| f.place.as_ref().map_or((0, 0), |place| (place.file, place.range.start));
        found.sort_by_key(|found| (found.severity, position(found)));
        found.into_iter().map(|found| self.render(found)).collect()
    }

    fn render(&self, found: Found) -> Diagnostic {
        let (line, column) = found.place.as_ref().map_or((0, 0), |place| {
            let Line { number, column, .. } = self.line_at(place);
            (number, column)
        });
        Diagnostic {
            severity: found.severity,
            kind: found.kind,
            file: found.place.as_ref().map_or(found.file, |place| self.files[place.file].path.clone()),
            line,
            column,
            key: found.key,
            message: found.message,
            help: found.help,
            excerpt: found.place.as_ref().filter(|_| !found.hidden).map(|place| self.excerpt(place)),
        }
    }
}
