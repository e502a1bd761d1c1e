//! `tidegate plugin capture`: real messages become cases.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
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
    config::{Config, Consumer, Tombstones},
    plugin::{
        Runtime, bears_position,
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
    std::fs::create_dir_all(folder).map_err(|error| (Exit::Environment, format!("{}: {error}", folder.display())))?;
    let (mut files, mut left_out, mut known) = (Vec::new(), 0, 0);
    while files.len() + known < options.max {
        let seen = topics.read(options.max - files.len() - known).map_err(environment)?;
        if seen.is_empty() {
            break;
        }
        for one in
            seen.into_iter().filter(|one| one.record.payload.is_some() || consumer.tombstones == Tombstones::Plugin)
        {
            let name = format!("captured-{}-{}-{}", one.topic, one.partition, one.record.offset);
            let mut input = input(consumer, one);
            if redaction.apply(&mut input).is_err() {
                left_out += 1;
                continue;
            }
            let case = Case { name: name.clone(), settings: settings.clone(), input, expected: None };
            match write(folder, &case).map_err(invalid)? {
                Some(file) => files.push((file, case)),
                None => known += 1,
            }
        }
    }
    let (answered, broke) = expect(config, consumer, &files)?;
    let mut text = format!("{} captured into {}", files.len(), folder.display());
    if known > 0 {
        text += &format!(", {known} were there already");
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

/// As the plugin sees it: less the headers that bear a position.
fn input(consumer: &Consumer, seen: Seen) -> Input {
    let topic = consumer.topics.iter().find(|topic| topic.name == *seen.topic);
    let headers = seen.record.headers.into_iter().filter(|header| !bears_position(header)).collect();
    Input {
        source: topic.map_or("default", |topic| &topic.source).to_owned(),
        payload: consumer.payload,
        key: seen.record.key,
        body: seen.record.payload,
        headers,
        record_time_ms: seen.record.timestamp_ms.filter(|&ms| ms >= 0),
    }
}

/// A new file; `None` where it is there: somebody may have worked on it.
fn write(folder: &Path, case: &Case) -> Result<Option<PathBuf>, String> {
    let path = folder.join(format!("{}.toml", case.name));
    let text = cases::render_input(case, "Captured from a topic.")?;
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    match OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        Err(error) => return Err(failed(error)),
    }
    Ok(Some(path))
}

/// Writes down what the plugin says of them; answers of how many it could say something.
fn expect(config: &Config, consumer: &Consumer, files: &[(PathBuf, Case)]) -> Result<(usize, Option<String>), Failed> {
    let runtime =
        Runtime::new(config.plugin_cache.as_deref()).map_err(|error| (Exit::Environment, error.to_string()))?;
    let these: Vec<Case> = files.iter().map(|(_, case)| case.clone()).collect();
    let load = |settings: &serde_json::Value| {
        let mut plugin = consumer.plugin.clone();
        plugin.settings = settings.clone();
        runtime.load(&plugin)
    };
    let targets: Arc<[_]> = consumer.targets.as_slice().into();
    let report = cases::run(&these, &load, Some(&targets));
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
