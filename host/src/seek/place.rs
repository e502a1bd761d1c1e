//! Asks broker and database where a consumer stands.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use uuid::Uuid;

use super::{Seek, SeekError, To, plan::Place};
use crate::{
    record::TopicPartition,
    source::{LogEnds, PartitionName, kafka::Outside},
    store::{ConsumerChains, Tip},
};

/// The consumer's chains of one topic, by topic id: the newest comes last.
type Chains<'a> = BTreeMap<Uuid, Vec<&'a (Arc<TopicPartition>, Tip)>>;

/// Every partition that is meant, by topic and number. Blocks.
///
/// # Errors
/// Where a topic or a partition is not there, or the broker cannot be asked.
pub(super) fn places(
    outside: &Outside,
    chains: &ConsumerChains,
    seek: &Seek,
    topics: &[Arc<str>],
) -> Result<Vec<Place>, SeekError> {
    let ids = outside.topic_ids(topics)?;
    let ends = outside.ends();
    let mut places = Vec::new();
    for topic in topics {
        let Some(topic_id) = ids.get(topic).copied() else {
            return Err(SeekError::Input(vec![format!(
                "topic {topic} does not exist on the broker: create it, or correct --topic"
            )]));
        };
        let count = ends.partitions(topic)?;
        if let Some(number) = seek.partitions.iter().find(|&&number| !(0..count).contains(&number)) {
            let last = count - 1;
            let text = format!("topic {topic} has no partition {number}: it has 0 to {last}");
            return Err(SeekError::Input(vec![text]));
        }
        let wanted: BTreeSet<i32> =
            if seek.partitions.is_empty() { (0..count).collect() } else { seek.partitions.iter().copied().collect() };
        let of_topic = of_topic(chains, outside.cluster_id(), topic);
        let names: Vec<_> =
            wanted.into_iter().map(|partition| PartitionName { topic: Arc::clone(topic), partition }).collect();
        let committed = outside.committed(&names)?;
        for name in names {
            let partition = TopicPartition {
                cluster_id: Arc::clone(outside.cluster_id()),
                topic_id,
                topic: Arc::clone(topic),
                partition: name.partition,
            };
            places.push(place(&ends, partition, &of_topic, &committed, chains, seek.to)?);
        }
    }
    Ok(places)
}

fn of_topic<'a>(chains: &'a ConsumerChains, cluster_id: &str, topic: &str) -> Chains<'a> {
    let mut of_topic = Chains::new();
    let of_it = |chain: &&(Arc<TopicPartition>, Tip)| &*chain.0.topic == topic && &*chain.0.cluster_id == cluster_id;
    for chain in chains.tips.iter().filter(of_it) {
        of_topic.entry(chain.0.topic_id).or_default().push(chain);
    }
    of_topic
}

fn place(
    ends: &impl LogEnds,
    partition: TopicPartition,
    chains: &Chains<'_>,
    committed: &HashMap<PartitionName, i64>,
    of: &ConsumerChains,
    to: To,
) -> Result<Place, SeekError> {
    let name = PartitionName::from(&partition);
    let tip = |id: &Uuid| chains.get(id)?.iter().find(|(p, _)| p.partition == partition.partition).map(|(_, tip)| *tip);
    // A topic that has chains under its present id was accepted; a partition without one is new then.
    let earlier = if chains.contains_key(&partition.topic_id) {
        None
    } else {
        // The newest link is the one that was read last: ids are made in the order of time.
        let newest = chains.iter().max_by_key(|(_, chains)| chains.iter().map(|(_, tip)| tip.id).max());
        newest.map(|(id, _)| (*id, tip(id).map_or(0, |tip| tip.next_offset)))
    };
    let (first, end) = ends.bounds(&name)?;
    let horizon_us = of.consumer.horizon_us;
    let at = |time_ms| ends.at_time(&name, time_ms);
    Ok(Place {
        chain: tip(&partition.topic_id),
        earlier,
        kafka: committed.get(&name).copied(),
        first,
        end,
        at_time: if let To::Time(time_ms) = to { Some(at(time_ms)?) } else { None },
        remembered_from: if horizon_us == i64::MIN { None } else { Some(at(horizon_us.div_euclid(1_000))?) },
        partition: Arc::new(partition),
    })
}
