//! Where partitions begin that the group has given: what brokers say of them, held against the database.

use std::{collections::HashSet, sync::Arc, time::Instant};

use rdkafka::{
    Offset,
    consumer::{BaseConsumer, Consumer},
};

use super::{
    super::{Offered, PartitionName, StartPoint, StopReason},
    budget::Budget,
    context::{Context, list_of, locked, unknown_topic},
    ends::Ends,
    learnt::Learnt,
    topic_ids::{Standing, TopicIds},
};
use crate::{record::TopicPartition, store::Standing as Proof};

/// A partition that begins.
pub(super) struct Beginning {
    pub(super) partition: Arc<TopicPartition>,
    pub(super) at: i64,
    /// What the group is to be told of it.
    pub(super) proof: Option<Proof>,
}

impl Beginning {
    pub(super) fn name(&self) -> PartitionName {
        PartitionName::from(self.partition.as_ref())
    }
}

/// Where partitions begin that were asked about.
#[derive(Default)]
pub(super) struct Settled {
    pub(super) begin: Vec<Beginning>,
    pub(super) later: Vec<PartitionName>,
    pub(super) why: Option<String>,
    pub(super) stop: Vec<(PartitionName, StopReason)>,
}

impl Settled {
    pub(super) fn later(names: impl IntoIterator<Item = PartitionName>, why: String) -> Self {
        Self { later: names.into_iter().collect(), why: Some(why), ..Self::default() }
    }
}

impl Context {
    /// Finds out where these begin. Nothing changes yet; the lanes go on with other partitions.
    pub(super) fn settle(&self, consumer: &BaseConsumer<Self>, wanted: &[(PartitionName, bool)]) -> Settled {
        let names = || wanted.iter().map(|(name, _)| name.clone());
        if wanted.is_empty() {
            return Settled::default();
        }
        let Some(ids) = self.ids.get() else {
            return Settled::later(names(), "the cluster's id is not known yet".to_owned());
        };
        let budget = Budget::new(self.revoke_deadline);
        let gone = match self.learn(consumer, ids, wanted, budget) {
            Ok(gone) => gone,
            Err(why) => return Settled::later(names(), why),
        };
        let (mut settled, mut offered) = (Settled::default(), Vec::new());
        let learnt = locked(&self.learnt);
        for (name, fenced) in wanted {
            let Some(topic_id) = learnt.topic_id(&name.topic) else {
                if gone.contains(&name.topic) {
                    let topic = Arc::clone(&name.topic);
                    settled.stop.push((name.clone(), StopReason::TopicGone { topic }));
                } else {
                    settled.later.push(name.clone());
                    settled.why = Some(unknown_topic(&name.topic));
                }
                continue;
            };
            let committed = learnt.offset(name).flatten();
            let partition = Arc::new(TopicPartition {
                cluster_id: Arc::clone(&ids.cluster_id),
                topic_id,
                topic: Arc::clone(&name.topic),
                partition: name.partition,
            });
            offered.push(Offered { partition, committed, fenced: *fenced });
        }
        drop(learnt);
        let points = self.starts.resolve(&offered, &Ends(consumer, budget), budget.work());
        for (offered, point) in offered.into_iter().zip(points) {
            let name = PartitionName::from(offered.partition.as_ref());
            match point {
                StartPoint::At(at, proof) => {
                    settled.begin.push(Beginning { partition: offered.partition, at, proof });
                }
                StartPoint::Stop(reason) => settled.stop.push((name, reason)),
                StartPoint::Later(why) => {
                    settled.later.push(name);
                    settled.why = Some(why);
                }
            }
        }
        settled
    }

    /// Asks brokers for what is not known yet of these, and keeps every answer. Names the topics that are gone.
    fn learn(
        &self,
        consumer: &BaseConsumer<Self>,
        ids: &TopicIds,
        wanted: &[(PartitionName, bool)],
        budget: Budget,
    ) -> Result<HashSet<Arc<str>>, String> {
        let unknown = {
            let mut learnt = locked(&self.learnt);
            learnt.grow_old(Instant::now());
            let topics: HashSet<Arc<str>> = wanted.iter().map(|(name, _)| Arc::clone(&name.topic)).collect();
            topics.into_iter().filter(|topic| learnt.topic_id(topic).is_none()).collect::<Vec<_>>()
        };
        let mut gone = HashSet::new();
        if !unknown.is_empty() {
            let standings = ids.ask(consumer, &unknown, budget.question()).map_err(|error| error.to_string())?;
            let mut learnt = locked(&self.learnt);
            for (topic, standing) in standings {
                match standing {
                    Standing::Is(id) => learnt.topic_is(&topic, id, Instant::now()),
                    Standing::Gone => {
                        gone.insert(topic);
                    }
                    Standing::Unsure => {}
                }
            }
        }
        // Whoever lost its place goes on where the chain stands.
        let unknown =
            |learnt: &Learnt, (name, fenced): &(PartitionName, bool)| !fenced && learnt.offset(name).is_none();
        let names: Vec<_> = {
            let learnt = locked(&self.learnt);
            wanted.iter().filter(|one| unknown(&learnt, one)).map(|(name, _)| name.clone()).collect()
        };
        if names.is_empty() {
            return Ok(gone);
        }
        let committed = consumer
            .committed_offsets(list_of(&names), budget.question())
            .map_err(|error| format!("ask for the group's offsets: {error}"))?;
        let mut learnt = locked(&self.learnt);
        for name in names {
            let offset = committed.find_partition(&name.topic, name.partition).and_then(|e| match e.offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            });
            learnt.offset_is(name, offset);
        }
        Ok(gone)
    }
}
