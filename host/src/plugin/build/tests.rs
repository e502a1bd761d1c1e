//! Building from source, and what the Rust plugins give.
#![allow(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::{path::Path, sync::Arc, time::Duration};

use super::*;
use crate::{
    config::{self, PluginLimits},
    outcome::{Change, Verdict},
    plugin::{EvaluateContext, Plugin, Runtime, evaluate, evaluate::sample},
    value::Value,
};

/// Builds a crate of this workspace from source and loads it.
fn load(dir: &str, limits: PluginLimits, settings: serde_json::Value) -> Arc<dyn Plugin> {
    let built = build(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(dir), None).unwrap();
    let plugin = config::Plugin { sha256: Some(built.sha256), limits, settings, ..config::Plugin::at(built.path) };
    Runtime::new(None).unwrap().load(&plugin).unwrap()
}

fn context(target: &str, columns: &[&str], limits: PluginLimits) -> EvaluateContext {
    let mut context = sample::context(columns);
    Arc::get_mut(&mut context.targets).unwrap()[0].name = target.to_owned();
    EvaluateContext { limits, ..context }
}

#[test]
fn the_language_is_told_by_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let error = build(folder.path(), None).expect_err("there is nothing").to_string();
    assert!(error.contains("is no plugin's folder") && error.contains("Cargo.toml (Rust)"), "{error}");
    let files = [
        ("plugin.c", Language::C),
        ("package.json", Language::JavaScript),
        ("tsconfig.json", Language::TypeScript),
        ("app.py", Language::Python),
        ("go.mod", Language::Go),
        ("Cargo.toml", Language::Rust),
    ];
    for (file, language) in files {
        fs::write(folder.path().join(file), "").unwrap();
        assert_eq!(Language::of(folder.path()).unwrap(), language);
    }
}

#[test]
fn what_has_not_changed_is_not_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let sdk = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let inputs = || Inputs::of(folder.path(), Language::Python).unwrap();
    write("app.py", "1");
    fs::write(sdk.path().join("sdk.py"), "1").unwrap();
    std::os::unix::fs::symlink(sdk.path(), folder.path().join("tidegate")).unwrap();
    let output = folder.path().join("target/app.wasm");
    let built = written(&output, b"component").unwrap();
    assert_eq!(inputs().built(&output), None, "nobody said what it was built of");
    inputs().remember(&built).unwrap();
    assert_eq!(inputs().built(&output), Some(built), "what it was built into is no input");
    fs::write(sdk.path().join("sdk.py"), "2").unwrap();
    assert_eq!(inputs().built(&output), None, "the SDK has changed, behind a link");
    fs::write(sdk.path().join("sdk.py"), "1").unwrap();
    write("other.py", "");
    assert_eq!(inputs().built(&output), None, "a file has come");
    fs::remove_file(folder.path().join("other.py")).unwrap();
    fs::write(&output, b"damaged").unwrap();
    assert_eq!(inputs().built(&output), None, "somebody has written over it");
}

#[test]
fn a_tool_that_is_not_there_is_named() {
    let tool = tool::Tool { program: "no-such-tool", what: "plugins", way: "install it" };
    let error = tool.run(tool.command(Path::new(".")), "compiling").expect_err("it is not there").to_string();
    assert_eq!(error, "no-such-tool is not installed, and plugins need it: install it");
}

#[test]
fn a_crate_that_is_no_plugin_is_told_so() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let error = build(here, None).expect_err("the host is no plugin").to_string();
    assert!(error.starts_with("tidegate is no cdylib: add `crate-type"), "{error}");
}

/// The example plugin from source to rows, with the columns in another order than the plugin's.
#[test]
fn the_settlement_plugin_from_source_to_rows() {
    let limits = PluginLimits::default();
    let plugin = load("plugins/settlement", limits, serde_json::json!({"currency": "EUR"}));
    assert_eq!(plugin.description().name, "settlement");
    let columns = ["payment_id", "created_at", "amount", "status", "event_version", "order_id"];
    let event = |id: u32, amount: &str, currency: &str| {
        format!(
            r#"{{"event_id":"evt-{id}","type":"payment.captured","payment_id":"p-{id}","order_id":"o-1","version":2,
               "occurred_at":"1970-01-01T00:00:01Z","amount":{amount},"currency":"{currency}"}}"#
        )
    };
    let events =
        [event(1, "10.10", "EUR"), event(2, "10", "KRW"), "{".into(), event(3, "-1", "EUR"), event(4, "0", "EUR")];
    let batch = sample::batch(events.map(|text| Some(text.into_bytes())).into());
    let evaluated = evaluate(plugin.as_ref(), &batch, &context("settlements", &columns, limits)).unwrap();
    let words = ["apply 1", "skip currency \"KRW\"", "bad-json", "bad-amount", "apply 1"];
    assert_eq!(sample::codes(&evaluated), words);
    let identity = evaluated[0].identity.as_ref().unwrap();
    assert_eq!((identity.message_id.as_str(), identity.occurred_at_us), ("evt-1", Some(1_000_000)));
    let Verdict::Apply(changes) = &evaluated[0].verdict else { unreachable!("checked above") };
    let [Change { values, .. }] = changes.as_slice() else { unreachable!("checked above") };
    let text = |text: &str| Value::Text(text.to_owned());
    assert_eq!(
        values[..],
        [
            text("p-1"),
            Value::Timestamp(1_000_000),
            Value::Decimal("10.10".into()),
            text("captured"),
            Value::Integer(2),
            text("o-1")
        ]
    );
}

/// A plugin as people write them, breaking in the ways in which they do.
#[test]
fn a_rust_plugin_that_panics_loops_or_takes_all_memory() {
    let limits = PluginLimits {
        cpu_base: Duration::from_millis(50),
        cpu_per_event: Duration::from_millis(1),
        memory: 8 << 20,
        ..PluginLimits::default()
    };
    let plugin = load("tests/guests/broken", limits, serde_json::Value::Null);
    let does = ["apply", "panic", "apply", "loop", "apply", "memory", "skip", "reject", "apply"];
    let event = |(n, does): (usize, &str)| Some(format!(r#"{{"id":"e-{n}","does":"{does}"}}"#).into_bytes());
    let batch = sample::batch(does.into_iter().enumerate().map(event).collect());
    let evaluated = evaluate(plugin.as_ref(), &batch, &context("rows", &["id", "n"], limits)).unwrap();
    assert_eq!(
        sample::codes(&evaluated),
        [
            "apply 1",
            "plugin-trap",
            "apply 1",
            "plugin-cpu",
            "apply 1",
            "plugin-memory",
            "skip asked to",
            "asked-to",
            "apply 1"
        ]
    );
    // The panic's own words reach the dead letter.
    let Verdict::Reject(rejection) = &evaluated[1].verdict else { unreachable!("checked above") };
    assert!(rejection.message.contains(r#"the event "e-1" says so"#), "{}", rejection.message);
}

/// The example of an order-free target: its columns are those that its README configures.
#[test]
fn the_order_summary_plugin_writes_what_its_readme_says() {
    let plugin = load("plugins/order-summary", PluginLimits::default(), serde_json::Value::Null);
    let readme = include_str!("../../../../plugins/README.md");
    let columns = &plugin.description().targets["order_summary"];
    let list = columns.iter().map(|column| format!("{column:?}")).collect::<Vec<_>>().join(", ");
    assert!(readme.contains(&format!("columns = [{list}]")), "{list}");
}
