//! The watcher of a run: reads the checkpoints, makes room for the producer, moves the bars, notices the end and a
//! standstill.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use super::{
    broker::{Broker, PARTITIONS},
    database::Database,
    error::DemoError,
    measure::{Chain, Ends, Outcomes, chains},
    pace::Pace,
    producer::Produced,
    progress::Progress,
    service::Service,
    stage::Stage,
    stall::{BOUND, Stall},
    story::Feed,
};

const INTERVAL: Duration = Duration::from_millis(100);

/// Everything that is looked at while a run goes on.
pub(super) struct Watch {
    broker: Arc<Broker>,
    database: Arc<Database>,
    pace: Arc<Pace>,
    produced: Arc<Produced>,
    progress: Progress,
    begun: Instant,
}

impl Watch {
    /// Begins to count the time. `events`: how many the story will have, roughly.
    pub(super) fn new(stage: &Stage, events: u64, watched: bool) -> Self {
        Self {
            broker: Arc::clone(&stage.broker),
            database: Arc::clone(&stage.database),
            pace: Arc::default(),
            produced: Arc::default(),
            progress: Progress::new(watched, events + events / 10),
            begun: Instant::now(),
        }
    }

    pub(super) fn pace(&self) -> Arc<Pace> {
        Arc::clone(&self.pace)
    }

    pub(super) fn produced(&self) -> Arc<Produced> {
        Arc::clone(&self.produced)
    }

    /// Nobody makes room for the producer any more: lets its thread end.
    pub(super) fn abandon(&self) {
        self.produced.abandoned.store(true, Ordering::Relaxed);
    }

    /// Leaves the bars as they stand.
    pub(super) fn end(&self) {
        self.progress.end();
    }

    /// Prints something above the bars, which show the present speed from then on.
    pub(super) fn pause(&self, print: impl FnOnce()) {
        self.progress.pause(print);
    }

    /// Until the producer has ended and all consumers have passed the ends of their partitions.
    pub(super) async fn until_caught_up(
        &self,
        producing: impl Fn() -> bool,
        trouble: impl Fn() -> Option<String>,
    ) -> Result<(), DemoError> {
        let mut stall = Stall::new(Instant::now());
        let mut last: Option<Ends> = None;
        loop {
            // Asked before the checkpoints: what is behind these ends is behind for good.
            let still_producing = producing();
            if !still_producing && last.is_none() {
                last = Some(self.ends().await?);
            }
            let chains = self.look(last.as_ref()).await?;
            if let Some(ends) = &last {
                let behind = ends.behind(&chains);
                if behind.is_empty() {
                    return Ok(());
                }
            }
            if let Some(trouble) = trouble() {
                return Err(DemoError::Host(trouble));
            }
            let moved = (self.produced.records.load(Ordering::Relaxed), chains.clone());
            if stall.watch(moved, Instant::now()) {
                let ends = self.ends().await?;
                return Err(DemoError::Stalled { seconds: BOUND.as_secs(), positions: positions(&ends, &chains) });
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// One look at the checkpoints.
    async fn look(&self, ends: Option<&Ends>) -> Result<Vec<Chain>, DemoError> {
        let chains = chains(&self.database, &self.broker).await?;
        for feed in Feed::ALL {
            for partition in 0..PARTITIONS {
                self.pace.consumed(feed, partition, slowest(&chains, feed, partition));
            }
        }
        let records = self.produced.records.load(Ordering::Relaxed);
        let elapsed = self.begun.elapsed();
        self.progress.produced(records, ends.is_some(), elapsed);
        for service in Service::ALL {
            let mut outcomes = Outcomes::default();
            chains.iter().filter(|c| c.service == service).for_each(|c| outcomes += c.outcomes);
            let length = ends.and_then(|e| u64::try_from(e.records(service.feeds())).ok());
            self.progress.consumed(service, &outcomes, length, elapsed);
        }
        Ok(chains)
    }

    /// The ends of all partitions.
    pub(super) async fn ends(&self) -> Result<Ends, DemoError> {
        let broker = Arc::clone(&self.broker);
        tokio::task::spawn_blocking(move || Ends::ask(&broker))
            .await
            .unwrap_or_else(|e| Err(DemoError::Host(format!("asking for watermarks broke off: {e}"))))
    }
}

/// Up to where every consumer of this topic has a checkpoint.
fn slowest(chains: &[Chain], feed: Feed, partition: i32) -> i64 {
    let at = |service: Service| {
        let mut own = chains.iter().filter(|c| c.service == service && c.feed == feed && c.partition == partition);
        own.next().map_or(0, |c| c.next_offset)
    };
    Service::ALL.into_iter().filter(|s| s.feeds().contains(&feed)).map(at).min().unwrap_or(0)
}

/// For the error: who stands where.
fn positions(ends: &Ends, chains: &[Chain]) -> String {
    let lines = ends.behind(chains).into_iter().map(|(service, feed, partition, at, end)| {
        format!("  {} is at offset {at} of {end} in {}[{partition}]", service.name(), feed.topic())
    });
    lines.collect::<Vec<_>>().join("\n")
}
