//! How far behind a consumer is, and which of its partitions cannot go on, without asking a running host.

use super::{Seek, SeekError, To, WayOut, perform::blocking, place, plan::Place};
use crate::{
    config::{self, Config},
    source::{PartitionName, StopReason, kafka::Outside},
    store::ConsumerChains,
};

/// A partition, as broker and chain together have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Which.
    pub name: PartitionName,
    /// The topic's present id.
    pub topic_id: uuid::Uuid,
    /// Offsets from the chain's tip to the end of the log; `None` = there is no chain of this topic.
    pub lag: Option<i64>,
    /// Why it cannot go on, with the way out.
    pub stopped: Option<String>,
}

/// Every partition of the consumer's topics. Changes nothing.
///
/// # Errors
/// Where a topic is not there, or the broker cannot be asked.
pub async fn survey(
    config: &Config,
    settings: &config::Consumer,
    chains: ConsumerChains,
) -> Result<Vec<Standing>, SeekError> {
    let Some(cluster) = config.kafka.get(&settings.kafka) else {
        return Err(SeekError::Input(vec![format!("there is no [kafka.{}]", settings.kafka)]));
    };
    let (properties, group) = (cluster.properties.clone(), settings.group.clone());
    let topics = settings.topics.iter().map(|topic| topic.name.as_str().into()).collect::<Vec<_>>();
    let all = Seek {
        consumer: settings.name.clone(),
        topics: topics.clone(),
        partitions: vec![],
        to: To::End,
        pass_over: false,
    };
    let asked = blocking(move || {
        let outside = Outside::connect(&properties, &group)?;
        place::places(&outside, &chains, &all, &topics)
    });
    let way_out = WayOut { consumer: settings.name.clone(), config: config.file.clone().map(Into::into) };
    Ok(asked.await?.iter().map(|place| standing(place, &way_out)).collect())
}

fn standing(place: &Place, way_out: &WayOut) -> Standing {
    let name = PartitionName::from(place.partition.as_ref());
    let stopped = reason(place, &name).map(|reason| match way_out.of(&name, &reason) {
        Some(way_out) => format!("{reason}; {way_out}"),
        None => reason.to_string(),
    });
    let lag = place.chain.map(|tip| (place.end - tip.next_offset).max(0));
    Standing { topic_id: place.partition.topic_id, lag, stopped, name }
}

/// What would stop a host that begins there.
fn reason(place: &Place, name: &PartitionName) -> Option<StopReason> {
    match (place.chain, place.earlier) {
        (Some(tip), _) if tip.next_offset < place.first || tip.next_offset > place.end => {
            Some(StopReason::OffsetLost {
                offset: tip.next_offset,
                log: Some((place.first, place.end)),
                broker: "as the broker says now".to_owned(),
            })
        }
        (None, Some((was, from))) => Some(StopReason::TopicRecreated {
            topic: name.topic.clone(),
            was,
            now: place.partition.topic_id,
            from: Some(from),
            end: None,
        }),
        _ => None,
    }
}
