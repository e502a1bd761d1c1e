//! What an event's function throws rejects that event alone, in its own words.

use tidegate::{
    merge::{ColumnSpec, Merge, Operation, TableName, TargetSpec},
    outcome::Verdict,
    plugin::{EvaluateContext, build::build, evaluate},
};
use tidegate_tests::services::checkout;

use super::{batch, load, same::consumer};

/// One target, `rows`, with one column.
fn context() -> EvaluateContext {
    let target = TargetSpec {
        name: "rows".to_owned(),
        table: TableName { schema: None, name: "rows".to_owned() },
        columns: vec![ColumnSpec { name: "id".to_owned(), merge: Merge::Replace }],
        key: vec![0],
        guard: None,
        operations: [Operation::Upsert].into(),
        soft_delete: None,
    };
    EvaluateContext { targets: [target].into(), ..EvaluateContext::of(&consumer()) }
}

const DOES: [&str; 9] = ["fine", "key", "fine", "compute", "fine", "column", "fine", "value", "fine"];

/// Of the guest in `tests/guests`: each record's code, and the words of what was thrown.
pub(super) fn verdicts(guest: &str, does: &[&str]) -> Vec<(String, String)> {
    let source = checkout().join("tests/guests").join(guest);
    let built = checkout().join(format!("target/guests/{}.wasm", guest.replace('-', "_")));
    let plugin = load(build(&source, Some(&built)).unwrap().path, serde_json::Value::Null);
    let event = |(n, does): (usize, &&str)| Some(format!(r#"{{"id":"e-{n}","does":"{does}"}}"#));
    let payloads: Vec<_> = does.iter().enumerate().map(event).collect();
    let evaluated = evaluate(plugin.as_ref(), &batch(&payloads), &context()).unwrap();
    let word = |verdict| match verdict {
        Verdict::Apply(changes) => (format!("apply {}", changes.len()), String::new()),
        Verdict::Skip(why) => ("skip".to_owned(), why),
        Verdict::Reject(rejection) => (rejection.code, rejection.message),
    };
    evaluated.into_iter().map(|one| word(one.verdict)).collect()
}

/// `said`: of each of the four that throw, words that its message has.
fn assert_thrown(language: &str, code: &str, said: [&str; 4]) {
    let verdicts = verdicts(&format!("thrower-{language}"), &DOES);
    let mut said = said.into_iter();
    for (does, (found, message)) in DOES.iter().zip(&verdicts) {
        if *does == "fine" {
            assert_eq!(found, "apply 1", "{language}: {verdicts:#?}");
        } else {
            let words = said.next().unwrap();
            assert!(found == code && message.contains(words), "{language}, {does}: {words:?} in {verdicts:#?}");
        }
    }
}

#[test]
fn what_javascript_throws_rejects_its_event() {
    let here = "TypeError: cannot read property 'of' of undefined (at stumble";
    assert_thrown(
        "js",
        "exception",
        [here, here, "other is no column that this plugin says it writes to rows", "id: an object has to be a Decimal"],
    );
}

#[test]
fn what_python_raises_rejects_its_event() {
    assert_thrown(
        "python",
        "exception",
        [
            "KeyError: 'nothing of e-1' (app.py:15, in stumble)",
            "KeyError: 'nothing of e-3' (app.py:15, in stumble)",
            "other is no column that this plugin says it writes to rows",
            "id: a value of type object cannot stand in a column",
        ],
    );
}

#[test]
fn a_panic_in_go_rejects_its_event() {
    assert_thrown(
        "go",
        "exception",
        [
            "nil pointer dereference (plugin.go:",
            "nil pointer dereference (plugin.go:",
            "index out of range [3] with length 0 (plugin.go:",
            "cannot stand in a column",
        ],
    );
}

/// There is nothing to catch in C: the instance ends, and the host finds the event.
#[test]
fn a_crash_in_c_rejects_its_event() {
    assert_thrown("c", "plugin-trap", ["no key of e-1", "no rows of e-3", "no rows of e-5", "no rows of e-7"]);
}
