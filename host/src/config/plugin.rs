//! `[consumer.plugin]`.

use std::{path::PathBuf, time::Duration};

use serde_json::{Map, Number, Value as Json};

use super::{
    Plugin, PluginLimits,
    document::{Node, Value},
    schema,
    section::{Placed, Section},
};
use crate::plugin::distribution::{Origin, PublicKey};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Reads a consumer's plugin. What is wrong was reported.
pub(super) fn read(consumer: &Section<'_>) -> Plugin {
    consumer.missing("plugin", "add [consumer.plugin] with path = \"FILE.wasm\": the business rules");
    let Some(section) = consumer.section("plugin", &schema::PLUGIN) else {
        return Plugin::at(PathBuf::new());
    };
    of(&section)
}

/// Reads a consumer's shadow, where it has one.
pub(super) fn read_shadow(consumer: &Section<'_>) -> Option<Plugin> {
    consumer.section("shadow", &schema::PLUGIN).map(|section| of(&section))
}

fn of(section: &Section<'_>) -> Plugin {
    let path = section.required_text("path", "the plugin's component: path = \"plugins/NAME.wasm\"");
    Plugin {
        origin: path.map_or_else(|| PathBuf::new().into(), |path| origin(section, &path)),
        sha256: digest(section),
        signed_by: signed_by(section),
        cases: section.text("cases").map(|cases| section.reading.resolve(&cases.place, &cases.value)),
        limits: limits(section),
        settings: settings(section),
    }
}

/// A file, or a place in a registry.
fn origin(section: &Section<'_>, path: &Placed) -> Origin {
    let origin = Origin::parse(&path.value, |file| section.reading.resolve(&path.place, file)).unwrap_or_else(|why| {
        section.error("bad-value", &path.place, "path", format!("{} {why}", path.shown()), "or give a file");
        PathBuf::new().into()
    });
    if let Some(reference) = origin.reference().filter(|reference| reference.digest().is_none()) {
        let message = format!("{reference} is a tag, which may be moved to another plugin at any time");
        let help = "pin what you have tested: oci://HOST/NAME@sha256:DIGEST, as `tidegate plugin push` prints it";
        section.reading.warning("bare-tag", &path.place, &section.at("path"), &message, Some(help));
    }
    origin
}

fn signed_by(section: &Section<'_>) -> Vec<PublicKey> {
    let texts = section.texts("signed_by");
    let key = |text: &Placed| match PublicKey::parse(&text.value) {
        Some(key) => Some(key),
        None => {
            let help = "32 bytes in base64, as `tidegate plugin sign` prints them";
            section.error("bad-value", &text.place, "signed_by", format!("{} is no public key", text.shown()), help);
            None
        }
    };
    texts.iter().filter_map(key).collect()
}

fn digest(section: &Section<'_>) -> Option<[u8; 32]> {
    let text = section.text("sha256")?;
    let mut digest = [0; 32];
    if hex::decode_to_slice(&text.value, &mut digest).is_ok() {
        return Some(digest);
    }
    let message = format!("{} is no SHA-256: it has {} characters", text.shown(), text.value.chars().count());
    section.error(
        "bad-digest",
        &text.place,
        "sha256",
        message,
        "64 hexadecimal digits, as `sha256sum FILE.wasm` prints them",
    );
    None
}

fn limits(section: &Section<'_>) -> PluginLimits {
    let default = PluginLimits::default();
    let Some(limits) = section.section("limits", &schema::LIMITS) else { return default };
    let (ms, s) = (Duration::from_millis, Duration::from_secs);
    PluginLimits {
        memory: limits.size("memory", default.memory, MIB..=4096 * MIB),
        cpu_base: limits.duration("cpu_base", default.cpu_base, ms(10)..=s(60)),
        cpu_per_event: limits.duration("cpu_per_event", default.cpu_per_event, ms(1)..=s(60)),
        changes_per_event: limits.number("changes_per_event", default.changes_per_event, 1..=100_000),
        output_per_event: limits.size("output_per_event", default.output_per_event, KIB..=256 * MIB),
        log_bytes: limits.size("log_bytes", default.log_bytes, 0..=16 * MIB),
    }
}

/// Any table, as JSON.
fn settings(section: &Section<'_>) -> Json {
    let Some((table, _)) = section.table("settings") else { return Json::Object(Map::new()) };
    let json = |(key, entry): (&String, &super::document::Entry)| Some((key.clone(), json(section, &entry.node)?));
    Json::Object(table.iter().filter_map(json).collect())
}

fn json(section: &Section<'_>, node: &Node) -> Option<Json> {
    Some(match &node.value {
        Value::Text(text) => Json::String(text.text.clone()),
        Value::Integer(number) => Json::Number((*number).into()),
        Value::Float(number) => match Number::from_f64(*number) {
            Some(number) => Json::Number(number),
            None => {
                let help = "the plugin gets its settings as JSON, which has no inf and nan";
                section.error("bad-value", &node.place, "settings", "this is no JSON number", help);
                return None;
            }
        },
        Value::Boolean(value) => Json::Bool(*value),
        Value::Datetime(text) => Json::String(text.clone()),
        Value::Array(nodes) => Json::Array(nodes.iter().filter_map(|node| json(section, node)).collect()),
        Value::Table(table) => Json::Object(
            table.iter().filter_map(|(key, entry)| Some((key.clone(), json(section, &entry.node)?))).collect(),
        ),
        Value::Broken => return None,
    })
}
