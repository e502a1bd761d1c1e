//! `tidegate plugin check`.

use std::{fs, path::Path, sync::Arc};

use bytes::Bytes;
use serde_json::json;

use super::{
    super::{
        Arguments, Exit,
        console::{answer, complain, configuration},
    },
    arguments::PluginCheckOptions,
    paint::Paint,
    subject::Subject,
};
use crate::{
    check::{self, made_up_messages},
    config::{Consumer, Payload, PluginLimits},
    identity::ConsumerName,
    plugin::{
        Message, Plugin, Runtime,
        anatomy::Anatomy,
        cases::{self, Case, Finding, Input, Says},
        examine::{Sign, examine_keys, micros_per_event},
    },
};

/// Above it a file is worth a look: an interpreter with its library has about 20 MB.
const LARGE: usize = 40 << 20;

pub(super) fn run(arguments: &Arguments, options: &PluginCheckOptions) -> Exit {
    let consumer = match &options.consumer {
        None => None,
        Some(name) => match configured(arguments, name) {
            Ok(consumer) => Some(consumer),
            Err(exit) => return exit,
        },
    };
    let runtime = match Runtime::new(None) {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("cannot start the plugin runtime: {error}"));
            return Exit::Environment;
        }
    };
    let mut told = Told::default();
    if let Err(why) = examine(&runtime, options, consumer.as_ref(), &mut told) {
        complain(&format!("tidegate plugin check: {why}"));
        return Exit::Invalid;
    }
    answer(&if options.json { told.json() } else { told.text(Paint::stdout()) });
    if told.lines.iter().any(|line| line.sign.is_some_and(Sign::is_error)) { Exit::Invalid } else { Exit::Fine }
}

fn configured(arguments: &Arguments, name: &str) -> Result<Consumer, Exit> {
    let (config, _) = configuration(arguments)?;
    let wanted = ConsumerName::new(name);
    let found = config.consumers.into_iter().find(|consumer| wanted.as_ref() == Ok(&consumer.name));
    found.ok_or_else(|| {
        complain(&format!("tidegate plugin check: {} has no consumer {name:?}", arguments.config.display()));
        Exit::Invalid
    })
}

/// Everything that can be looked at; the error is one of what was typed.
fn examine(
    runtime: &Runtime,
    options: &PluginCheckOptions,
    consumer: Option<&Consumer>,
    told: &mut Told,
) -> Result<(), String> {
    let subject = Subject::find(&options.plugin, options.cases.as_deref())?;
    match Anatomy::of(&subject.bytes) {
        Ok(anatomy) => anatomy_told(&anatomy, told),
        Err(why) => {
            told.sign(Sign::NoPlugin, format!("{} {why}", subject.file.display()));
            return Ok(());
        }
    }
    let cases = match &subject.cases {
        Some(folder) => cases::read_folder(folder).map_err(|error| error.to_string())?,
        None => Vec::new(),
    };
    let cases: Vec<Case> = cases.into_iter().map(|(_, case)| case).collect();
    let samples = options.samples.as_deref().map(|file| samples(file, consumer)).transpose()?.unwrap_or_default();

    let limits = consumer.map_or_else(PluginLimits::default, |consumer| consumer.plugin.limits);
    let empty = json!({});
    let of_a_case = cases.first().map_or(&empty, |case| &case.settings);
    let settings = consumer.map_or(of_a_case, |consumer| &consumer.plugin.settings);
    let loaded = subject.load(runtime, limits).and_then(|plugin| plugin.with_settings(settings));
    let plugin = match loaded {
        Ok(plugin) => plugin,
        Err(error) => {
            told.sign(Sign::Refused, error.to_string());
            return Ok(());
        }
    };
    let described = plugin.description();
    told.ok(format!("{} {}, key version {}", described.name, described.version, described.key_version));
    if let Some(consumer) = consumer {
        granted(plugin.as_ref(), consumer, told);
    }

    let as_cases = |input: &Input| Case {
        name: "a sample".to_owned(),
        settings: settings.clone(),
        input: input.clone(),
        expected: None,
    };
    cases_told(&cases::run(&cases, plugin.as_ref(), None), told);
    let tried: Vec<Case> = samples.iter().map(as_cases).collect();
    let report = cases::run(&tried, plugin.as_ref(), None);
    if options.samples.is_some() {
        told.ok(read_told(&report));
    }
    unstable_told(&report, told);

    // Cases of other settings are about another plugin, in effect.
    let like = cases.iter().filter(|case| case.settings == *settings).map(|case| &case.input);
    let mut messages: Vec<Message> = like.chain(&samples).filter_map(Input::message).collect();
    if messages.is_empty() {
        told.sign(Sign::Unseen, "there are neither cases nor samples: made-up messages show little");
        let sources: Vec<Arc<str>> = vec![Arc::from("default")];
        messages = made_up_messages(&sources, consumer.is_some_and(|it| it.payload == Payload::Binary));
    }
    keys_told(plugin.as_ref(), &messages, told);
    speed_told(plugin.as_ref(), &messages, limits, told);
    Ok(())
}

fn anatomy_told(anatomy: &Anatomy, told: &mut Told) {
    match &anatomy.contract {
        Some(version) => told.ok(format!("is built for the contract tidegate:plugin@{version}")),
        None => told.sign(Sign::NoPlugin, "it exports no tidegate:plugin/processor"),
    }
    let foreign: Vec<&str> =
        anatomy.imports.iter().map(String::as_str).filter(|name| !name.starts_with("tidegate:plugin/")).collect();
    // Whether WASI is served is the sandbox's decision, which shows when the plugin is loaded.
    let wanted: Vec<&str> = foreign.iter().copied().filter(|name| !name.starts_with("wasi:")).collect();
    match (wanted.is_empty(), foreign.is_empty()) {
        (true, true) => told.ok("imports nothing but the contract's own".to_owned()),
        (true, false) => {
            told.ok(format!(
                "imports {} interfaces of WASI, none of which grants anything (docs/sandbox.md)",
                foreign.len()
            ));
        }
        (false, _) => told.sign(Sign::Imports, wanted.join(", ")),
    }
    if anatomy.size > LARGE {
        told.sign(Sign::Size, format!("{} MiB", anatomy.size >> 20));
    } else {
        told.ok(format!("has {} bytes", anatomy.size));
    }
}

fn granted(plugin: &dyn Plugin, consumer: &Consumer, told: &mut Told) {
    let mut any = false;
    for (text, stops) in check::grant_mismatches(plugin.description(), consumer) {
        any = true;
        if stops {
            told.sign(Sign::Grants, text);
        } else {
            told.ok(text);
        }
    }
    if !any {
        told.ok(format!("writes what {} grants", consumer.name));
    }
}

fn cases_told(report: &cases::Report, told: &mut Told) {
    if report.cases.is_empty() {
        return;
    }
    unstable_told(report, told);
    let is_instability = |finding: &Finding| matches!(finding, Finding::Unstable(_) | Finding::Company(_));
    let wrong: Vec<_> = report.failed().filter(|(_, finding)| !is_instability(finding)).map(|(name, _)| name).collect();
    if wrong.is_empty() {
        told.ok(format!("golden cases: {}", report.cases.len()));
    } else {
        told.sign(Sign::Cases, format!("{} of {}: {}", wrong.len(), report.cases.len(), wrong.join(", ")));
    }
}

/// What the plugin said of the samples: where it rejects or skips all of them, the rest of the check shows nothing.
fn read_told(report: &cases::Report) -> String {
    let (mut applied, mut rejected, mut skipped) = (0, 0, 0);
    for case in &report.cases {
        match case.actual.as_ref().map(|answer| &answer.says) {
            Some(Says::Apply(_)) => applied += 1,
            Some(Says::Reject(..)) => rejected += 1,
            Some(Says::Skip(_)) => skipped += 1,
            None => {}
        }
    }
    let all = report.cases.len();
    let broke = match all - applied - rejected - skipped {
        0 => String::new(),
        some => format!(", {some} without an answer"),
    };
    format!("{all} samples read: {applied} applied, {rejected} rejected, {skipped} skipped{broke}")
}

fn unstable_told(report: &cases::Report, told: &mut Told) {
    let seen = report.failed().find_map(|(name, finding)| match finding {
        Finding::Unstable(_) => Some(format!("{name}: the same input gave another answer in a second instance")),
        Finding::Company(_) => Some(format!("{name}: the answer depends on what else is in the batch")),
        _ => None,
    });
    if let Some(seen) = seen {
        told.sign(Sign::NotDeterministic, seen);
    }
}

fn keys_told(plugin: &dyn Plugin, messages: &[Message], told: &mut Told) {
    match examine_keys(plugin, messages) {
        Ok(found) if found.is_empty() => told.ok(format!("keys of {} messages show no danger sign", messages.len())),
        Ok(found) => found.into_iter().for_each(|found| told.sign(found.sign, found.seen)),
        Err(error) => told.sign(Sign::Refused, format!("it broke on a message: {error}")),
    }
}

fn speed_told(plugin: &dyn Plugin, messages: &[Message], limits: PluginLimits, told: &mut Told) {
    // What breaks was told with the keys.
    let Ok(Some(micros)) = micros_per_event(plugin, messages) else { return };
    let allowed = limits.cpu_per_event.as_secs_f64() * 1e6;
    let text = format!("{micros:.1} µs per event in batches of 500; {allowed:.0} µs of CPU time are allowed");
    if micros > allowed / 2.0 {
        told.sign(Sign::Slow, text);
    } else {
        told.ok(text);
    }
}

/// One body per line.
fn samples(file: &Path, consumer: Option<&Consumer>) -> Result<Vec<Input>, String> {
    let content = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let source = consumer.and_then(|it| it.topics.first()).map_or("default", |topic| &topic.source).to_owned();
    let lines = content.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let input = |line: &[u8]| Input {
        source: source.clone(),
        payload: consumer.map_or(Payload::Text, |it| it.payload),
        key: None,
        body: Some(Bytes::copy_from_slice(line)),
        headers: Vec::new(),
        record_time_ms: None,
    };
    Ok(lines.filter(|line| !line.is_empty()).map(input).collect())
}

/// What was seen, in order.
#[derive(Default)]
struct Told {
    lines: Vec<Line>,
}

struct Line {
    sign: Option<Sign>,
    text: String,
}

impl Told {
    fn ok(&mut self, text: String) {
        self.lines.push(Line { sign: None, text });
    }

    fn sign(&mut self, sign: Sign, text: impl Into<String>) {
        self.lines.push(Line { sign: Some(sign), text: text.into() });
    }

    fn text(&self, paint: Paint) -> String {
        let line = |line: &Line| match line.sign {
            None => format!("{} {}", paint.green("✓"), line.text),
            Some(sign) => {
                let mark = if sign.is_error() { paint.red("✗") } else { paint.yellow("!") };
                format!("{mark} {} {}: {}\n    → {}", sign.code(), sign.title(), line.text, sign.way_out())
            }
        };
        self.lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn json(&self) -> String {
        let line = |line: &Line| match line.sign {
            None => json!({"mark": "ok", "text": line.text}),
            Some(sign) => json!({
                "mark": if sign.is_error() { "error" } else { "warning" }, "code": sign.code(), "title": sign.title(),
                "text": line.text, "help": sign.way_out(),
            }),
        };
        let ok = !self.lines.iter().any(|line| line.sign.is_some_and(Sign::is_error));
        json!({"ok": ok, "lines": self.lines.iter().map(line).collect::<Vec<_>>()}).to_string()
    }
}
