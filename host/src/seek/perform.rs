//! Prepares a move, then does it: the chain first, Kafka's offsets second.

use std::{collections::HashMap, sync::Arc};

use super::{Seek, Step, To, place, plan};
use crate::{
    class::Class,
    config::Config,
    panics,
    source::{
        PartitionName, SourceError,
        kafka::{Member, Outside},
    },
    store::{self, ChainMove, SeekNote, Store, StoreError},
};

/// How often the chain is tried while somebody's unfinished transaction holds a tip: each waits for its lock time-out.
const TRIES: usize = 10;

/// Why a consumer was not moved, or not wholly.
#[derive(Debug, thiserror::Error)]
pub enum SeekError {
    /// What was asked for does not fit the configuration, the consumer or its topics.
    #[error("{}", .0.join("\n"))]
    Input(Vec<String>),
    /// The database.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The schema is not what this binary needs.
    #[error("database {place}: {refusal}")]
    Schema {
        /// Where.
        place: String,
        /// What is wrong and what to do.
        refusal: String,
    },
    /// The broker.
    #[error("{0}")]
    Source(#[from] SourceError),
    /// The group has members, so Kafka takes no offsets for it. Nothing was changed.
    #[error(
        "group {group} has members, and its offsets cannot be set from outside while it has: stop these hosts first, or \
         wait for Kafka to miss them (session.timeout.ms) if they are gone. Nothing was changed.{}", listed(.members)
    )]
    Running {
        /// The group.
        group: String,
        /// Who.
        members: Vec<Member>,
    },
    /// The chain moved since the plan was made. Nothing was changed.
    #[error("somebody moved a checkpoint chain meanwhile: nothing was changed; run the command again")]
    Overtaken,
    /// The chain was moved, the group's offsets were not.
    #[error(
        "the database is moved, but Kafka did not take the offsets: {0}. Run the same command again to finish; a host that \
         starts before goes on at the new place, or where Kafka's offset is if that is older"
    )]
    HalfDone(SourceError),
    /// A part of the program died.
    #[error("{0}")]
    Broken(String),
}

fn listed(members: &[Member]) -> String {
    members.iter().map(|m| format!("\n  {} at {} (client.id {})", m.id, m.host, m.client)).collect()
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Chains that were moved.
    pub chains: usize,
    /// Offsets that Kafka was given.
    pub offsets: usize,
}

/// A move that can be shown, and then done.
pub struct Prepared {
    store: Arc<dyn Store>,
    outside: Arc<Outside>,
    seek: Seek,
    group: String,
    /// What is to be done, by topic and partition; partitions that are there already are absent.
    pub steps: Vec<Step>,
    /// Partitions that were looked at.
    pub looked_at: usize,
    /// Who is in the group.
    pub members: Vec<Member>,
}

/// Looks at everything and decides. Changes nothing.
///
/// # Errors
/// Where the wish does not fit, or database or broker cannot be asked.
pub async fn prepare(config: &Config, seek: Seek) -> Result<Prepared, SeekError> {
    let input = |text: String| SeekError::Input(vec![text]);
    let Some(settings) = config.consumers.iter().find(|consumer| consumer.name == seek.consumer) else {
        let known: Vec<_> = config.consumers.iter().map(|consumer| consumer.name.as_str()).collect();
        return Err(input(format!("no consumer \"{}\" is configured; there is: {}", seek.consumer, known.join(", "))));
    };
    let configured: Vec<Arc<str>> = settings.topics.iter().map(|topic| topic.name.as_str().into()).collect();
    if let Some(topic) = seek.topics.iter().find(|topic| !configured.contains(topic)) {
        return Err(input(format!(
            "{} does not read topic {topic}; it reads {}",
            seek.consumer,
            configured.join(", ")
        )));
    }
    if seek.to == To::TopicRecreated && !seek.partitions.is_empty() {
        return Err(input("--topic-recreated is about whole topics: leave --partition out".to_owned()));
    }
    let (Some(database), Some(cluster)) = (config.databases.get(&settings.database), config.kafka.get(&settings.kafka))
    else {
        return Err(input(format!("{} names a database or cluster that the configuration lacks", seek.consumer)));
    };
    let store = store::open(database)?;
    if let Some(refusal) = store.schema_state().await?.refusal() {
        return Err(SeekError::Schema { place: store.place(), refusal });
    }
    let Some(chains) = store.chains(&seek.consumer).await? else {
        return Err(input(format!(
            "{} has not run yet: `start` in its configuration says where it begins",
            seek.consumer
        )));
    };
    let (properties, group) = (cluster.properties.clone(), settings.group.clone());
    let topics = if seek.topics.is_empty() { configured } else { seek.topics.clone() };
    let wanted = seek.clone();
    let asked = blocking(move || {
        let outside = Outside::connect(&properties, &group)?;
        let places = place::places(&outside, &chains, &wanted, &topics)?;
        let members = outside.members()?;
        Ok((outside, places, members))
    });
    let (outside, places, members) = asked.await?;
    let (mut steps, mut refusals) = (Vec::new(), Vec::new());
    for place in &places {
        match plan::step(place, seek.to, seek.pass_over) {
            Ok(step) => steps.extend(step),
            Err(refusal) => refusals.push(refusal.to_string()),
        }
    }
    refusals.dedup();
    if !refusals.is_empty() {
        return Err(SeekError::Input(refusals));
    }
    let (group, looked_at) = (settings.group.clone(), places.len());
    Ok(Prepared { store, outside: Arc::new(outside), seek, group, steps, looked_at, members })
}

impl Prepared {
    /// Does it.
    ///
    /// # Errors
    /// Where the group has members, the chain was moved meanwhile, or database or broker cannot do it. Only
    /// [`SeekError::HalfDone`] leaves something changed.
    pub async fn execute(&self, note: &SeekNote) -> Result<Done, SeekError> {
        if self.steps.is_empty() {
            return Ok(Done { chains: 0, offsets: 0 });
        }
        let outside = Arc::clone(&self.outside);
        let members = blocking(move || Ok(outside.members()?)).await?;
        if !members.is_empty() {
            return Err(SeekError::Running { group: self.group.clone(), members });
        }
        Ok(Done { chains: self.move_chains(note).await?, offsets: self.commit().await? })
    }

    /// The first half: the chains, in one transaction. Says how many.
    ///
    /// # Errors
    /// Where somebody else moved one of them, or the database cannot do it; nothing is changed then.
    pub async fn move_chains(&self, note: &SeekNote) -> Result<usize, SeekError> {
        let moving = self.steps.iter().filter(|step| step.moves_chain());
        // From the highest number down: where another host begins a topic's partitions, it does it in this order, too.
        let moves: Vec<ChainMove> = moving
            .rev()
            .map(|step| ChainMove { partition: Arc::clone(&step.partition), tip: step.chain, to: step.to })
            .collect();
        if moves.is_empty() {
            return Ok(0);
        }
        let mut tries = 1;
        loop {
            match self.store.seek(&self.seek.consumer, &moves, note).await {
                Ok(true) => return Ok(moves.len()),
                Ok(false) => return Err(SeekError::Overtaken),
                // Whether it was committed is not known; a second try would find its own links in the way. The next run
                // of the command sees what became of it.
                Err(error) if error.class() == Class::Transient && !error.connection_lost && tries < TRIES => {
                    tries += 1
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The second half: the group's offsets. Says how many.
    ///
    /// # Errors
    /// Where Kafka does not take them.
    pub async fn commit(&self) -> Result<usize, SeekError> {
        let moving = self.steps.iter().filter(|step| step.moves_kafka());
        let offsets: HashMap<_, _> =
            moving.map(|step| (PartitionName::from(step.partition.as_ref()), step.to)).collect();
        if offsets.is_empty() {
            return Ok(0);
        }
        let outside = Arc::clone(&self.outside);
        let count = offsets.len();
        blocking(move || outside.commit(&offsets).map_err(SeekError::HalfDone)).await?;
        Ok(count)
    }
}

/// Off the async workers: the Kafka client's questions block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SeekError> + Send + 'static,
) -> Result<T, SeekError> {
    panics::blocking(work, SeekError::Broken).await
}
