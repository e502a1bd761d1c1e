//! Headers as JSON, the same in both dialects: what a dead letter keeps must be fit for a replay, byte for byte.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::record::Header;

/// An array of `{"name": …, "value": …}`. Bytes that are no text, or hold a NUL (which jsonb refuses), stand as hex
/// under `name_hex` and `value_hex`; an absent value is null.
#[must_use]
pub fn headers_to_json(headers: &[Header]) -> String {
    let entry = |header: &Header| {
        let mut object = Map::new();
        put(&mut object, "name", header.name.as_bytes());
        match &header.value {
            Some(value) => put(&mut object, "value", value),
            None => drop(object.insert("value".into(), Value::Null)),
        }
        Value::Object(object)
    };
    Value::Array(headers.iter().map(entry).collect()).to_string()
}

/// The headers that [`headers_to_json`] wrote.
///
/// # Errors
/// Where the text is something else, in words.
pub(super) fn headers_from_json(text: &str) -> Result<Vec<Header>, String> {
    let wrong = || "headers that are not as they were written".to_owned();
    let entries: Vec<Map<String, Value>> = serde_json::from_str(text).map_err(|_| wrong())?;
    let header = |entry: &Map<String, Value>| {
        let name = String::from_utf8(get(entry, "name")?).ok()?;
        let value =
            if entry.get("value").is_some_and(Value::is_null) { None } else { Some(Bytes::from(get(entry, "value")?)) };
        Some(Header { name, value })
    };
    entries.iter().map(|entry| header(entry).ok_or_else(wrong)).collect()
}

fn get(object: &Map<String, Value>, field: &str) -> Option<Vec<u8>> {
    if let Some(text) = object.get(field) {
        return text.as_str().map(|text| text.as_bytes().to_vec());
    }
    hex::decode(object.get(&format!("{field}_hex"))?.as_str()?).ok()
}

fn put(object: &mut Map<String, Value>, field: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => object.insert(field.into(), json!(text)),
        _ => object.insert(format!("{field}_hex"), json!(hex::encode(bytes))),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_has_a_form_that_both_dialects_hold() {
        let header = |name: &str, value: Option<&'static [u8]>| Header {
            name: name.into(),
            value: value.map(Bytes::from_static),
        };
        let headers = [header("a", Some(b"text")), header("a", None), header("b\0", Some(b"\xff\x00"))];
        assert_eq!(
            headers_to_json(&headers),
            r#"[{"name":"a","value":"text"},{"name":"a","value":null},{"name_hex":"6200","value_hex":"ff00"}]"#
        );
        assert_eq!(headers_from_json(&headers_to_json(&headers)).as_deref(), Ok(&headers[..]));
        assert!(headers_from_json(r#"[{"name":"a"}]"#).is_err() && headers_from_json("{}").is_err());
    }
}
