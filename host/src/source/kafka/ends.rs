//! What the broker says about where logs begin and end.

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::{KafkaError, RDKafkaErrorCode},
};

use super::{
    super::{LogEnds, PartitionName, SourceError},
    budget::Budget,
};
use crate::class::Class;

/// Asked over this client, within this time.
pub(super) struct Ends<'a, C: ConsumerContext>(pub(super) &'a BaseConsumer<C>, pub(super) Budget);

/// Errors of questions: what a broker says about a question may be otherwise a second later.
fn asking(what: String) -> impl Fn(KafkaError) -> SourceError {
    move |error| SourceError { context: what.clone(), message: error.to_string(), class: Class::Transient }
}

impl<C: ConsumerContext> LogEnds for Ends<'_, C> {
    fn bounds(&self, name: &PartitionName) -> Result<(i64, i64), SourceError> {
        let asked = self.0.fetch_watermarks(&name.topic, name.partition, self.1.question());
        asked.map_err(asking(format!("ask for the first and last offset of {name}")))
    }

    fn at_time(&self, name: &PartitionName, time_ms: i64) -> Result<i64, SourceError> {
        let fail = asking(format!("ask for the first offset of {name} at {time_ms} ms"));
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&name.topic, name.partition, Offset::Offset(time_ms)).map_err(&fail)?;
        let found = self.0.offsets_for_times(list, self.1.question()).map_err(&fail)?;
        match found.find_partition(&name.topic, name.partition).map(|element| element.offset()) {
            Some(Offset::Offset(offset)) => Ok(offset),
            // Nothing at or after that time.
            _ => Ok(self.bounds(name)?.1),
        }
    }

    fn partitions(&self, topic: &str) -> Result<i32, SourceError> {
        let fail = asking(format!("ask for the partitions of {topic}"));
        let metadata = self.0.fetch_metadata(Some(topic), self.1.question()).map_err(&fail)?;
        let count = metadata.topics().iter().find(|t| t.name() == topic).map_or(0, |t| t.partitions().len());
        match i32::try_from(count) {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(fail(KafkaError::MetadataFetch(RDKafkaErrorCode::UnknownTopicOrPartition))),
        }
    }
}
