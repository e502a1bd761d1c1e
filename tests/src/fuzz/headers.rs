//! Headers as a dead letter keeps them.

use serde_json::Value;
use tidegate::{record::Header, store::headers::headers_to_json};

use super::bytes::Bytes;

/// Any headers: kept as JSON that both databases take, from which each comes back byte for byte.
///
/// # Panics
/// Where that is not so.
pub fn headers(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let mut headers = Vec::new();
    while !bytes.is_empty() && headers.len() < 64 {
        let absent = bytes.below(4) == 0;
        let name = bytes.text();
        let value = bytes.part();
        headers.push(Header { name, value: (!absent).then(|| value.to_vec().into()) });
    }
    let json = headers_to_json(&headers);
    // jsonb holds no NUL, escaped or not; a backslash before the backslash makes it plain text.
    assert!(!json.replace("\\\\", "").contains("\\u0000") && !json.contains('\0'), "{json}");
    let kept: Vec<Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(kept.len(), headers.len());
    for (kept, header) in kept.iter().zip(&headers) {
        assert_eq!(back(kept, "name").as_deref(), Some(header.name.as_bytes()), "{kept}");
        assert_eq!(back(kept, "value").as_deref(), header.value.as_deref(), "{kept}");
    }
}

/// The bytes behind a field, as a replay would read them.
fn back(kept: &Value, field: &str) -> Option<Vec<u8>> {
    if let Some(hex) = kept.get(format!("{field}_hex")).and_then(Value::as_str) {
        return Some(hex::decode(hex).unwrap());
    }
    kept[field].as_str().map(|text| text.as_bytes().to_vec())
}
