//! A consumer's threads, and the order in which they end: readers stop, what is in flight is finished, the offsets are
//! committed while still a member, the member leaves, the rest is joined. A lane never owns the source's last handle.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError, atomic::AtomicUsize},
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc, watch},
};

use super::{
    apply::Apply,
    database::{self, Aside},
    dead_letters::DeadLetterLog,
    deathwatch::Deathwatch,
    lane::{Failure, Phase, Shared},
    read,
    rules::{InForce, Rules},
    samples::{self, Sampler},
    shadow::ShadowSlot,
    starts::Starts,
};
use crate::{
    class::Class,
    config::{BatchLimits, Start},
    health::ConsumerHealth,
    identity::ConsumerName,
    metrics::ConsumerMetrics,
    plugin::ComputePool,
    seek::WayOut,
    source::{PartitionName, Source, StartPoints},
    store::{KeySample, Store},
};

/// How long one poll of the group waits.
const POLL: Duration = Duration::from_millis(100);
/// How often topics and logs are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Invariant 11: one batch is applied, the next is computed.
const BATCHES_PER_LANE: usize = 2;

/// Everything that a consumer is made of.
pub struct Parts {
    /// Its name.
    pub name: ConsumerName,
    /// The configuration file, for the commands that messages name; `None` = it came from none.
    pub config_file: Option<Arc<PathBuf>>,
    /// Where it begins that has no checkpoint.
    pub start: Start,
    /// Lanes.
    pub lanes: usize,
    /// How big a batch gets.
    pub limits: BatchLimits,
    /// How long a drain may take before what is unfinished is given up.
    pub drain_deadline: Duration,
    /// The database.
    pub store: Arc<dyn Store>,
    /// The business rules that it begins with.
    pub rules: Rules,
    /// Whether inputs are kept in the database as samples of their keys.
    pub key_samples: bool,
    /// How many it has already.
    pub samples_known: usize,
    /// Where a candidate may look on.
    pub shadow: Arc<ShadowSlot>,
    /// Where evaluating runs.
    pub pool: Arc<ComputePool>,
    /// While true, it takes no records, and stays in its group.
    pub paused: watch::Receiver<bool>,
    /// Where it reports its state.
    pub health: Arc<ConsumerHealth>,
    /// Where it counts.
    pub metrics: ConsumerMetrics,
}

/// A consumer that runs. Dropped without [`drain`](Consumer::drain) it stops as in a crash: nothing more is committed.
pub struct Consumer {
    orders: mpsc::UnboundedSender<Order>,
    phase: Arc<watch::Sender<Phase>>,
    ended: watch::Receiver<bool>,
    failed_as: Arc<OnceLock<Class>>,
    health: Arc<ConsumerHealth>,
    source: Arc<dyn Source>,
    rules: Arc<InForce>,
    samples: Arc<Sampler>,
}

enum Order {
    Drain,
    Die,
}

impl Consumer {
    /// Starts its threads. `source` makes the source, given who says where partitions begin.
    ///
    /// # Errors
    /// Where the source cannot be made, or the system gives no thread.
    pub fn start<E: From<io::Error>>(
        parts: Parts,
        source: impl FnOnce(Arc<dyn StartPoints>) -> Result<Arc<dyn Source>, E>,
    ) -> Result<Self, E> {
        let runtime = Handle::current();
        let (tips, aside) = (Arc::default(), Arc::<Aside>::default());
        let rules = Arc::new(InForce::new(Arc::new(parts.rules)));
        let in_force = Arc::clone(&rules);
        let starts = Arc::new(Starts {
            consumer: parts.name.clone(),
            registration: Box::new(move || in_force.get().registration.clone()),
            way_out: WayOut { consumer: parts.name.clone(), config: parts.config_file },
            start: parts.start,
            store: Arc::clone(&parts.store),
            runtime: runtime.clone(),
            tips: Arc::clone(&tips),
            health: Arc::clone(&parts.health),
            metrics: parts.metrics.clone(),
            connection: Arc::clone(&aside),
            outages: Mutex::default(),
        });
        let source = source(starts)?;
        let (phase, phases) = watch::channel(Phase::Running);
        let phase = Arc::new(phase);
        let (failures, failed) = mpsc::unbounded_channel();
        let samples = Arc::new(Sampler::new(parts.key_samples, parts.samples_known));
        let shared = Arc::new(Shared {
            name: parts.name,
            source: Arc::clone(&source),
            store: parts.store,
            rules: Arc::clone(&rules),
            samples: Arc::clone(&samples),
            shadow: parts.shadow,
            evaluated: AtomicUsize::new(0),
            pool: parts.pool,
            limits: parts.limits,
            tips,
            health: Arc::clone(&parts.health),
            metrics: parts.metrics,
            dead_letters: DeadLetterLog::default(),
            phase: phases,
            paused: parts.paused,
            failures,
        });
        let mut running = Running {
            shared: Arc::clone(&shared),
            aside,
            phase: Arc::clone(&phase),
            lanes: Vec::new(),
            readers: Vec::new(),
            service: Vec::new(),
            served: watch::channel(Service::Poll).0,
            drain_deadline: parts.drain_deadline,
            failed_as: Arc::default(),
        };
        if let Err(error) = running.spawn(parts.lanes.max(1), &runtime) {
            // The threads that there are end with it.
            drop(running);
            return Err(error.into());
        }
        shared.metrics.running(true);
        let (orders, received) = mpsc::unbounded_channel();
        let (end, ended) = watch::channel(false);
        let failed_as = Arc::clone(&running.failed_as);
        runtime.spawn(async move {
            running.supervise(received, failed).await;
            end.send_replace(true);
        });
        Ok(Self { orders, phase, ended, failed_as, health: parts.health, source, rules, samples })
    }

    /// Stops reading, finishes what is in flight, commits, leaves the group. Returns when all is done.
    pub async fn drain(&self) {
        let _ = self.orders.send(Order::Drain);
        self.ended().await;
    }

    /// What kind of failure it ended of, if it ended by itself. Transient: another start may mend it.
    #[must_use]
    pub fn failed_as(&self) -> Option<Class> {
        self.failed_as.get().copied()
    }

    /// Resolves when the consumer has ended, for whatever reason. [`ConsumerHealth::stop_reason`] has it.
    pub async fn ended(&self) {
        // An error means that the supervisor is gone, and with it the consumer.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }

    /// The rules in force.
    #[must_use]
    pub fn rules(&self) -> Arc<Rules> {
        self.rules.get()
    }

    /// Puts other rules in force, from each lane's next batch on. They must be of the key version of those before: batches
    /// at hand may be evaluated anew (Invariant 10).
    pub fn rule_by(&self, rules: Rules) {
        self.rules.set(Arc::new(rules));
    }

    /// Inputs of the last minutes, with their keys.
    #[must_use]
    pub fn recent_samples(&self) -> Vec<KeySample> {
        self.samples.recent()
    }

    /// Applied inputs that were too large to be among those, as long as none else came with them.
    #[must_use]
    pub fn samples_left_out(&self) -> usize {
        self.samples.left_out()
    }

    /// Its state.
    #[must_use]
    pub fn health(&self) -> &Arc<ConsumerHealth> {
        &self.health
    }

    /// Whether every assigned partition was read to its end, and all of it is finished. A moment later it may be untrue.
    #[must_use]
    pub fn caught_up(&self) -> bool {
        self.source.positions().caught_up()
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::Die);
        if !*self.ended.borrow() {
            self.phase.send_replace(Phase::Aborting);
            self.source.wake();
        }
    }
}

/// What the poll thread is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    Poll,
    /// Commit and leave the group, then end.
    Finish,
    /// End.
    Die,
}

struct Running {
    shared: Arc<Shared>,
    aside: Arc<Aside>,
    phase: Arc<watch::Sender<Phase>>,
    lanes: Vec<tokio::task::JoinHandle<()>>,
    readers: Vec<JoinHandle<()>>,
    service: Vec<JoinHandle<()>>,
    served: watch::Sender<Service>,
    drain_deadline: Duration,
    /// Said once, by what failed first.
    failed_as: Arc<OnceLock<Class>>,
}

impl Running {
    fn spawn(&mut self, lanes: usize, runtime: &Handle) -> io::Result<()> {
        let name = &self.shared.name;
        for lane in 0..lanes {
            let (out, batches) = mpsc::channel(1);
            let permits = Arc::new(Semaphore::new(BATCHES_PER_LANE));
            let watched = Deathwatch::over(&self.shared, format!("the second half of lane {lane}"));
            let apply = Apply::new(lane, Arc::clone(&self.shared));
            self.lanes.push(runtime.spawn(async move {
                let _watched = watched;
                apply.run(batches).await;
            }));
            let (shared, handle) = (Arc::clone(&self.shared), runtime.clone());
            let reader = thread::Builder::new().name(format!("{name}-lane-{lane}"));
            self.readers.push(reader.spawn(move || {
                let _watched = Deathwatch::over(&shared, format!("the first half of lane {lane}"));
                read::read(lane, &shared, &handle, &out, &permits);
            })?);
        }
        let watched = Deathwatch::over(&self.shared, "the watch over the database");
        let watching = database::watch(Arc::clone(&self.shared), Arc::clone(&self.aside));
        runtime.spawn(async move {
            let _watched = watched;
            watching.await;
        });
        runtime.spawn(samples::keep(Arc::clone(&self.shared)));
        let (shared, served) = (Arc::clone(&self.shared), self.served.subscribe());
        let poller = thread::Builder::new().name(format!("{name}-poll"));
        self.service.push(poller.spawn(move || poll(&shared, &served))?);
        let (shared, served) = (Arc::clone(&self.shared), self.served.subscribe());
        let watcher = thread::Builder::new().name(format!("{name}-watch"));
        self.service.push(watcher.spawn(move || {
            let _watched = Deathwatch::over(&shared, "the watch over topics and logs");
            look(&shared, &served);
        })?);
        Ok(())
    }

    async fn supervise(
        mut self,
        mut orders: mpsc::UnboundedReceiver<Order>,
        mut failed: mpsc::UnboundedReceiver<Failure>,
    ) {
        let _watched = Deathwatch::over(&self.shared, "the consumer's supervisor");
        let order = tokio::select! {
            order = orders.recv() => order.unwrap_or(Order::Die),
            // The sender is in `self`, so this is never `None`.
            Some(Failure { reason, class }) = failed.recv() => {
                let _ = self.failed_as.set(class);
                tracing::error!(consumer = %self.shared.name, "stopped: {reason}");
                self.shared.health.stopped(reason);
                self.shared.metrics.running(false);
                Order::Drain
            }
        };
        self.shared.metrics.running(false);
        let service = match order {
            Order::Drain => {
                self.phase.send_replace(Phase::Draining);
                self.shared.source.wake();
                until_ended(&mut self.lanes, self.drain_deadline, &mut orders).await;
                Service::Finish
            }
            Order::Die => Service::Die,
        };
        self.phase.send_replace(Phase::Aborting);
        self.shared.source.wake();
        for lane in self.lanes.drain(..) {
            let _ = lane.await;
        }
        self.served.send_replace(service);
        let threads: Vec<_> = self.readers.drain(..).chain(self.service.drain(..)).collect();
        let joined = tokio::task::spawn_blocking(move || threads.into_iter().for_each(|thread| drop(thread.join())));
        let _ = joined.await;
        // A lane that failed meanwhile says why here.
        while let Ok(failure) = failed.try_recv() {
            self.shared.health.stopped(failure.reason);
        }
        self.shared.health.drained();
    }
}

impl Drop for Running {
    /// However it ends: the threads that are left must not go on without it.
    fn drop(&mut self) {
        self.phase.send_replace(Phase::Aborting);
        self.served.send_if_modified(|served| {
            let polls = *served == Service::Poll;
            if polls {
                *served = Service::Die;
            }
            polls
        });
        self.shared.source.wake();
    }
}

/// Lets the lanes finish what they have, up to the deadline or until told to die. Leaves those that have not ended.
async fn until_ended(
    lanes: &mut Vec<tokio::task::JoinHandle<()>>,
    deadline: Duration,
    orders: &mut mpsc::UnboundedReceiver<Order>,
) {
    let deadline = tokio::time::sleep(deadline);
    tokio::pin!(deadline);
    while let Some(lane) = lanes.last_mut() {
        tokio::select! {
            // A lane that has ended must not be waited for again.
            _ = lane => drop(lanes.pop()),
            () = &mut deadline => return,
            order = orders.recv() => if !matches!(order, Some(Order::Drain)) { return },
        }
    }
}

/// The poll thread: serves the group until told otherwise.
fn poll(shared: &Arc<Shared>, served: &watch::Receiver<Service>) {
    let watched = |work: &mut dyn FnMut()| {
        let _watched = Deathwatch::over(shared, "the thread that serves the group");
        work();
    };
    // Whatever it dies of, it lives on to leave the group: the partitions of a member that is silent wait for long.
    let _ = catch_unwind(AssertUnwindSafe(|| watched(&mut || serve(shared, served))));
    while *served.borrow() == Service::Poll {
        thread::sleep(POLL);
    }
    if *served.borrow() == Service::Finish {
        watched(&mut || shared.source.finish());
    }
}

fn serve(shared: &Shared, served: &watch::Receiver<Service>) {
    let mut failed = false;
    shared.health.polled();
    while *served.borrow() == Service::Poll {
        match shared.source.poll(POLL) {
            Ok(()) => shared.health.polled(),
            Err(error) => {
                if !failed {
                    shared.end(Failure { reason: error.to_string(), class: error.class() });
                }
                failed = true;
                thread::sleep(POLL);
            }
        }
    }
}

/// The watch thread: looks at topics and logs about every second.
fn look(shared: &Shared, served: &watch::Receiver<Service>) {
    let rounds = u32::try_from(LOOK.as_millis() / POLL.as_millis()).unwrap_or(1);
    loop {
        for _ in 0..rounds {
            if *served.borrow() != Service::Poll {
                return;
            }
            thread::sleep(POLL);
        }
        // What a burst left untold.
        shared.tell_dead_letters();
        let ends = shared.source.watch();
        let tips = shared.tips.lock().unwrap_or_else(PoisonError::into_inner);
        for (partition, _) in shared.source.positions().assigned() {
            let name = PartitionName::from(partition.as_ref());
            if let (Some(end), Some(tip)) = (ends.get(&name), tips.get(&partition)) {
                // Revoked in this moment, it is no longer ours to show.
                if shared.health.lag(&name, tip.next_offset, end - tip.next_offset) {
                    shared.metrics.lag(&name, end - tip.next_offset);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lane_that_has_ended_is_not_waited_for_again() {
        let (_orders, mut received) = mpsc::unbounded_channel();
        let mut lanes = vec![tokio::spawn(std::future::pending()), tokio::spawn(async {}), tokio::spawn(async {})];
        until_ended(&mut lanes, Duration::from_millis(50), &mut received).await;
        assert!(!lanes.is_empty(), "one of them never ends");
        for lane in lanes {
            lane.abort();
            // Polled after its end, a handle panics.
            let _ = lane.await;
        }
    }
}
