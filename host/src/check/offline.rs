//! What can be said without asking broker or database: configuration, plugins, grants, classes.

use std::{collections::BTreeMap, sync::Arc};

use super::{Report, danger::Danger, grant, probe, report::Mark};
use crate::{
    config::{Config, Consumer, Payload, Plugin as PluginConfig},
    identity::ConsumerName,
    key_gate,
    merge::{Merge, TargetClass, TargetSpec, classify},
    plugin::{Plugin, PluginError},
};

/// How a plugin is compiled.
pub type Load<'l> = dyn Fn(&PluginConfig) -> Result<Arc<dyn Plugin>, PluginError> + 'l;

/// The plugins that could be loaded, by consumer.
pub type Plugins = BTreeMap<ConsumerName, Arc<dyn Plugin>>;

/// Checks a configuration that was read without a mistake. `load` compiles a plugin. Answers what it loaded, for the
/// checks that go on from there.
pub fn check(config: &Config, report: &mut Report, load: &Load<'_>) -> Plugins {
    let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let found = [
        plural(config.consumers.len(), "consumer"),
        plural(config.databases.len(), "database"),
        plural(config.kafka.len(), "Kafka cluster"),
    ];
    report.ok("configuration", "file", format!("is valid: {}", found.join(", ")));
    match config.http.listen {
        Some(listen) => {
            let changes = if config.http.token.is_some() { "changes with the token" } else { "no changes: no token" };
            let text = format!("{listen}: /livez, /readyz, /metrics, /v1 and a status page; {changes}");
            report.ok("configuration", "http", text);
            report.clear(Danger::NoDuplicateMetric);
        }
        None => report.found(Danger::NoDuplicateMetric, "configuration", "http", "it is off, so there are no metrics"),
    }
    if let Some(Err(why)) = config.http.tls.as_ref().map(crate::http::examine_tls) {
        let help = "both are PEM files that tidegate's user can read, and belong together";
        report.add(Mark::Error, "configuration", "http", why, Some(help.to_owned()));
    }
    report.clear(Danger::Accumulating);
    report.clear(Danger::NotDeterministic);
    report.clear(Danger::PositionAsKey);
    let mut plugins = Plugins::new();
    for consumer in &config.consumers {
        if let Some(plugin) = check_plugin(consumer, report, load) {
            plugins.insert(consumer.name.clone(), plugin);
        }
        for target in &consumer.targets {
            check_class(consumer, target, report);
        }
    }
    plugins
}

fn check_plugin(consumer: &Consumer, report: &mut Report, load: &Load<'_>) -> Option<Arc<dyn Plugin>> {
    let name = consumer.name.as_str();
    let unprobed = |report: &mut Report| {
        report.unknown(Danger::NotDeterministic);
        report.unknown(Danger::PositionAsKey);
    };
    if let Some(path) = consumer.plugin.origin.file().filter(|path| !path.is_file()) {
        let help = "`tidegate plugin build DIR` makes it from source; a relative path starts at the configuration file's folder";
        report.add(Mark::Error, name, "plugin", format!("there is no file {}", path.display()), Some(help.to_owned()));
        unprobed(report);
        return None;
    }
    let plugin = match load(&consumer.plugin) {
        Ok(plugin) => plugin,
        Err(error) => {
            report.add(Mark::Error, name, "plugin", error.to_string(), None);
            unprobed(report);
            return None;
        }
    };
    let described = plugin.description();
    let digest = key_gate::short(&plugin.digest());
    let version = if described.version.is_empty() { String::new() } else { format!(" {}", described.version) };
    let text = format!("{}{version}, key version {}, sha256 {digest}…", described.name, described.key_version);
    report.ok(name, "plugin", text);
    for mismatch in grant::compare(&described.targets, &consumer.targets) {
        let (text, help) = mismatch.text();
        let mark = if mismatch.stops() { Mark::Error } else { Mark::Warning };
        report.add(mark, name, "plugin", text, Some(help));
    }
    let sources: Vec<_> = consumer.topics.iter().map(|topic| Arc::clone(&topic.source)).collect();
    let findings = probe::probe(plugin.as_ref(), &sources, consumer.payload == Payload::Binary);
    for (danger, seen) in findings.dangers {
        report.found(danger, name, "plugin", seen);
    }
    if let Some(error) = findings.broke {
        let help = "such a message would become a dead letter; answer skip or reject instead, which says why";
        let text = format!("it broke on a made-up message: {error}");
        report.add(Mark::Warning, name, "plugin", text, Some(help.to_owned()));
        unprobed(report);
    }
    Some(plugin)
}

fn check_class(consumer: &Consumer, target: &TargetSpec, report: &mut Report) {
    let (name, subject) = (consumer.name.as_str(), format!("target {}", target.name));
    let class = classify(target);
    let key: Vec<_> = target.key.iter().map(|&i| target.columns[i].name.as_str()).collect();
    report.ok(name, &subject, format!("→ {} ({}), {class}: {}", target.table, key.join(", "), meaning(class)));
    let adding: Vec<_> =
        target.columns.iter().filter(|column| column.merge == Merge::Add).map(|column| column.name.as_str()).collect();
    if class == TargetClass::Accumulating {
        report.found(
            Danger::Accumulating,
            name,
            &subject,
            format!("{} of {} adds up", adding.join(", "), target.table),
        );
    }
}

/// What a class promises, in a few words.
fn meaning(class: TargetClass) -> &'static str {
    match class {
        TargetClass::Accumulating => "only the ledger keeps it right",
        TargetClass::Idempotent => "the same change twice in a row is the same as once",
        TargetClass::ReplaySafe => "a late duplicate changes nothing",
        TargetClass::OrderFree => "any order ends the same",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
    use super::*;
    use crate::plugin::native::Native;

    fn config(folder: &std::path::Path, more: &str) -> Config {
        let text = format!(
            "[database.main]\nurl = \"sqlite://x.db\"\n[kafka.main]\nbootstrap.servers = \"a:1\"\n[[consumer]]\nname = \"c\"\n\
             topics = [\"t\"]\nplugin = {{ path = \"p.wasm\" }}\n[[consumer.target]]\nname = \"orders\"\ntable = \"orders\"\n\
             columns = [\"id\", \"n\"]\nkey = [\"id\"]\n{more}"
        );
        crate::config::parse(&text, &folder.join("t.toml"), &|_| None).unwrap().config
    }

    fn checked(config: &Config, plugin: Native) -> Report {
        let mut report = Report::default();
        check(config, &mut report, &|_| Ok(Arc::new(plugin.clone())));
        report
    }

    #[test]
    fn a_plugin_that_is_not_there_is_an_error_with_a_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let report = checked(&config(folder.path(), ""), Native::new("p"));
        assert_eq!(report.exit_code(), 2);
        let text = report.to_string();
        assert!(
            text.contains("✗ plugin") && text.contains("there is no file") && text.contains("tidegate plugin build"),
            "{text}"
        );
    }

    #[test]
    fn classes_and_accumulation_are_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.wasm"), "").unwrap();
        let text = checked(&config(folder.path(), ""), Native::new("p")).to_string();
        assert!(text.contains("✓ target orders  → orders (id), idempotent"), "{text}");
        let report = checked(&config(folder.path(), "merge = { n = \"add\" }"), Native::new("p"));
        assert_eq!(report.exit_code(), 0, "a warning stops nothing");
        assert!(report.to_string().contains("! target orders  TG007 accumulating writes: n of orders adds up"));
    }
}
