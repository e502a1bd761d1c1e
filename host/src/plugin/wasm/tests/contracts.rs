//! Plugins as they were built for each published version of the contract.

use super::*;
use crate::{
    outcome::Verdict,
    plugin::{Message, wasm::contract::Contract},
    record::Header,
    value::Value,
};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures")
}

fn fixture(version: &str) -> PathBuf {
    fixtures().join(format!("contract-{version}/plugin.wasm"))
}

#[test]
fn every_published_contract_has_its_plugin_and_does_not_change() {
    let folders = fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut kept: Vec<String> = folders.filter_map(|name| name.strip_prefix("contract-").map(str::to_owned)).collect();
    kept.sort();
    assert_eq!(kept, Contract::PUBLISHED.map(Contract::version));
    let frozen = fs::read_to_string(fixture(Contract::NEWEST.version()).with_file_name("plugin.wit")).unwrap();
    let current = include_str!("../../../../../guest-sdk/wit/plugin.wit");
    assert_eq!(current, frozen, "what is published is frozen: a change is a new version, with a plugin of its own");
}

#[test]
fn plugins_of_every_published_contract_keep_working() {
    for contract in Contract::PUBLISHED {
        match contract {
            Contract::V0_1_0 => v0_1_0(&fixture(contract.version())),
        }
    }
}

fn v0_1_0(path: &Path) {
    let limits = PluginLimits::default();
    let load = |settings| {
        let plugin = config::Plugin {
            path: path.to_owned(),
            sha256: None,
            signed_by: Vec::new(),
            cases: None,
            limits,
            settings,
        };
        Runtime::new(None).unwrap().load(&plugin)
    };
    let refused = load(serde_json::json!({"refuse": 1})).err().unwrap();
    assert_eq!(
        (refused.code(), refused.to_string().contains(r#"{"refuse":1}"#)),
        ("plugin-settings", true),
        "{refused}"
    );
    let plugin = load(serde_json::json!({"a": "b"})).unwrap();
    let description = plugin.description();
    assert_eq!(
        (description.name.as_str(), description.version.as_str(), description.key_version),
        ("fixture", "0.1.0", 3)
    );
    assert_eq!(description.targets["t"], ["id", "v"]);

    let mut context = EvaluateContext { limits, ..sample::context(&["id", "v"]) };
    let all = [crate::merge::Operation::Upsert, crate::merge::Operation::Update, crate::merge::Operation::Delete];
    Arc::get_mut(&mut context.targets).unwrap()[0].operations = all.into();
    let run = |word: &str| {
        let mut batch = sample::texts([word]);
        batch.records[0].timestamp_ms = Some(77);
        evaluate(plugin.as_ref(), &batch, &context).unwrap().remove(0)
    };
    for (word, says) in [
        ("skip early", "skip not mine"),
        ("reject early", "early"),
        ("skip late", "skip nor mine"),
        ("reject late", "late"),
        ("nothing", "apply 0"),
        ("log", "apply 0"),
        ("trap", "plugin-trap"),
        ("anything", "apply 1"),
    ] {
        assert_eq!(sample::codes(&[run(word)]), [says], "{word}");
    }
    let text = |text: &str| Value::Text(text.to_owned());
    for (word, value) in [
        ("null", Value::Null),
        ("boolean", Value::Boolean(true)),
        ("integer", Value::Integer(-9_007_199_254_740_993)),
        ("real", Value::Real(0.5)),
        ("decimal", Value::Decimal("12345678901234567890.10".to_owned())),
        ("bytes", Value::Bytes(vec![0, 255])),
        ("json", Value::Json(r#"{"a":1}"#.to_owned())),
        ("timestamp", Value::Timestamp(3_000_000)),
        ("time", Value::Integer(77)),
        ("seed", Value::Integer(0x5045_bcac)),
        ("settings", text(r#"{"a":"b"}"#)),
        ("anything", text("anything")),
        ("update", Value::Null),
    ] {
        let Verdict::Apply(changes) = run(word).verdict else { unreachable!("{word}") };
        assert_eq!(changes[0].values, [text(word), value], "{word}");
    }
    let Verdict::Apply(changes) = run("delete").verdict else { unreachable!("delete") };
    assert_eq!(
        (changes[0].operation, &changes[0].values[..]),
        (crate::merge::Operation::Delete, &[text("delete")][..])
    );
    for (word, occurred_at) in [("rfc 3339", Some(1_000_000)), ("unix", Some(2_000_000)), ("anything", None)] {
        let identity = run(word).identity.unwrap();
        let seen = (identity.message_id.as_str(), identity.aggregate_id.as_str(), identity.occurred_at_us);
        assert_eq!(seen, (word, "orders", occurred_at));
    }
    let fingerprint = |word| run(word).identity.unwrap().fingerprint;
    assert_eq!(fingerprint("fingerprint"), crate::identity::Fingerprint::of(Some(&[1, 2, 3])));
    assert!(rejection(&run("trap")).contains("(the fixture says why)"));

    let header = |name: &str, value: Option<&'static [u8]>| Header { name: name.into(), value: value.map(Into::into) };
    let message = Message {
        source: "orders".into(),
        key: Some(b"k".as_slice().into()),
        body: crate::plugin::Body::Text("headers".into()),
        headers: vec![header("a", Some(b"b")), header("c", None)],
    };
    let keys = plugin.instance(1).unwrap().extract_keys(&[message]).unwrap();
    assert_eq!(keys, [crate::plugin::KeyResult::Skip("Some([107]) a=Some([98]) c=None".to_owned())]);
}
