//! What plugins cost: `bench-plugins`, one line for each component in a folder, in processes of their own. Needs no services.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tidegate::{
    config::{self, Payload, PluginLimits, Tombstones},
    plugin::{Accepted, Compiler, ComputeResult, KeyResult, Message, Plugin, PluginError, Runtime},
    record::Record,
};

use crate::{host, workload::Workload};

/// Events of a batch.
const BATCH: usize = 500;
/// A plugin is run for about so much CPU time.
const ENOUGH: Duration = Duration::from_millis(1500);
/// A fast plugin has enough of so many batches.
const BATCHES: usize = 400;

/// The table, one line a component of the folder, by name. What cannot be measured has a line that says why.
///
/// # Errors
/// Where the folder cannot be read.
pub fn plugins(folder: &Path) -> std::io::Result<String> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder)?.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "wasm"));
    files.sort();
    let mut table = String::from(
        "| plugin | size, KB | compile, CPU s | peak MiB | load from cache, ms | instantiate + configure + drop, µs | \
         µs per event, extract-keys + compute, instance included | of 1,000 events applied | resident MiB, of which host |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        eprintln!("{name}");
        table.push_str(&match line(&file) {
            Ok(cells) => format!("| {name} | {} |\n", cells.join(" | ")),
            Err(why) => format!("| {name} | {} |\n", why.replace('\n', " ")),
        });
    }
    Ok(table)
}

fn line(file: &Path) -> Result<Vec<String>, String> {
    let cache = tempfile::tempdir().map_err(|error| error.to_string())?;
    let cache = cache.path().join("code");
    // The compiler's memory is not the plugin's: each step in a process of its own.
    let compiled = ask("compile", file, &cache)?;
    let run = ask("run", file, &cache)?;
    let number = |value: &Value, digits: usize| value.as_f64().map_or("–".to_owned(), |n| format!("{n:.digits$}"));
    let size = fs::metadata(file).map_err(|error| error.to_string())?.len();
    Ok(vec![
        size.div_ceil(1000).to_string(),
        number(&compiled["cpu_s"], 2),
        number(&compiled["peak_mib"], 0),
        number(&run["load_ms"], 1),
        number(&run["instantiate_us"], 0),
        number(&run["event_us"], 2),
        number(&run["applied"], 0),
        format!("{}, {}", number(&run["resident_mib"], 0), number(&run["host_mib"], 0)),
    ])
}

fn ask(what: &str, file: &Path, cache: &Path) -> Result<Value, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(this).args(["--plugin-child", what]).args([file, cache]).output();
    let output = output.map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

/// The child's side: `compile` or `run`. Prints JSON.
///
/// # Errors
/// Where the plugin cannot be loaded, or breaks.
pub fn plugin_child(what: &str, file: &Path, cache: &Path) -> Result<(), String> {
    let said = match what {
        "compile" => compile(file, cache),
        _ => run(file, cache),
    };
    println!("{}", said.map_err(|error| error.to_string())?);
    Ok(())
}

fn compile(file: &Path, cache: &Path) -> Result<Value, PluginError> {
    let this = std::process::id();
    let before = host::cpu(this);
    load(&Runtime::new(Some(cache))?, file)?;
    Ok(json!({
        "cpu_s": host::cpu(this).saturating_sub(before).as_secs_f64(),
        "peak_mib": super::contest::peak_kib(this) / 1024,
    }))
}

/// With the settings of the example plugins, where they want some.
fn load(runtime: &Runtime, file: &Path) -> Result<std::sync::Arc<dyn Plugin>, PluginError> {
    let limits = PluginLimits { memory: 256 << 20, ..PluginLimits::default() };
    let plugin = runtime.unconfigured(&config::Plugin { limits, ..config::Plugin::at(file) })?;
    match plugin.with_settings(&Value::Null) {
        Err(PluginError::Settings { .. }) => plugin.with_settings(&json!({ "currency": "EUR" })),
        loaded => loaded,
    }
}

fn run(file: &Path, cache: &Path) -> Result<Value, PluginError> {
    let this = std::process::id();
    let events = Workload { messages: BATCH * 2, seed: 1 }.events();
    let batches: Vec<Vec<Message>> = events
        .chunks(BATCH)
        .map(|events| {
            let message = |event: &crate::workload::Event| {
                let payload = Some(event.json().into());
                let record = Record { offset: 0, timestamp_ms: None, key: None, payload, headers: Vec::new() };
                Message::of(&record, &"default".into(), Payload::Text, Tombstones::Skip).ok()
            };
            events.iter().filter_map(message).collect()
        })
        .collect();
    let nowhere = Compiler { program: "/nowhere".into(), cpu: Compiler::CPU, memory: Compiler::MEMORY };
    let runtime = Runtime::new(Some(cache))?.compiling_by(nowhere);
    let host_mib = resident_mib();
    let loading = Instant::now();
    let plugin = load(&runtime, file)?;
    let load_ms = loading.elapsed().as_secs_f64() * 1e3;

    let mut applied = 0;
    for batch in &batches {
        applied += once(plugin.as_ref(), batch)?;
    }
    let before = host::cpu(this);
    let mut count = 0_usize;
    while count < BATCHES && host::cpu(this).saturating_sub(before) < ENOUGH {
        for batch in &batches {
            once(plugin.as_ref(), batch)?;
            count += 1;
        }
    }
    let event_us = host::cpu(this).saturating_sub(before).as_secs_f64() * 1e6 / as_f64(count * BATCH);

    let before = host::cpu(this);
    let mut instances = 0_usize;
    while instances < 20_000 && host::cpu(this).saturating_sub(before) < ENOUGH / 3 {
        for _ in 0..10 {
            drop(plugin.instance(BATCH)?);
            instances += 1;
        }
    }
    let instantiate_us = host::cpu(this).saturating_sub(before).as_secs_f64() * 1e6 / as_f64(instances);
    Ok(json!({
        "load_ms": load_ms, "event_us": event_us, "instantiate_us": instantiate_us, "applied": applied,
        "resident_mib": resident_mib(), "host_mib": host_mib,
    }))
}

/// A batch as the host does it; how many of it were applied.
fn once(plugin: &dyn Plugin, batch: &[Message]) -> Result<usize, PluginError> {
    let mut instance = plugin.instance(batch.len())?;
    let keys = instance.extract_keys(batch)?;
    let accepted: Vec<Accepted> = (0..)
        .zip(&keys)
        .filter(|(_, key)| matches!(key, KeyResult::Identity(_)))
        .map(|(index, _)| Accepted { index, record_time_ms: Some(1_767_225_600_000), seed: index })
        .collect();
    if accepted.is_empty() {
        return Ok(0);
    }
    let computed = instance.compute(&accepted)?;
    Ok(computed.results.iter().filter(|result| matches!(result, ComputeResult::Changes(_))).count())
}

fn resident_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

#[allow(clippy::cast_precision_loss, reason = "counts of a bench stay far below 2^53")]
fn as_f64(count: usize) -> f64 {
    count as f64
}
