//! One walk: every actor goes through its course, beside the others, until the time is over or the faults are spent.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::{
    actors::Hand,
    fault::Actor,
    report::Report,
    running::Running,
    schedule::{Allowed, Course, actors},
    story::Manner,
};
use crate::services::ServiceError;

/// How long a walk goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// For so long, as far as new faults are concerned.
    Time(Duration),
    /// So many faults, whoever injects them.
    Faults(usize),
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Everything that is drawn follows from it.
    pub seed: u64,
    /// For how long.
    pub length: Length,
    /// Hosts in the group.
    pub hosts: usize,
    /// How many times as fast as usual the faults come.
    pub haste: u32,
    /// Which faults.
    pub allowed: Allowed,
}

/// Walks. What did not hold is in the report.
///
/// # Errors
/// Where a server does not start.
///
/// # Panics
/// Where the harness itself fails.
pub async fn walk(options: &Options) -> Result<Report, ServiceError> {
    let running = Running::begin(Manner::of(options.seed), options.hosts).await?;
    let hand = &running.hand;
    let mut allowed = options.allowed.clone();
    if hand.world.primary.lock().await.disk.is_none() {
        allowed.without.insert("database: disk full");
    }
    let budget = Arc::new(Budget::new(options.length));
    let courses = actors(options.hosts).into_iter().map(|actor| {
        let course = Course::new(options.seed, actor, allowed.clone(), options.haste);
        tokio::spawn(act(hand.clone(), actor, course, Arc::clone(&budget)))
    });
    let courses: Vec<_> = courses.collect();
    for course in courses {
        if let Err(error) = course.await {
            hand.world.chronicle.found(format_args!("an actor of the harness failed: {error}"));
        }
    }
    Ok(running.end(options).await)
}

/// How much of the walk is left.
#[derive(Debug)]
struct Budget {
    until: Option<Instant>,
    left: AtomicUsize,
}

impl Budget {
    fn new(length: Length) -> Self {
        match length {
            Length::Time(time) => Self { until: Some(Instant::now() + time), left: AtomicUsize::new(usize::MAX) },
            Length::Faults(faults) => Self { until: None, left: AtomicUsize::new(faults) },
        }
    }

    /// Whether nothing is left.
    fn is_spent(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0 || self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Takes one fault out of it.
    fn take(&self) -> bool {
        let take = |left: usize| left.checked_sub(1);
        !self.is_spent() && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Sleeps, but no longer than the walk lasts.
    async fn sleep(&self, pause: Duration) {
        let end = Instant::now() + pause;
        while Instant::now() < end && !self.is_spent() {
            sleep(Duration::from_millis(50).min(end.saturating_duration_since(Instant::now()))).await;
        }
    }
}

async fn act(hand: Hand, actor: Actor, course: Course, budget: Arc<Budget>) {
    for step in course {
        budget.sleep(step.pause).await;
        if !budget.take() {
            return;
        }
        hand.inject(actor, &step.fault).await;
    }
}
