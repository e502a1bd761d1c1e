//! From a case to its text.

use std::fmt::Write as _;

use serde_json::Value as Json;

use super::{Answer, Case, RowChange, Says, value};
use crate::{config::Payload, merge::Operation};

/// The text of an answer, as it stands at the end of a case's file.
#[must_use]
pub fn render_answer(answer: &Answer) -> String {
    let mut text = String::new();
    if let Some(who) = &answer.identity {
        text.push_str("[identity]\n");
        let _ = writeln!(text, "message_id = {}", value::text(&who.message_id));
        let _ = writeln!(text, "aggregate_id = {}", value::text(&who.aggregate_id));
        if let Some(micros) = who.occurred_at_us {
            let _ = writeln!(text, "occurred_at = {}", value::show(&crate::value::Value::Timestamp(micros)));
        }
        if let Some(fingerprint) = who.fingerprint {
            let _ = writeln!(text, "fingerprint = \"{:032x}\"", u128::from_be_bytes(fingerprint));
        }
    }
    match &answer.says {
        Says::Apply(changes) => changes.iter().for_each(|change| write_change(&mut text, change)),
        Says::Skip(reason) => {
            begin(&mut text, "[skip]");
            write_some(&mut text, "reason", reason.as_deref());
        }
        Says::Reject(code, message) => {
            begin(&mut text, "[reject]");
            write_some(&mut text, "code", Some(code));
            write_some(&mut text, "message", message.as_deref());
        }
    }
    text
}

fn begin(text: &mut String, head: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(text, "{head}");
}

fn write_some(text: &mut String, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        let _ = writeln!(text, "{key} = {}", value::text(value));
    }
}

/// What a case calls an operation.
#[must_use]
pub fn operation_word(operation: Operation) -> &'static str {
    match operation {
        Operation::Upsert => "upsert",
        Operation::Update => "update",
        Operation::Delete => "delete",
    }
}

fn write_change(text: &mut String, change: &RowChange) {
    begin(text, "[[change]]");
    let _ = writeln!(text, "{} = {}", operation_word(change.operation), value::text(&change.target));
    if change.row.is_empty() {
        text.push_str("row = {}\n");
    }
    for (column, value) in &change.row {
        let _ = writeln!(text, "row.{} = {}", value::key(column), value::show(value));
    }
}

/// The text of a case's input, for a new file. `comment` goes before it, as comment lines.
///
/// # Errors
/// Where a setting is null, which TOML cannot say.
pub fn render_input(case: &Case, comment: &str) -> Result<String, String> {
    let mut text = String::new();
    for line in comment.lines() {
        let _ = writeln!(text, "# {line}");
    }
    let input = &case.input;
    if input.source != "default" {
        write_some(&mut text, "source", Some(&input.source));
    }
    if input.payload == Payload::Binary {
        text.push_str("payload = \"binary\"\n");
    }
    if let Some(key) = &input.key {
        write_bytes(&mut text, "key", key);
    }
    if let Some(time) = input.record_time_ms.and_then(|ms| value::time(ms.checked_mul(1000)?)) {
        let _ = writeln!(text, "record_time = {time}");
    }
    if let Json::Object(settings) = &case.settings
        && !settings.is_empty()
    {
        let _ = writeln!(text, "settings = {}", setting(&case.settings)?);
    }
    match &input.body {
        None => text.push_str("tombstone = true\n"),
        Some(body) if input.payload == Payload::Binary => {
            let _ = writeln!(text, "body_base64 = \"{}\"", value::base64(body));
        }
        Some(body) => write_bytes(&mut text, "body", body),
    }
    for header in &input.headers {
        begin(&mut text, "[[headers]]");
        write_some(&mut text, "name", Some(&header.name));
        if let Some(value) = &header.value {
            write_bytes(&mut text, "value", value);
        }
    }
    Ok(text)
}

/// Text where it is text.
fn write_bytes(text: &mut String, key: &str, bytes: &[u8]) {
    let _ = match std::str::from_utf8(bytes) {
        Ok(plain) => writeln!(text, "{key} = {}", value::text(plain)),
        Err(_) => writeln!(text, "{key}_base64 = \"{}\"", value::base64(bytes)),
    };
}

fn setting(json: &Json) -> Result<String, String> {
    let list = |parts: Vec<String>| parts.join(", ");
    Ok(match json {
        Json::Null => return Err("a setting is null, which TOML cannot say".to_owned()),
        Json::Bool(value) => value.to_string(),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => whole.to_string(),
            None => toml_edit::Value::from(number.as_f64().unwrap_or(f64::NAN)).to_string(),
        },
        Json::String(text) => value::text(text),
        Json::Array(values) => format!("[{}]", list(values.iter().map(setting).collect::<Result<_, _>>()?)),
        Json::Object(fields) => {
            let field = |(name, value): (&String, &Json)| Ok(format!("{} = {}", value::key(name), setting(value)?));
            let fields = fields.iter().map(field).collect::<Result<Vec<_>, String>>()?;
            if fields.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", list(fields)) }
        }
    })
}
