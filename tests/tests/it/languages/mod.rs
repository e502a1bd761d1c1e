//! Plugins in every language: the same answers, byte for byte, and an error that is nobody else's business.

mod askers;
mod generate;
mod old_go;
mod same;
mod templates;
mod throwers;

use std::{
    path::PathBuf,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use tidegate::{
    config,
    plugin::{Plugin, Runtime},
    record::{Batch, Record, Run, TopicPartition},
};
use tidegate_tests::host;
use uuid::Uuid;

/// One for all, and compiled code is kept: an interpreter takes 20 s.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new(Some(&host::plugin_cache())).unwrap());

/// A plugin's file with these settings; the rest as the example's README configures it.
fn configured(path: PathBuf, settings: serde_json::Value) -> config::Plugin {
    config::Plugin { origin: path.into(), settings, ..same::consumer().plugin }
}

fn load(path: PathBuf, settings: serde_json::Value) -> Arc<dyn Plugin> {
    let name = path.display().to_string();
    RUNTIME.load(&configured(path, settings)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn batch(payloads: &[Option<String>]) -> Batch {
    let partition =
        TopicPartition { cluster_id: "c".into(), topic_id: Uuid::nil(), topic: "payment.events".into(), partition: 0 };
    let record = |(offset, payload): (i64, &Option<String>)| Record {
        offset,
        timestamp_ms: Some(offset),
        key: None,
        payload: payload.clone().map(Bytes::from),
        headers: Vec::new(),
    };
    let records: Vec<Record> = (0..).zip(payloads).map(record).collect();
    let next_offset = i64::try_from(records.len()).unwrap();
    let run =
        Run { partition: Arc::new(partition), generation: 1, first_offset: 0, next_offset, records: 0..records.len() };
    Batch { runs: vec![run], records }
}
