//! One plugin in every language, on generated events.

use std::{collections::HashMap, path::Path, sync::Arc};

use tidegate::{
    config,
    merge::{Column, ColumnType, Target, TypedChange, type_change},
    outcome::{Evaluated, Verdict},
    plugin::{EvaluateContext, Plugin, cases, evaluate},
};
use tidegate_tests::{host, services::checkout};

use super::{batch, generate, load};

/// The first is what the others are held against.
const LANGUAGES: [&str; 6] =
    ["settlement", "settlement_c", "settlement_js", "settlement_ts", "settlement_go", "settlement_python"];
const SEED: u64 = 20_260_301;

/// The consumer that the example's README configures.
pub(super) fn consumer() -> config::Consumer {
    let readme = std::fs::read_to_string(checkout().join("plugins/README.md")).unwrap();
    let text = crate::documents::blocks(&readme, "toml").remove(0);
    let loaded = config::parse(&text, Path::new("plugins/README.md"), &|_| None).unwrap();
    loaded.config.consumers.into_iter().find(|consumer| consumer.name.as_str() == "settlement-service").unwrap()
}

/// Its table, as PostgreSQL has it.
fn target(consumer: &config::Consumer) -> Target {
    let spec = consumer.targets[0].clone();
    let column_type = |name: &str| match name {
        "amount" => ColumnType::Numeric(Some((18, 4))),
        "event_version" => ColumnType::Int(8),
        "created_at" => ColumnType::Timestamptz(6),
        "status" => ColumnType::Text(None),
        _ => ColumnType::Text(Some(120)),
    };
    let column = |name: &str| Column {
        name: name.to_owned(),
        column_type: column_type(name),
        sql_type: String::new(),
        nullable: false,
        host_compares: false,
    };
    let columns = spec.columns.iter().map(|one| column(&one.name)).collect();
    Target { table: spec.table.clone(), spec, columns, soft: None, references: Vec::new(), foldable: false }
}

/// What becomes of an event, as far as it may not differ: everything but the words of a rejection, which are for people.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    /// Who it is, and the values that go to the database.
    Rows(String, Vec<TypedChange>),
    Skip(String),
    Reject(String),
}

fn answer(evaluated: Evaluated, target: &Target) -> Answer {
    let changes = match evaluated.verdict {
        Verdict::Skip(why) => return Answer::Skip(why),
        Verdict::Reject(rejection) => {
            assert!(!rejection.message.is_empty(), "a rejection says why");
            assert!(!rejection.is_by_host(), "{rejection:?}");
            return Answer::Reject(rejection.code);
        }
        Verdict::Apply(changes) => changes,
    };
    let typed: Result<Vec<_>, _> = changes.into_iter().map(|change| type_change(target, 0, 0, change)).collect();
    match typed {
        Ok(rows) => Answer::Rows(format!("{:?}", evaluated.identity), rows),
        Err(rejection) => Answer::Reject(format!("{}: {}", rejection.code, rejection.message)),
    }
}

struct Suite {
    consumer: config::Consumer,
    target: Target,
}

impl Suite {
    fn new() -> Self {
        let consumer = consumer();
        let target = target(&consumer);
        Self { consumer, target }
    }

    fn load(&self, name: &str) -> Arc<dyn Plugin> {
        load(host::plugin(name), serde_json::json!({"currency": "EUR"}))
    }

    fn answers(&self, plugin: &dyn Plugin, payloads: &[Option<String>], size: usize) -> Vec<Answer> {
        let context = EvaluateContext {
            tombstones: config::Tombstones::Plugin,
            max_broken: 0,
            ..EvaluateContext::of(&self.consumer)
        };
        let answers = payloads.chunks(size).flat_map(|some| {
            let evaluated = evaluate(plugin, &batch(some), &context);
            let evaluated = evaluated.unwrap_or_else(|error| panic!("{}: {error}", plugin.description().name));
            evaluated.into_iter().map(|one| answer(one, &self.target)).collect::<Vec<_>>()
        });
        answers.collect()
    }
}

#[test]
fn every_language_gives_the_same_answers() {
    let suite = Suite::new();
    let payloads = generate::payloads(SEED, 1_000);
    let expected = suite.answers(suite.load(LANGUAGES[0]).as_ref(), &payloads, 500);
    assert_worth_asking(&expected);
    for language in &LANGUAGES[1..] {
        let plugin = suite.load(language);
        assert_eq!(plugin.description().name, "settlement");
        let found = suite.answers(plugin.as_ref(), &payloads, 500);
        let other: Vec<_> = (0..payloads.len()).filter(|&at| found[at] != expected[at]).collect();
        for &at in other.iter().take(8) {
            eprintln!("{language} of {:?}:\n  {:?}\n  instead of {:?}", payloads[at], found[at], expected[at]);
        }
        assert!(other.is_empty(), "{language} answers otherwise to {} of {} events", other.len(), payloads.len());
        // In other company, and alone.
        let some: Vec<_> = payloads.iter().rev().take(100).cloned().collect();
        let alone = suite.answers(plugin.as_ref(), &some, 1);
        assert!(alone.iter().eq(expected.iter().rev().take(100)), "{language}: alone, some events get other answers");
    }
}

/// The golden cases of the Rust plugin are those of all.
#[test]
fn every_language_passes_the_golden_cases() {
    let suite = Suite::new();
    for language in LANGUAGES {
        let folder = checkout().join("plugins/settlement/cases");
        let report = cases::run_folder(&folder, suite.load(language).as_ref(), None).unwrap();
        assert!(report.cases.len() >= 5);
        assert!(report.passed(), "{language}: {:#?}", report.failed().collect::<Vec<_>>());
    }
}

/// Holds the generator to what it is for: every kind of answer, and most events good ones.
fn assert_worth_asking(answers: &[Answer]) {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for answer in answers {
        let kind = match answer {
            Answer::Rows(..) => "rows",
            Answer::Skip(why) => why.split(' ').next().unwrap(),
            Answer::Reject(code) => code.split(':').next().unwrap(),
        };
        *counts.entry(kind).or_default() += 1;
    }
    assert!(counts["rows"] > answers.len() / 4, "{counts:?}");
    for kind in
        ["type", "currency", "tombstone", "bad-json", "bad-amount", "bad-message-id", "bad-occurred-at", "bad-value"]
    {
        assert!(counts.get(kind).is_some_and(|&count| count >= 2), "{kind}: {counts:?}");
    }
}
