//! `tidegate plugin capture`: real messages become cases.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    super::{
        Arguments, Exit,
        console::{answer, complain, configuration},
        reading,
    },
    arguments::CaptureOptions,
};
use crate::{
    atomic_file,
    config::{Config, Consumer},
    plugin::{
        EvaluateContext, Message, Runtime,
        cases::{self, Case, Finding, Input},
        redact::Redaction,
    },
    source::kafka::{Begin, Seen},
};

pub(super) fn run(arguments: &Arguments, options: &CaptureOptions) -> Exit {
    let config = match configuration(arguments) {
        Ok((config, _)) => config,
        Err(exit) => return exit,
    };
    match capture(&config, options) {
        Ok(text) => {
            answer(&text);
            Exit::Fine
        }
        Err((exit, why)) => {
            complain(&format!("tidegate plugin capture: {why}"));
            exit
        }
    }
}

type Failed = (Exit, String);

fn capture(config: &Config, options: &CaptureOptions) -> Result<String, Failed> {
    let invalid = |why: String| (Exit::Invalid, why);
    let consumer = config.consumers.iter().find(|consumer| consumer.name.as_str() == options.consumer);
    let consumer = consumer.ok_or_else(|| invalid(format!("there is no consumer {:?}", options.consumer)))?;
    let (without_settings, fields): (Vec<String>, Vec<String>) =
        options.redact.iter().cloned().partition(|field| field.trim() == "@settings");
    let mut redaction = Redaction::parse(&fields).map_err(invalid)?;
    let begin = match &options.from {
        // Enough of each partition, whichever of them has the newest.
        None => Begin::Newest(i64::try_from(options.max).unwrap_or(i64::MAX)),
        Some(text) => reading::begin(text).map_err(|why| invalid(format!("--from {why}")))?,
    };
    let environment = |error: crate::source::SourceError| (Exit::Environment, error.to_string());
    let mut topics = reading::open(config, consumer, begin).map_err(environment)?;

    let settings = if without_settings.is_empty() { consumer.plugin.settings.clone() } else { serde_json::json!({}) };
    let has_settings = settings.as_object().is_some_and(|settings| !settings.is_empty());
    let folder = &options.cases;
    let (mut these, mut left_out) = (Vec::new(), 0);
    let context = EvaluateContext::of(consumer);
    while these.len() < options.max {
        let seen = topics.read(options.max - these.len()).map_err(environment)?;
        if seen.is_empty() {
            break;
        }
        for one in seen {
            let name = format!("captured-{}-{}-{}", one.topic, one.partition, one.record.offset);
            let Some(mut input) = input(&context, &one) else { continue };
            if redaction.apply(&mut input).is_err() {
                left_out += 1;
                continue;
            }
            these.push(Case { name, settings: settings.clone(), input, expected: None });
        }
    }
    // Before anything is written: what was meant to be left out would be in it.
    if !these.is_empty() {
        refuse_unmet(&redaction, these.len()).map_err(invalid)?;
    }
    std::fs::create_dir_all(folder).map_err(|error| (Exit::Environment, format!("{}: {error}", folder.display())))?;
    let (mut files, mut known) = (Vec::new(), 0);
    for case in these {
        match write(folder, &case).map_err(invalid)? {
            Some(file) => files.push((file, case)),
            None => known += 1,
        }
    }
    let (answered, broke) = expect(config, consumer, &files)?;
    let mut text = format!("{} captured into {}", files.len(), folder.display());
    if known > 0 {
        text += &format!(", {known} were there already");
        if !options.redact.is_empty() {
            text += " and stay as they are: this run redacted nothing in them (remove them to have them captured anew)";
        }
    }
    if left_out > 0 {
        text += &format!(", {left_out} left out since they are no JSON in which the fields to redact could be found");
    }
    text += &format!(
        ".\n{answered} of them say what the plugin says now: read them before you take it for right, and before you commit \
         what real people have sent."
    );
    if let Some(broke) = broke {
        text += &format!("\nOf others it could not: {broke}");
    }
    if has_settings {
        text += "\nThey have the consumer's settings in them, too (--redact @settings leaves these out).";
    }
    Ok(text)
}

/// A field that none of the messages has was mistyped, as likely as not.
fn refuse_unmet(redaction: &Redaction, messages: usize) -> Result<(), String> {
    let unmet: Vec<&str> = redaction.unmet().collect();
    if unmet.is_empty() {
        return Ok(());
    }
    Err(format!(
        "--redact {}: none of the {messages} messages read has it, so nothing was written; put it right, or leave it away",
        unmet.join(",")
    ))
}

/// As the plugin sees it; `None` where it is not asked.
fn input(context: &EvaluateContext, seen: &Seen) -> Option<Input> {
    let source = context.source_of(&seen.topic);
    let message = Message::of(&seen.record, &source, context.payload, context.tombstones).ok()?;
    Some(Input::seen(message, context.payload, seen.record.timestamp_ms.filter(|&ms| ms >= 0)))
}

/// A new file; `None` where it is there: somebody may have worked on it.
fn write(folder: &Path, case: &Case) -> Result<Option<PathBuf>, String> {
    let path = folder.join(format!("{}.toml", case.name));
    let text = cases::render_input(case, "Captured from a topic.")?;
    match atomic_file::create(&path, text.as_bytes()) {
        Ok(created) => Ok(created.then_some(path)),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// Writes down what the plugin says of them; answers of how many it could say something.
fn expect(config: &Config, consumer: &Consumer, files: &[(PathBuf, Case)]) -> Result<(usize, Option<String>), Failed> {
    let runtime = Runtime::of(config).map_err(|error| (Exit::Environment, error.to_string()))?;
    let these: Vec<Case> = files.iter().map(|(_, case)| case.clone()).collect();
    let targets: Arc<[_]> = consumer.targets.as_slice().into();
    let report = match runtime.unconfigured(&consumer.plugin) {
        Ok(plugin) => cases::run(&these, plugin.as_ref(), Some(&targets)),
        Err(error) => cases::Report::broken(&these, &error),
    };
    let mut answered = 0;
    let broke = report.failed().find_map(|(_, finding)| match finding {
        Finding::Broke(why) => Some(why.clone()),
        _ => None,
    });
    for ((path, _), report) in files.iter().zip(report.cases) {
        if let Some(actual) = &report.actual {
            cases::update(path, actual).map_err(|error| (Exit::Environment, error.to_string()))?;
            answered += 1;
        }
    }
    Ok((answered, broke))
}
