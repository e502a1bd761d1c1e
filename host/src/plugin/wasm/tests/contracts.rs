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

/// What the fixtures write, and every operation.
fn granting_all() -> EvaluateContext {
    let mut context = sample::context(&["id", "v"]);
    let all = [crate::merge::Operation::Upsert, crate::merge::Operation::Update, crate::merge::Operation::Delete];
    Arc::get_mut(&mut context.targets).unwrap()[0].operations = all.into();
    context
}

/// Whatever else becomes of its file.
#[test]
fn one_component_serves_several_configurations() {
    let file = File::new(&fs::read(fixture(Contract::NEWEST.version())).unwrap());
    let settings = serde_json::json!({"n": 1});
    let first = Runtime::new(None).unwrap();
    let first = first.load(&config::Plugin { settings, ..config::Plugin::at(file.path.clone()) }).unwrap();
    drop(file);
    let second = first.with_settings(&serde_json::json!({"n": 2})).unwrap();
    let third = second.with_settings(&serde_json::Value::Null).unwrap();
    let said = |plugin: &dyn Plugin| {
        let evaluated = evaluate(plugin, &sample::texts(["settings"]), &granting_all()).unwrap().remove(0);
        let Verdict::Apply(changes) = evaluated.verdict else { unreachable!("{evaluated:?}") };
        changes[0].values[1].clone()
    };
    for (plugin, settings) in [(&first, r#"{"n":1}"#), (&second, r#"{"n":2}"#), (&third, "{}"), (&first, r#"{"n":1}"#)]
    {
        assert_eq!(said(plugin.as_ref()), Value::Text(settings.to_owned()));
        assert_eq!((plugin.digest(), plugin.description()), (first.digest(), first.description()));
    }
    let refused = first.with_settings(&serde_json::json!({"refuse": 1})).err().unwrap();
    assert_eq!(refused.code(), "plugin-settings");
}

fn v0_1_0(path: &Path) {
    let limits = PluginLimits::default();
    let load = |settings| {
        let plugin = config::Plugin { limits, settings, ..config::Plugin::at(path.to_owned()) };
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

    let context = EvaluateContext { limits, ..granting_all() };
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
    let mut record = sample::texts(["headers"]).records.remove(0);
    record.key = Some(b"k".as_slice().into());
    record.headers = vec![header("a", Some(b"b")), header("c", None)];
    let message = Message::of(&record, &"orders".into(), context.payload, context.tombstones).unwrap();
    let keys = plugin.instance(1).unwrap().extract_keys(&[message]).unwrap();
    assert_eq!(keys, [crate::plugin::KeyResult::Skip("Some([107]) a=Some([98]) c=None".to_owned())]);
}
