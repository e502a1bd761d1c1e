//! What the broker says about where logs begin and end.

use std::time::Duration;

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, RDKafkaErrorCode},
};

use super::{
    super::{LogEnds, PartitionName, SourceError},
    context::Context,
};
use crate::class::Class;

const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Ends<'a>(pub(super) &'a BaseConsumer<Context>);

/// Errors of questions: what a broker says about a question may be otherwise a second later.
fn asking(what: String) -> impl Fn(KafkaError) -> SourceError {
    move |error| SourceError { context: what.clone(), message: error.to_string(), class: Class::Transient }
}

impl LogEnds for Ends<'_> {
    fn bounds(&self, name: &PartitionName) -> Result<(i64, i64), SourceError> {
        let asked = self.0.fetch_watermarks(&name.topic, name.partition, PATIENCE);
        asked.map_err(asking(format!("ask for the first and last offset of {name}")))
    }

    fn at_time(&self, name: &PartitionName, time_ms: i64) -> Result<i64, SourceError> {
        let fail = asking(format!("ask for the first offset of {name} at {time_ms} ms"));
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&name.topic, name.partition, Offset::Offset(time_ms)).map_err(&fail)?;
        let found = self.0.offsets_for_times(list, PATIENCE).map_err(&fail)?;
        match found.find_partition(&name.topic, name.partition).map(|element| element.offset()) {
            Some(Offset::Offset(offset)) => Ok(offset),
            // Nothing at or after that time.
            _ => Ok(self.bounds(name)?.1),
        }
    }

    fn partitions(&self, topic: &str) -> Result<i32, SourceError> {
        let fail = asking(format!("ask for the partitions of {topic}"));
        let metadata = self.0.fetch_metadata(Some(topic), PATIENCE).map_err(&fail)?;
        let count = metadata.topics().iter().find(|t| t.name() == topic).map_or(0, |t| t.partitions().len());
        match i32::try_from(count) {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(fail(KafkaError::MetadataFetch(RDKafkaErrorCode::UnknownTopicOrPartition))),
        }
    }
}
