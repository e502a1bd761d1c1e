#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's panic is its failure")]

use std::{
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
};

use proptest::prelude::*;

use super::{folder::with_answer, *};
use crate::{
    config::{PluginLimits, Tombstones},
    plugin::{ComputeResult, EvaluateContext, KeyResult, Message, RawIdentity, Shape, evaluate, native::Native},
    record::{Batch, Header, Record, Run, TopicPartition},
};

const CASE: &str = r#"# Why this case is here.
settings = { currency = "EUR", since = 2026-03-01T00:00:00Z }
key = "order-1"
record_time = 2026-03-01T12:00:05.250Z
body = '{"id":"evt-1","amount":10.10}'   # as produced
headers = [{ name = "ce_type", value = "paid" }, { name = "empty" }, { name = "raw", value_base64 = "/w==" }]

[identity]
message_id = "evt-1"
aggregate_id = "order-1"
occurred_at = 2026-03-01T12:00:00.000001Z

[[change]]
upsert = "rows"
row.id = "evt-1"
row.amount = { decimal = "10.10" }
row.note = { null = true }
"#;

#[test]
fn a_case_is_read_as_it_is_written() {
    let case = parse("paid", CASE).unwrap();
    assert_eq!(case.settings, serde_json::json!({"currency": "EUR", "since": "2026-03-01T00:00:00Z"}));
    assert_eq!(case.input.body.as_deref(), Some(br#"{"id":"evt-1","amount":10.10}"#.as_slice()));
    assert_eq!(case.input.key.as_deref(), Some(b"order-1".as_slice()));
    assert_eq!(case.input.record_time_ms, Some(1_772_366_405_250));
    let values: Vec<_> = case.input.headers.iter().map(|header| header.value.as_deref()).collect();
    assert_eq!(values, [Some(b"paid".as_slice()), None, Some(b"\xff".as_slice())]);
    let expected = case.expected.unwrap();
    assert_eq!(expected.identity.unwrap().occurred_at_us, Some(1_772_366_400_000_001));
    let Says::Apply(changes) = expected.says else { panic!("it has a change") };
    assert!(changes[0].row.contains(&("amount".into(), Value::Decimal("10.10".into()))));
}

#[test]
fn an_answer_is_renewed_without_touching_what_people_wrote() {
    let answer = Answer { identity: None, says: Says::Skip(Some("type \"x\"".into())) };
    let text = with_answer(CASE, &answer).unwrap();
    let input = CASE.split("\n[identity]").next().unwrap();
    assert_eq!(text, format!("{input}\n[skip]\nreason = 'type \"x\"'\n"));
    assert_eq!(parse("paid", &text).unwrap().expected, Some(answer));
}

#[test]
fn mistakes_are_named_with_what_is_allowed() {
    for (text, says) in [
        ("", "needs its body, body_base64 or tombstone = true"),
        ("body = ''\ntombstone = true", "a tombstone has no body"),
        ("body = ''\nbodi = ''", "unknown field `bodi`"),
        ("body = ''\n[[changes]]\nupsert = 'x'", "unknown field `changes`"),
        ("body = ''\n[skip]\n[reject]\ncode = 'x'", "one of [[change]], [skip] and [reject]"),
        ("body = ''\n[[change]]\nupsert = 't'\nrow.a = 1", "needs its [identity]"),
        ("body = ''\n[identity]\nmessage_id = 'm'\naggregate_id = 'a'\n[[change]]\nrow.a = 1", "one of upsert, update"),
        (
            "body = ''\n[identity]\nmessage_id = 'm'\naggregate_id = 'a'\n[[change]]\nupsert = 't'\nrow.a = { dec = '1' }",
            "t: row.a says dec = \"1\"; a value is a string",
        ),
        ("body = ''\n[identity]\nmessage_id = 'm'\naggregate_id = 'a'\noccurred_at = 2026-03-01", "no RFC 3339"),
        ("body = ''\nrecord_time = 2026-03-01T00:00:00.0001Z", "finer than Kafka's milliseconds"),
        ("body_base64 = '?'", "body_base64 is no base64"),
        ("body = ''\nkey = ''\nkey_base64 = ''", "key and key_base64: give one of them"),
    ] {
        let error = parse("x", text).expect_err(text);
        assert!(error.contains(says), "{text}: {error}");
    }
}

/// A plugin over bodies that are words: an id, and what to do.
fn words() -> Native {
    let word = |message: &Message, place: usize| {
        let crate::plugin::Body::Text(bytes) = &message.body else { return String::new() };
        String::from_utf8_lossy(bytes).split(' ').nth(place).unwrap_or_default().to_owned()
    };
    let columns = ["id", "amount"].map(str::to_owned).to_vec();
    let shape = |operation, columns: &[String]| Shape { operation, target: "rows".into(), columns: columns.to_vec() };
    Native::new("words")
        .shapes(vec![shape(Operation::Upsert, &columns), shape(Operation::Delete, &columns[..1])])
        .keys(move |message| match word(message, 1).as_str() {
            "skip" => KeyResult::Skip("asked to".into()),
            "reject" => KeyResult::Reject("bad".into(), "asked to".into()),
            _ => KeyResult::Identity(RawIdentity {
                message_id: word(message, 0),
                aggregate_id: "a".into(),
                occurred_at: None,
                fingerprint: None,
            }),
        })
        .compute(move |message, _| {
            let id = Value::Text(word(message, 0));
            ComputeResult::Changes(match word(message, 1).as_str() {
                "delete" => vec![(1, vec![id])],
                amount => vec![(0, vec![id, Value::Decimal(amount.to_owned())])],
            })
        })
        .traps(|_, message| matches!(&message.body, crate::plugin::Body::Text(text) if text.ends_with(b"trap")))
}

fn case(name: &str, text: &str) -> Case {
    parse(name, text).unwrap()
}

fn run_on(plugin: Native, cases: &[Case]) -> Report {
    run(cases, &plugin, None)
}

const IDENTITY: &str = "\n[identity]\nmessage_id = 'e'\naggregate_id = 'a'\n";

#[test]
fn every_kind_of_answer_is_told_from_every_other() {
    let upsert = |amount: &str| {
        format!("body = 'e 1.50'{IDENTITY}[[change]]\nupsert = 'rows'\nrow.amount = {amount}\nrow.id = 'e'\n")
    };
    let right = [
        case("upsert", &upsert("{ decimal = '1.50' }")),
        case("delete", &format!("body = 'e delete'{IDENTITY}[[change]]\ndelete = 'rows'\nrow.id = 'e'\n")),
        case("skip", "body = 'e skip'\n[skip]\n"),
        case("skip with its words", "body = 'e skip'\n[skip]\nreason = 'asked to'\n"),
        case("reject", "body = 'e reject'\n[reject]\ncode = 'bad'\n"),
        case("trap", "body = 'e trap'\n[reject]\ncode = 'plugin-trap'\n"),
    ];
    let report = run_on(words(), &right);
    assert!(report.passed(), "{:?}", report.failed().collect::<Vec<_>>());

    let wrong = [
        // The same number is not the same digits, and not the same kind.
        upsert("{ decimal = '1.5' }"),
        upsert("1.5"),
        upsert("'1.50'"),
        upsert("{ decimal = '1.50' }").replace("upsert", "update"),
        upsert("{ decimal = '1.50' }").replace("message_id = 'e'", "message_id = 'f'"),
        upsert("{ decimal = '1.50' }") + "row.more = 1\n",
        "body = 'e 1.50'\n[skip]".to_owned(),
        "body = 'e skip'\n[skip]\nreason = 'other words'".to_owned(),
        "body = 'e reject'\n[reject]\ncode = 'worse'".to_owned(),
        format!("body = 'e 1.50'{IDENTITY}"),
    ];
    for text in wrong {
        let report = run_on(words(), &[case("wrong", &text)]);
        assert!(matches!(report.cases[0].finding, Some(Finding::Wrong(_))), "{text}: {:?}", report.cases[0].finding);
    }
}

#[test]
fn a_difference_shows_the_lines_that_differ() {
    let text = format!(
        "body = 'e 1.50'{IDENTITY}[[change]]\nupsert = 'rows'\nrow.amount = {{ decimal = '1.5' }}\nrow.id = 'e'\n"
    );
    let report = run_on(words(), &[case("wrong", &text)]);
    let Some(Finding::Wrong(difference)) = &report.cases[0].finding else { panic!("it differs") };
    let shown = difference.to_string();
    let head = "  [identity]\n  message_id = \"e\"\n  aggregate_id = \"a\"\n  \n  [[change]]\n  upsert = \"rows\"\n";
    let tail = "  row.id = \"e\"\n- row.amount = { decimal = \"1.5\" }\n+ row.amount = { decimal = \"1.50\" }";
    assert_eq!(shown, format!("{head}{tail}"));
    assert!(difference.coloured().contains("\x1b[31m- row.amount"));
}

#[test]
fn what_is_not_deterministic_or_depends_on_its_company_is_found() {
    let count = AtomicI64::new(0);
    let restless = words().compute(move |_, _| {
        let n = count.fetch_add(1, Ordering::Relaxed);
        ComputeResult::Changes(vec![(0, vec![Value::Text("e".into()), Value::Integer(n)])])
    });
    let text = format!("body = 'e 1'{IDENTITY}[[change]]\nupsert = 'rows'\nrow.id = 'e'\nrow.amount = 0\n");
    let report = run_on(restless, &[case("restless", &text)]);
    assert!(matches!(report.cases[0].finding, Some(Finding::Unstable(_))), "{:?}", report.cases[0].finding);

    // Its place in the batch, as state between events would do it.
    let sociable = words().compute(|_, accepted| {
        ComputeResult::Changes(vec![(0, vec![Value::Text("e".into()), Value::Integer(accepted.index.into())])])
    });
    let report = run_on(sociable, &[case("one", &text), case("two", &text)]);
    assert!(matches!(report.cases[0].finding, Some(Finding::Company(_))), "{:?}", report.cases[0].finding);
    assert_eq!(report.cases[1].finding, None, "it stands first in the reversed batch");
}

/// A case is answered on the same message as the record that it was made of, whatever is special about that.
#[test]
fn a_plugin_sees_the_same_in_a_case_as_on_the_path() {
    let header = |name: &str| Header { name: name.to_owned(), value: Some("v".into()) };
    let record = |body: Option<&'static [u8]>| Record {
        offset: 77,
        timestamp_ms: Some(5),
        key: Some("k".into()),
        payload: body.map(Into::into),
        headers: vec![header("ce_type"), header("kafka_dlt-original-offset"), header("x-retry-topic")],
    };
    // What a plugin was asked about, in the order of asking.
    let asked = |payload: Payload, ask: &dyn Fn(Payload, &Native)| {
        let seen = Arc::new(Mutex::new(Vec::<Message>::new()));
        let plugin = {
            let seen = Arc::clone(&seen);
            Native::new("looking").keys(move |message| {
                seen.lock().unwrap().push(message.clone());
                KeyResult::Skip("seen".into())
            })
        };
        ask(payload, &plugin);
        drop(plugin);
        Arc::into_inner(seen).unwrap().into_inner().unwrap()
    };
    for payload in [Payload::Text, Payload::Binary] {
        for (body, is_shown) in [
            (Some(&b"text"[..]), true),
            (Some(&b""[..]), true),
            (None, true),
            (Some(&b"\xff no text"[..]), payload == Payload::Binary),
        ] {
            let on_the_path = asked(payload, &|payload, plugin| {
                let partition = TopicPartition {
                    cluster_id: "c".into(),
                    topic_id: uuid::Uuid::nil(),
                    topic: "order.events".into(),
                    partition: 3,
                };
                let run = Run {
                    partition: Arc::new(partition),
                    generation: 1,
                    first_offset: 77,
                    next_offset: 78,
                    records: 0..1,
                };
                let context = EvaluateContext {
                    payload,
                    tombstones: Tombstones::Plugin,
                    sources: [(Arc::from("order.events"), Arc::from("orders"))].into(),
                    targets: Arc::from([]),
                    limits: PluginLimits::default(),
                    max_broken: 0,
                };
                evaluate(plugin, &Batch { runs: vec![run], records: vec![record(body)] }, &context).unwrap();
            });
            assert_eq!(on_the_path.len(), usize::from(is_shown), "{body:?}");
            assert!(
                on_the_path
                    .iter()
                    .all(|message| message.headers == [header("ce_type")] && &*message.source == "orders")
            );

            // Written by hand with all that the record has, and captured: as it is written down and read again.
            let by_hand = Input {
                source: "orders".into(),
                payload,
                key: Some("k".into()),
                body: record(body).payload,
                headers: record(body).headers,
                record_time_ms: Some(5),
            };
            let captured = on_the_path.first().map(|message| Input::seen(message.clone(), payload, Some(5)));
            for input in [Some(by_hand), captured].into_iter().flatten() {
                assert_eq!(input.message().as_slice(), on_the_path, "as `plugin check` looks at it");
                let case = Case { name: "c".into(), settings: serde_json::json!({}), input, expected: None };
                let case = Case { expected: None, ..parse("c", &render_input(&case, "").unwrap()).unwrap() };
                let in_a_case = asked(payload, &|_, plugin| drop(run(std::slice::from_ref(&case), plugin, None)));
                // Asked twice, in fresh instances; the grants are derived by one more look.
                assert!(
                    in_a_case.len() >= 2 * on_the_path.len()
                        && in_a_case.iter().all(|message| [message] == [&on_the_path[0]])
                );
            }
        }
    }
}

#[test]
fn a_plugin_that_cannot_be_had_fails_the_cases_of_its_settings() {
    let cases =
        [case("one", "body = 'e skip'\nsettings = { bad = true }\n[skip]"), case("two", "body = 'e skip'\n[skip]")];
    let plugin = words().configure(|plugin, settings| match settings.get("bad") {
        Some(_) => Err("bad".to_owned()),
        None => Ok(plugin.clone()),
    });
    let report = run(&cases, &plugin, None);
    assert!(matches!(&report.cases[0].finding, Some(Finding::Broke(why)) if why.contains("refuses its settings")));
    assert_eq!(report.cases[1].finding, None);
}

#[test]
fn what_is_granted_binds() {
    let text = format!("body = 'e delete'{IDENTITY}[[change]]\ndelete = 'rows'\nrow.id = 'e'\n");
    let granted: Arc<[_]> = Arc::from([]);
    let report = run(&[case("delete", &text)], &words(), Some(&granted));
    assert!(matches!(&report.cases[0].finding, Some(Finding::Broke(why)) if why.contains("is not granted")));
}

#[test]
fn a_folder_is_run_and_updated() {
    let folder = tempfile::tempdir().unwrap();
    let (skip, upsert) = (folder.path().join("skip.toml"), folder.path().join("upsert.toml"));
    fs::write(&skip, "# words\nbody = 'e skip'\n").unwrap();
    fs::write(&upsert, "body = 'e 1.50'\n").unwrap();
    fs::write(folder.path().join("README.md"), "no case").unwrap();

    let report = run_folder(folder.path(), &words(), None).unwrap();
    assert_eq!(report.failed().collect::<Vec<_>>(), [("skip", &Finding::Open), ("upsert", &Finding::Open)]);
    for (path, case) in [&skip, &upsert].into_iter().zip(&report.cases) {
        update(path, case.actual.as_ref().unwrap()).unwrap();
    }
    assert_eq!(fs::read_to_string(&skip).unwrap(), "# words\nbody = 'e skip'\n\n[skip]\nreason = \"asked to\"\n");
    assert!(run_folder(folder.path(), &words(), None).unwrap().passed());

    fs::write(&skip, "body = ").unwrap();
    let error = run_folder(folder.path(), &words(), None).expect_err("no case").to_string();
    assert!(error.starts_with(&skip.display().to_string()), "{error}");
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Boolean),
        any::<i64>().prop_map(Value::Integer),
        proptest::num::f64::ANY.prop_filter("NaN equals nothing", |x| !x.is_nan()).prop_map(Value::Real),
        "-?[0-9]{1,40}(\\.[0-9]{1,40})?".prop_map(Value::Decimal),
        any::<String>().prop_map(Value::Text),
        ".*".prop_map(Value::Json),
        any::<Vec<u8>>().prop_map(Value::Bytes),
        any::<i64>().prop_map(Value::Timestamp),
        (-62_135_596_801_000_000i64..253_402_300_800_000_000).prop_map(Value::Timestamp),
    ]
}

fn any_answer() -> impl Strategy<Value = Answer> {
    let row = prop::collection::btree_map(any::<String>(), any_value(), 0..5).prop_map(|row| row.into_iter().collect());
    let operation = prop_oneof![Just(Operation::Upsert), Just(Operation::Update), Just(Operation::Delete)];
    let change =
        (operation, any::<String>(), row).prop_map(|(operation, target, row)| RowChange { operation, target, row });
    let who = (any::<String>(), any::<String>(), any::<Option<i64>>(), any::<Option<[u8; 16]>>()).prop_map(
        |(message_id, aggregate_id, occurred_at_us, fingerprint)| Who {
            message_id,
            aggregate_id,
            occurred_at_us,
            fingerprint,
        },
    );
    prop_oneof![
        (who.clone(), prop::collection::vec(change, 0..4))
            .prop_map(|(who, changes)| Answer { identity: Some(who), says: Says::Apply(changes) }),
        (prop::option::of(who.clone()), any::<Option<String>>())
            .prop_map(|(identity, reason)| Answer { identity, says: Says::Skip(reason) }),
        (prop::option::of(who), any::<String>(), any::<Option<String>>())
            .prop_map(|(identity, code, message)| Answer { identity, says: Says::Reject(code, message) }),
    ]
}

fn any_bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![any::<String>().prop_map(Bytes::from), any::<Vec<u8>>().prop_map(Bytes::from)]
}

fn any_input() -> impl Strategy<Value = Input> {
    let header = (any::<String>(), prop::option::of(any_bytes())).prop_map(|(name, value)| Header { name, value });
    (
        "[a-z]{1,8}",
        any::<bool>(),
        prop::option::of(any_bytes()),
        prop::option::of(any_bytes()),
        prop::collection::vec(header, 0..3),
        prop::option::of(0..253_402_214_400_000i64),
    )
        .prop_map(|(source, binary, key, body, headers, record_time_ms)| Input {
            source,
            payload: if binary { Payload::Binary } else { Payload::Text },
            key,
            body,
            headers,
            record_time_ms,
        })
}

proptest! {
    /// So that equal texts are equal answers, and a difference of values is a difference of texts.
    #[test]
    fn any_answer_comes_back_from_its_text(answer in any_answer()) {
        let text = format!("body = ''\n{}", render_answer(&answer));
        let back = parse("x", &text).map_err(TestCaseError::fail)?.expected.unwrap();
        prop_assert_eq!(render_answer(&back), render_answer(&answer));
        prop_assert_eq!(Difference::between(&answer, &back), None);
        let sorted = |mut answer: Answer| {
            if let Says::Apply(changes) = &mut answer.says {
                changes.iter_mut().for_each(|change| change.row.sort_by(|a, b| a.0.cmp(&b.0)));
            }
            answer
        };
        prop_assert_eq!(sorted(back), sorted(answer));
    }

    #[test]
    fn any_input_comes_back_from_its_text(input in any_input()) {
        let settings = serde_json::json!({"a": [1, 2.5, "x", {"b": true}], "": {}});
        let case = Case { name: "x".into(), settings, input, expected: None };
        let text = render_input(&case, "captured").map_err(TestCaseError::fail)?;
        prop_assert_eq!(parse("x", &text).map_err(TestCaseError::fail)?, case.clone());
        // What is expected is added without a change of the input.
        let answer = Answer { identity: None, says: Says::Skip(None) };
        let both = parse("x", &with_answer(&text, &answer).map_err(TestCaseError::fail)?).map_err(TestCaseError::fail)?;
        prop_assert_eq!(both, Case { expected: Some(answer), ..case });
    }
}
