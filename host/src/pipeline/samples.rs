//! Key samples: now and then a few applied inputs are kept with the identity that they had, for the gate that another
//! plugin has to pass. Beside the path: a commit only looks whether somebody is waiting for samples.

use std::{
    collections::{BTreeSet, VecDeque},
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use super::{
    lane::{Phase, Shared},
    rules::Rules,
};
use crate::{
    outcome::Outcome,
    store::{KEY_SAMPLES, KeySample, Prepared},
};

/// Samples that one batch gives while few are kept, and later.
const AT_FIRST: usize = 16;
const LATER: usize = 4;
/// The most that one batch gives in bytes; a larger record is never kept.
pub const LARGEST_SAMPLE: usize = 256 << 10;
/// Samples that are remembered here, newest last.
const RECENT: usize = 64;
/// How long a write may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Numbers below this are replaced all the time, the others once in [`SELDOM`]: so there are new samples and old ones.
const OFTEN_REPLACED: i32 = KEY_SAMPLES / 2;
const SELDOM: Duration = Duration::from_secs(3_600);

/// Takes samples where somebody waits for them.
#[derive(Debug)]
pub(super) struct Sampler {
    wanted: AtomicBool,
    fresh: Notify,
    taken: Mutex<Taken>,
    /// Whether they go into the database, too.
    keep: bool,
    /// How many the database had at the start.
    known: usize,
    /// Applied records of batches that had none but such as are too large.
    left_out: AtomicUsize,
}

#[derive(Debug, Default)]
struct Taken {
    recent: VecDeque<KeySample>,
    unwritten: Vec<(i32, KeySample)>,
    kept: usize,
}

impl Sampler {
    pub(super) fn new(keep: bool, known: usize) -> Self {
        let taken = Taken { kept: known, ..Taken::default() };
        Self {
            wanted: AtomicBool::new(false),
            fresh: Notify::new(),
            taken: Mutex::new(taken),
            keep,
            known,
            left_out: AtomicUsize::new(0),
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A batch is committed.
    pub(super) fn committed(&self, rules: &Rules, prepared: &Prepared, outcomes: &[Outcome]) {
        if !self.wanted.load(Ordering::Relaxed) {
            return;
        }
        let most = if self.taken().kept < KEY_SAMPLES.unsigned_abs() as usize { AT_FIRST } else { LATER };
        let samples = prepared.key_samples(outcomes, most, LARGEST_SAMPLE, |topic| rules.context.source_of(topic));
        if samples.is_empty() {
            let applied = outcomes.iter().filter(|outcome| **outcome == Outcome::Applied).count();
            self.left_out.fetch_add(applied, Ordering::Relaxed);
            return;
        }
        self.wanted.store(false, Ordering::Relaxed);
        let mut taken = self.taken();
        for sample in &samples {
            if taken.recent.len() == RECENT {
                taken.recent.pop_front();
            }
            taken.recent.push_back(sample.clone());
        }
        if self.keep {
            taken.unwritten = samples.into_iter().map(|sample| (rules.key_version, sample)).collect();
        }
        drop(taken);
        self.fresh.notify_one();
    }

    /// The last ones, whether or not the database has them.
    pub(super) fn recent(&self) -> Vec<KeySample> {
        self.taken().recent.iter().cloned().collect()
    }

    /// Applied records that could not be kept since none of their batch could.
    pub(super) fn left_out(&self) -> usize {
        self.left_out.load(Ordering::Relaxed)
    }
}

/// Until the consumer stops running: asks for samples, writes them down, rests.
pub(super) async fn keep(shared: Arc<Shared>) {
    let mut phase = shared.phase.clone();
    let ended = async move {
        // An error means that the consumer is gone.
        let _ = phase.wait_for(|phase| *phase > Phase::Running).await;
    };
    tokio::select! {
        () = ended => {}
        () = keep_on(&shared) => {}
    }
}

async fn keep_on(shared: &Shared) {
    let sampler = &shared.samples;
    let mut kept = sampler.known;
    let mut seldom = Instant::now();
    loop {
        sampler.wanted.store(true, Ordering::Relaxed);
        sampler.fresh.notified().await;
        let unwritten = std::mem::take(&mut sampler.taken().unwritten);
        if let Some((version, _)) = unwritten.first() {
            let (version, old_too) = (*version, seldom.elapsed() >= SELDOM);
            let numbers = numbers(kept, unwritten.len(), old_too, || RandomState::new().hash_one(0_u8));
            let samples: Vec<_> = numbers.into_iter().zip(unwritten.into_iter().map(|(_, sample)| sample)).collect();
            let written = shared.store.keep_key_samples(&shared.name, version, &samples);
            match timeout(PATIENCE, written).await {
                Ok(Ok(())) => {
                    kept += samples.len();
                    sampler.taken().kept = kept;
                    if old_too {
                        seldom = Instant::now();
                    }
                }
                // The lanes say what is wrong with the database; samples can wait.
                Ok(Err(error)) => tracing::debug!(consumer = %shared.name, "key samples are not kept: {error}"),
                Err(_) => tracing::debug!(consumer = %shared.name, "key samples are not kept: no answer"),
            }
        }
        sleep(pause(kept)).await;
    }
}

/// How long until the next samples, with so many kept.
fn pause(kept: usize) -> Duration {
    match kept {
        0..AT_FIRST => Duration::from_millis(500),
        _ if kept < KEY_SAMPLES.unsigned_abs() as usize => Duration::from_secs(5),
        _ => Duration::from_secs(60),
    }
}

/// The numbers of the next samples: those that are free, then by chance. Distinct.
fn numbers(kept: usize, count: usize, old_too: bool, mut dice: impl FnMut() -> u64) -> Vec<i32> {
    let free = i32::try_from(kept).unwrap_or(KEY_SAMPLES).min(KEY_SAMPLES);
    let mut numbers: BTreeSet<i32> = (free..KEY_SAMPLES).take(count).collect();
    let mut below = |range: i32| i32::try_from(dice() % u64::from(range.unsigned_abs())).unwrap_or(0);
    if numbers.is_empty() && old_too {
        numbers.insert(OFTEN_REPLACED + below(KEY_SAMPLES - OFTEN_REPLACED));
    }
    while numbers.len() < count.min(OFTEN_REPLACED.unsigned_abs() as usize) {
        numbers.insert(below(OFTEN_REPLACED));
    }
    numbers.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_numbers_come_first_then_the_newer_half_by_chance() {
        let mut next = 0;
        let mut dice = || {
            next += 1;
            next
        };
        assert_eq!(numbers(0, 3, false, &mut dice), [0, 1, 2]);
        assert_eq!(numbers(254, 4, false, &mut dice), [1, 2, 254, 255]);
        let replaced = numbers(256, 4, false, &mut dice);
        assert!(replaced.len() == 4 && replaced.iter().all(|n| (0..OFTEN_REPLACED).contains(n)), "{replaced:?}");
        let replaced = numbers(9_000, 4, true, &mut dice);
        assert_eq!(replaced.iter().filter(|n| **n >= OFTEN_REPLACED).count(), 1, "{replaced:?}");
    }
}
