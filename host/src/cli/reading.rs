//! Options and steps of the commands that read topics without joining a group.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{
    config::{self, Config, Consumer},
    instant::{Finer, parse_instant},
    source::{
        SourceError,
        kafka::{Begin, Glance},
    },
};

/// Opens a consumer's topics, without joining its group.
pub(super) fn open(config: &Config, consumer: &Consumer, begin: Begin) -> Result<Glance, SourceError> {
    let topics: Vec<Arc<str>> = consumer.topics.iter().map(|topic| Arc::from(topic.name.as_str())).collect();
    // A consumer's cluster is there: the configuration was checked.
    let cluster = config.kafka.get(&consumer.kafka).map(|cluster| cluster.properties.clone()).unwrap_or_default();
    Glance::open(&cluster, &consumer.group, &topics, begin)
}

/// Where to begin: oldest, a time, or so long ago.
pub(super) fn begin(text: &str) -> Result<Begin, String> {
    match text {
        "oldest" => Ok(Begin::Oldest),
        _ => Ok(Begin::Time(milliseconds(text).map_err(|why| format!("\"{text}\" {why}; or oldest"))?)),
    }
}

/// Milliseconds since the epoch: RFC 3339, or so long ago ("-2h").
pub(super) fn milliseconds(text: &str) -> Result<i64, String> {
    if let Some(ago) = text.strip_prefix('-') {
        let ago = config::parse_duration(ago)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        return Ok(i64::try_from(now.saturating_sub(ago).as_millis()).unwrap_or(i64::MAX));
    }
    let us = parse_instant(text, Finer::Cut).map_err(|why| format!("{why}; or -2h for so long ago"))?;
    Ok(us.div_euclid(1_000))
}
