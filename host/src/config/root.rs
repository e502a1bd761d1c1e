//! The top of the configuration.

use std::collections::BTreeMap;

use super::{
    Config, ConfigError, Files, Loaded, Log, Plugins, Severity, consumer, cross, database,
    document::{Place, Reading, Table, Value},
    health, http, kafka, linked, schema,
    section::Section,
    timeouts,
};

/// Turns the raw form into the valid one.
///
/// # Errors
/// Every mistake that reading the files and validating them found.
pub(super) fn read(reading: &Reading<'_>, table: &Table) -> Result<Loaded, ConfigError> {
    let place = Place { file: 0, range: 0..0 };
    let config = if reading.stopped() { None } else { Some(validate(reading, table, &place)) };
    let (errors, warnings): (Vec<_>, Vec<_>) =
        reading.diagnostics().into_iter().partition(|diagnostic| diagnostic.severity == Severity::Error);
    match config {
        Some(config) if errors.is_empty() => Ok(Loaded { config, warnings }),
        _ => Err(ConfigError { diagnostics: errors.into_iter().chain(warnings).collect() }),
    }
}

fn validate(reading: &Reading<'_>, table: &Table, place: &Place) -> Config {
    let root = Section::open(reading, &schema::ROOT, table, place, "");
    let databases = named(&root, "database", database::read);
    let (bounds, dead_after) = health::read(&root);
    let mut config = Config {
        file: None,
        files: Files::default(),
        linked: BTreeMap::new(),
        databases: databases.iter().map(|(name, placed)| (name.clone(), placed.database.clone())).collect(),
        kafka: named(&root, "kafka", kafka::read),
        http: http::read(&root),
        health: bounds,
        log: log(&root),
        plugins: plugins(&root),
        consumers: vec![],
    };
    let mut consumers: Vec<_> = root
        .tables("consumer")
        .into_iter()
        .enumerate()
        .map(|(i, (table, place))| consumer::read(reading, i + 1, table, place))
        .collect();
    if consumers.is_empty() && !root.has("consumer") {
        root.error(
            "missing-key",
            place,
            "consumer",
            "there is no consumer",
            "add [[consumer]]; config/reference.toml shows every key",
        );
    }
    cross::check(reading, &config, &mut consumers);
    health::check(&root, bounds, dead_after.as_ref(), &consumers);
    for (name, placed) in &databases {
        let of_it = consumers.iter().filter(|consumer| consumer.consumer.database == *name);
        let timeouts = timeouts::settle(reading, &placed.timeouts, &placed.path, of_it);
        if let Some(database) = config.databases.get_mut(name) {
            database.timeouts = timeouts;
        }
    }
    config.consumers = consumers.into_iter().map(|placed| placed.consumer).collect();
    config.files = Files::of(linked::named(&config).into_keys());
    config.linked = linked::read(&config);
    config
}

/// `[database.NAME]` and `[kafka.NAME]`.
fn named<T>(
    root: &Section<'_>,
    key: &'static str,
    read: impl Fn(&Reading<'_>, &str, &Table, &Place) -> T,
) -> BTreeMap<String, T> {
    let Some((table, _)) = root.table(key) else { return BTreeMap::new() };
    let mut out = BTreeMap::new();
    for (name, entry) in table {
        match &entry.node.value {
            Value::Table(inner) => {
                out.insert(name.clone(), read(root.reading, name, inner, &entry.key));
            }
            Value::Broken => {}
            _ => {
                root.reading.mask(&entry.node);
                root.bad_type::<()>(
                    &format!("{key}.{name}"),
                    &entry.node,
                    &format!("a name between: [{key}.main] with `{name}` in it"),
                );
            }
        }
    }
    out
}

fn plugins(root: &Section<'_>) -> Plugins {
    let Some(section) = root.section("plugins", &schema::PLUGINS) else { return Plugins::default() };
    let path = |key| section.text(key).map(|path| root.reading.resolve(&path.place, &path.value));
    Plugins { cache: path("cache"), watch: section.boolean("watch", true), registry_ca_file: path("registry_ca_file") }
}

fn log(root: &Section<'_>) -> Log {
    let default = || "info".to_owned();
    let Some(section) = root.section("log", &schema::LOG) else { return Log { json: false, filter: default() } };
    let filter = section.text("filter");
    if let Some(text) = &filter
        && let Err(error) = text.value.parse::<tracing_subscriber::EnvFilter>()
    {
        let message = format!("{} is no log filter: {error}", text.shown());
        section.error(
            "bad-value",
            &text.place,
            "filter",
            message,
            "such as \"info\", \"debug\" or \"info,tidegate::store=debug\"",
        );
    }
    Log {
        json: section.choice("format", false, &[("human", false), ("json", true)]),
        filter: filter.map_or_else(default, |text| text.value),
    }
}
