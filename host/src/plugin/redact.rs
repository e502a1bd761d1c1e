//! Leaving out of a captured message what must not get into a repository. Everything else stands byte by byte: digits,
//! blanks and the order of fields are what a case is about.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
};

use serde::{
    Deserialize,
    de::{Deserializer, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::plugin::cases::Input;

/// Fields to leave out: `customer.email`, `items[].name`, `card.*`; `@key` is the record's key, `@header:NAME` a header.
/// What is in an array is found without `[]`, too: it is better to leave out too much.
#[derive(Clone, Debug, Default)]
pub struct Redaction {
    /// Each as it was given, and its steps.
    paths: Vec<(String, Vec<String>)>,
    key: bool,
    headers: Vec<String>,
    /// As they were given, those that some input had; by what was given.
    met: BTreeSet<String>,
    given: Vec<String>,
    /// What stands for what: the same value is the same everywhere, so that keys that were equal stay equal.
    known: HashMap<String, usize>,
}

impl Redaction {
    /// Reads the fields.
    ///
    /// # Errors
    /// What is no path.
    pub fn parse(fields: &[String]) -> Result<Self, String> {
        let mut redaction = Self::default();
        for field in fields.iter().map(|field| field.trim()).filter(|field| !field.is_empty()) {
            redaction.given.push(field.to_owned());
            if field == "@key" {
                redaction.key = true;
            } else if let Some(name) = field.strip_prefix("@header:") {
                redaction.headers.push(name.to_owned());
            } else {
                let plain = field.replace("[]", ".[]");
                // An array at the root has no name before it.
                let plain = if field.starts_with("[]") { &plain[1..] } else { &plain };
                let path: Vec<String> = plain.split('.').map(str::to_owned).collect();
                if field.starts_with('@') || path.iter().any(String::is_empty) {
                    return Err(format!(
                        "{field:?} is no field: give paths as in customer.email, items[].name or card.*, or @key or \
                         @header:NAME"
                    ));
                }
                redaction.paths.push((field.to_owned(), path));
            }
        }
        Ok(redaction)
    }

    /// Leaves the fields out of an input.
    ///
    /// # Errors
    /// Where the body is no JSON, so that its fields cannot be found: such a message must not be kept.
    pub fn apply(&mut self, input: &mut Input) -> Result<(), String> {
        if let (Some(body), false) = (&input.body, self.paths.is_empty()) {
            let text = std::str::from_utf8(body).map_err(|_| "the body is no text".to_owned())?;
            input.body = Some(self.text(text)?.into());
        }
        if self.key
            && let Some(key) = &mut input.key
        {
            self.met.insert("@key".to_owned());
            let known = String::from_utf8_lossy(key).into_owned();
            *key = self.stand_in(&known).into();
        }
        for header in &mut input.headers {
            if self.headers.contains(&header.name)
                && let Some(value) = &mut header.value
            {
                self.met.insert(format!("@header:{}", header.name));
                let known = String::from_utf8_lossy(value).into_owned();
                *value = self.stand_in(&known).into();
            }
        }
        Ok(())
    }

    /// The fields that no input had so far: mistyped, perhaps.
    pub fn unmet(&self) -> impl Iterator<Item = &str> {
        self.given.iter().map(String::as_str).filter(|field| !self.met.contains(*field))
    }

    /// Every field's value, at whatever depth and however often, becomes another one of its kind.
    fn text(&mut self, text: &str) -> Result<String, String> {
        let root: &RawValue = serde_json::from_str(text).map_err(|error| format!("the body is no JSON: {error}"))?;
        let mut found = Vec::new();
        for (given, path) in &self.paths {
            let before = found.len();
            find(root, path, &mut found)?;
            if found.len() > before {
                self.met.insert(given.clone());
            }
        }
        // By their places in the text; what lies in another goes with it.
        let place = |value: &RawValue| (value.get().as_ptr().addr() - text.as_ptr().addr(), value.get().len());
        let mut spans: Vec<(usize, usize)> = found.into_iter().map(place).collect();
        spans.sort_by_key(|&(start, length)| (start, std::cmp::Reverse(length)));
        let (mut redacted, mut done) = (String::with_capacity(text.len()), 0);
        for (start, length) in spans {
            if start < done {
                continue;
            }
            let value = &text[start..start + length];
            redacted.push_str(&text[done..start]);
            redacted.push_str(&self.value(value));
            done = start + length;
        }
        redacted.push_str(&text[done..]);
        Ok(redacted)
    }

    fn value(&mut self, value: &str) -> String {
        match value.as_bytes().first() {
            Some(b'"') => {
                // The same text may be written in several ways.
                let plain = serde_json::from_str::<String>(value).unwrap_or_else(|_| value.to_owned());
                format!("\"{}\"", self.stand_in(&plain))
            }
            Some(b'{') => "{}".to_owned(),
            Some(b'[') => "[]".to_owned(),
            Some(b't' | b'f') => "false".to_owned(),
            Some(b'n') => "null".to_owned(),
            _ => "0".to_owned(),
        }
    }

    fn stand_in(&mut self, value: &str) -> String {
        let next = self.known.len() + 1;
        format!("redacted-{}", self.known.entry(value.to_owned()).or_insert(next))
    }
}

/// The values at a path. A field that comes twice in an object is found twice: parsers differ in which of them counts.
fn find<'a>(value: &'a RawValue, path: &[String], found: &mut Vec<&'a RawValue>) -> Result<(), String> {
    let Some((step, rest)) = path.split_first() else {
        found.push(value);
        return Ok(());
    };
    let children = match (value.get().as_bytes().first(), step.as_str()) {
        (Some(b'{'), name) if name != "[]" => parse(value)?,
        (Some(b'['), "[]" | "*") => parse(value)?,
        // Left out by whoever gave the path, or the body's own: what is in there may well be what is meant.
        (Some(b'['), _) => {
            return parse(value)?.0.into_iter().try_for_each(|(_, child)| find(child, path, found));
        }
        _ => return Ok(()),
    };
    for (name, child) in children.0 {
        if step == "*" || step == "[]" || name.as_deref() == Some(step) {
            find(child, rest, found)?;
        }
    }
    Ok(())
}

fn parse<'a>(value: &'a RawValue) -> Result<Children<'a>, String> {
    serde_json::from_str(value.get()).map_err(|error| format!("the body is no JSON: {error}"))
}

/// What is in an object or an array, as it stands there, duplicates included.
struct Children<'a>(Vec<(Option<String>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Children<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Vec<(Option<String>, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object or an array")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut children = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    children.push((Some(name), value));
                }
                Ok(children)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self::Value, A::Error> {
                let mut children = Vec::new();
                while let Some(value) = values.next_element::<&RawValue>()? {
                    children.push((None, value));
                }
                Ok(children)
            }
        }
        deserializer.deserialize_any(Each).map(Children)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use super::*;
    use crate::{config::Payload, record::Header};

    fn redact(fields: &[&str], body: &str) -> Result<String, String> {
        let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
        Redaction::parse(&fields).unwrap().text(body)
    }

    #[test]
    fn what_is_named_goes_and_everything_else_stays_as_it_stands() {
        let body = r#"{ "b":1.10, "a" : {"email":"x@y","n":12345678901234567890}, "items":[{"name":"A"},{"name":"B"},{"name":"A"}] }"#;
        assert_eq!(
            redact(&["a.email", "items[].name"], body).unwrap(),
            r#"{ "b":1.10, "a" : {"email":"redacted-1","n":12345678901234567890}, "items":[{"name":"redacted-2"},{"name":"redacted-3"},{"name":"redacted-2"}] }"#
        );
        assert_eq!(redact(&["a", "items", "b"], body).unwrap(), r#"{ "b":0, "a" : {}, "items":[] }"#);
        assert_eq!(
            redact(&["*"], r#"{"a":true,"b":null,"c":"\u0041"}"#).unwrap(),
            r#"{"a":false,"b":null,"c":"redacted-1"}"#
        );
        assert_eq!(redact(&["a.*", "a.b.c"], r#"{"a":{"b":{"c":1}}}"#).unwrap(), r#"{"a":{"b":{}}}"#);
        assert_eq!(redact(&["nowhere.at.all"], body).unwrap(), body);
    }

    #[test]
    fn what_is_in_arrays_is_found_at_the_root_too_and_without_being_told() {
        assert_eq!(
            redact(&["acct"], r#"[{"acct":"A","n":1},[{"acct":7}],"acct"]"#).unwrap(),
            r#"[{"acct":"redacted-1","n":1},[{"acct":0}],"acct"]"#
        );
        assert_eq!(redact(&["[].acct"], r#"[{"acct":"A"}]"#).unwrap(), r#"[{"acct":"redacted-1"}]"#);
        assert_eq!(
            redact(&["items.name"], r#"{"items":[{"name":"A"}]}"#).unwrap(),
            r#"{"items":[{"name":"redacted-1"}]}"#
        );
    }

    #[test]
    fn what_was_met_nowhere_is_told_as_it_was_given() {
        let fields = ["order_idd", "items[].name", "a.b", "@key", "@header:user"].map(str::to_owned);
        let mut redaction = Redaction::parse(&fields).unwrap();
        let mut input = Input {
            source: "default".into(),
            payload: Payload::Text,
            key: None,
            body: Some(r#"{"order_id":1,"items":[{"name":"A"}]}"#.into()),
            headers: vec![Header { name: "User".into(), value: Some("u".into()) }],
            record_time_ms: None,
        };
        redaction.apply(&mut input).unwrap();
        assert_eq!(redaction.unmet().collect::<Vec<_>>(), ["order_idd", "a.b", "@key", "@header:user"]);
        input.key = Some("k".into());
        input.body = Some(r#"{"a":{"b":null},"order_idd":1}"#.into());
        input.headers[0].name = "user".into();
        redaction.apply(&mut input).unwrap();
        assert_eq!(redaction.unmet().count(), 0, "one message in which it is suffices");
    }

    #[test]
    fn a_field_that_comes_twice_or_under_an_escaped_name_is_found() {
        assert_eq!(redact(&["a"], r#"{"a":"x","a":"y"}"#).unwrap(), r#"{"a":"redacted-1","a":"redacted-2"}"#);
        assert_eq!(redact(&["email"], r#"{"\u0065mail":"x"}"#).unwrap(), r#"{"\u0065mail":"redacted-1"}"#);
    }

    #[test]
    fn what_cannot_be_read_is_refused_and_not_kept() {
        assert!(redact(&["a"], "email: x@y").is_err());
        assert!(redact(&["a"], r#"{"a":"#).is_err());
        for bad in ["@cookie", "a..b", "."] {
            assert!(Redaction::parse(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_and_headers_go_where_they_are_named() {
        let mut redaction = Redaction::parse(&["@key".into(), "@header:user".into(), "id".into()]).unwrap();
        let header = |name: &str| Header { name: name.into(), value: Some("o-1".into()) };
        let mut input = Input {
            source: "default".into(),
            payload: Payload::Text,
            key: Some("o-1".into()),
            body: Some(r#"{"id":"o-1"}"#.into()),
            headers: vec![header("user"), header("type")],
            record_time_ms: None,
        };
        redaction.apply(&mut input).unwrap();
        assert_eq!(input.key.as_deref(), Some(b"redacted-1".as_slice()));
        assert_eq!(input.body.as_deref(), Some(br#"{"id":"redacted-1"}"#.as_slice()), "equal before, equal after");
        assert_eq!(input.headers[0].value.as_deref(), Some(b"redacted-1".as_slice()));
        assert_eq!(input.headers[1].value.as_deref(), Some(b"o-1".as_slice()));
    }
}
