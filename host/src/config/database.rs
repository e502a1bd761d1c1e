//! `[database.NAME]`.

use sqlx::postgres::PgConnectOptions;

use super::{
    Database, Dialect, Secret,
    document::{Place, Reading, Table},
    schema, secret_file,
    section::Section,
    timeouts::{self, Given},
};

const FORMS: &str = "write postgres://USER:PASSWORD@HOST:PORT/DATABASE or sqlite://FILE";

/// What may follow the `?` of a PostgreSQL URL, in the driver's words.
const PARAMETERS: [&str; 16] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
];

/// The name of the first parameter that the driver does not know; what does not look like a name is not repeated.
fn unknown_parameter(url: &str) -> Option<String> {
    let query = url.split_once('?')?.1;
    let query = query.split('#').next().unwrap_or_default();
    let known = |name: &str| PARAMETERS.contains(&name) || name == "options" || name.starts_with("options[");
    let name = query.split('&').map(|pair| pair.split('=').next().unwrap_or_default()).find(|name| {
        let decoded = name.replace("%5B", "[").replace("%5b", "[");
        !name.is_empty() && !known(&decoded) && decoded != "statement-cache-capacity"
    })?;
    let harmless = name.len() < 32
        && query.contains(&format!("{name}="))
        && name.chars().all(|c| c.is_ascii_lowercase() || "_-".contains(c));
    Some(if harmless { name.to_owned() } else { "***".to_owned() })
}

/// A database, and what its section says of its time-outs.
#[derive(Debug)]
pub(super) struct PlacedDatabase {
    /// With the usual time-outs, until those are settled.
    pub(super) database: Database,
    /// Its path, such as `database.main`.
    pub(super) path: String,
    /// What is given.
    pub(super) timeouts: Given,
}

/// Reads one database. What is wrong was reported; the answer is then a stand-in.
pub(super) fn read(reading: &Reading<'_>, name: &str, table: &Table, place: &Place) -> PlacedDatabase {
    let section = Section::open(reading, &schema::DATABASE, table, place, format!("database.{name}"));
    let url = match (section.has("url"), section.has("url_file")) {
        (true, true) => {
            let place = section.place_of("url_file");
            section.error("both-given", &place, "url_file", "both `url` and `url_file` are given", "keep one of them");
            None
        }
        (false, false) => {
            section.missing("url", &format!("{FORMS}, or url_file = \"FILE\" with the URL in it"));
            None
        }
        (true, false) => section.text("url").map(|text| (text.value, text.place, "url")),
        (false, true) => section.text("url_file").and_then(|file| {
            let text = secret_file::read(&section, "url_file", &file)?;
            Some((text, file.place, "url_file"))
        }),
    };
    let (url, dialect) = url
        .and_then(|(url, place, key)| check(&section, &url, &place, key))
        .unwrap_or((String::new(), Dialect::Postgres));
    let timeouts = timeouts::read(&section, dialect);
    PlacedDatabase { database: Database::new(Secret::new(url), dialect), path: format!("database.{name}"), timeouts }
}

/// Checks a URL. Messages never repeat it: it has a password in it.
fn check(section: &Section<'_>, url: &str, place: &Place, key: &str) -> Option<(String, Dialect)> {
    let report = |kind, message: String, help: &str| {
        section.error(kind, place, key, message, help);
        None
    };
    if let Some(rest) = url.strip_prefix("sqlite://") {
        let (file, query) = rest.split_once('?').map_or((rest, None), |(file, query)| (file, Some(query)));
        if file.is_empty() || file == ":memory:" || query.is_some_and(|query| query.contains("mode=memory")) {
            let message = "SQLite without a file: the ledger would be forgotten at every start".to_owned();
            return report("bad-url", message, "name a file: sqlite://tidegate.db");
        }
        let path = section.reading.resolve(place, "").to_string_lossy().into_owned();
        // The URL's own marks must not be mistaken for its end.
        let folder = path.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
        let folder = if file.starts_with('/') { String::new() } else { folder };
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        return Some((format!("sqlite://{folder}{file}{query}"), Dialect::Sqlite));
    }
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        // The driver would pass over it with a warning, which repeats the value: a misspelt `password`, say.
        if let Some(parameter) = unknown_parameter(url) {
            let message = format!("a PostgreSQL URL has no parameter `{parameter}`");
            return report("bad-url", message, &format!("it knows: {}", PARAMETERS.join(", ")));
        }
        return match url.parse::<PgConnectOptions>() {
            Ok(_) => Some((url.to_owned(), Dialect::Postgres)),
            Err(_) => report(
                "bad-url",
                "this cannot be read as a PostgreSQL URL".to_owned(),
                &format!("{FORMS}; special characters in the password are written as %XX, / as %2F, @ as %40"),
            ),
        };
    }
    let scheme = url
        .split_once("://")
        .map(|(scheme, _)| scheme)
        .filter(|s| s.len() < 16 && s.chars().all(|c| c.is_ascii_alphanumeric()));
    let message = match scheme {
        Some(scheme) => format!("no database is spoken to by {scheme}://"),
        None => "this is no database URL".to_owned(),
    };
    report("bad-url", message, FORMS)
}
