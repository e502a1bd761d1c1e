//! Headers as JSON, the same in both dialects: what a dead letter keeps must be fit for a replay, byte for byte.

use serde_json::{Map, Value, json};

use crate::record::Header;

/// An array of `{"name": …, "value": …}`. Bytes that are no text, or hold a NUL (which jsonb refuses), stand as hex
/// under `name_hex` and `value_hex`; an absent value is null.
#[must_use]
pub(super) fn headers_to_json(headers: &[Header]) -> String {
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

fn put(object: &mut Map<String, Value>, field: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => object.insert(field.into(), json!(text)),
        _ => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            object.insert(format!("{field}_hex"), json!(hex))
        }
    };
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

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
    }
}
