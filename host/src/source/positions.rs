//! Which partitions are assigned, under which generation, and up to where they were handed out.
//!
//! Two things must never happen: records of an old assignment counted into a new one, and an assignment changing while
//! a lane is between the client's queue and this table. So a lane takes a *turn* to read, and the assignment changes
//! only on *hold*, while no lane has a turn. What was handed out stays *in flight* until its [`Flight`] is dropped; a
//! revoke waits for it.

use std::{
    collections::HashMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{PartitionName, StopReason};
use crate::record::{Batch, Record, Run, TopicPartition};

/// What one reading gave of one partition, in offset order.
#[derive(Debug)]
pub struct Piece {
    /// The partition.
    pub name: PartitionName,
    /// Its records.
    pub records: Vec<Record>,
    /// Up to where the source handed it out, including offsets that carry no record, where that is known.
    pub position: Option<i64>,
    /// Nothing stands behind that position, as of now.
    pub at_end: bool,
    /// Why nothing comes after these records.
    pub lost: Option<Lost>,
}

impl Piece {
    /// Nothing of this partition yet.
    #[must_use]
    pub fn of(name: PartitionName) -> Self {
        Self { name, records: Vec::new(), position: None, at_end: false, lost: None }
    }
}

/// A partition that the client cannot go on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Its next offset is not in the log; the broker's words.
    Offset(String),
    /// Anything else that waiting does not cure; the client's words.
    Unreadable(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Read and applied.
    Active,
    /// No longer read; what is in flight is still applied.
    Draining,
    /// Neither.
    Stopped,
}

#[derive(Debug)]
struct Place {
    partition: Arc<TopicPartition>,
    generation: u64,
    lane: usize,
    next: i64,
    at_end: bool,
    /// Where the log ended when it was last looked at.
    end: Option<i64>,
    phase: Phase,
}

#[derive(Debug, Default)]
struct State {
    held: bool,
    reading: usize,
    generation: u64,
    places: HashMap<PartitionName, Place>,
    in_flight: HashMap<u64, usize>,
}

/// See the module.
#[derive(Debug)]
pub struct Positions {
    lanes: usize,
    state: Mutex<State>,
    changed: Condvar,
}

/// A batch and the token that keeps it in flight.
#[derive(Debug)]
pub struct Fetched {
    /// The records.
    pub batch: Batch,
    /// Dropped when the batch is finished, or given up.
    pub flight: Flight,
}

/// Keeps the runs of one batch in flight until dropped.
#[derive(Debug)]
pub struct Flight {
    positions: Arc<Positions>,
    generations: Vec<u64>,
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut state = self.positions.lock();
        for generation in &self.generations {
            if let Some(count) = state.in_flight.get_mut(generation) {
                *count -= 1;
                if *count == 0 {
                    state.in_flight.remove(generation);
                }
            }
        }
        drop(state);
        self.positions.changed.notify_all();
    }
}

/// A lane's right to read and to count what it read. The assignment does not change meanwhile.
#[derive(Debug)]
pub struct Turn<'a>(&'a Positions);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.lock().reading -= 1;
        self.0.changed.notify_all();
    }
}

/// While this is there no lane reads, and the assignment may change.
#[derive(Debug)]
pub struct Hold<'a>(&'a Positions);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.lock().held = false;
        self.0.changed.notify_all();
    }
}

impl Positions {
    /// Of a consumer with this many lanes, nothing assigned.
    #[must_use]
    pub fn new(lanes: usize) -> Arc<Self> {
        Arc::new(Self { lanes: lanes.max(1), state: Mutex::default(), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way: a poisoned lock still holds a sound table.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody holds, then reads on.
    #[must_use]
    pub fn turn(&self) -> Turn<'_> {
        let mut state = self.lock();
        while state.held {
            state = self.wait(state);
        }
        state.reading += 1;
        Turn(self)
    }

    /// Stops the lanes from reading; `wake` makes those that wait for records return.
    #[must_use]
    pub fn hold(&self, wake: impl Fn()) -> Hold<'_> {
        let mut state = self.lock();
        while state.held {
            state = self.wait(state);
        }
        state.held = true;
        if state.reading > 0 {
            wake();
        }
        while state.reading > 0 {
            state = self.wait(state);
        }
        Hold(self)
    }

    /// The lane for a partition that is about to be assigned: where it is, else the one with the fewest.
    #[must_use]
    pub fn lane_for(&self, name: &PartitionName, also: &[usize]) -> usize {
        let state = self.lock();
        if let Some(place) = state.places.get(name) {
            return place.lane;
        }
        let mut load = vec![0usize; self.lanes];
        state.places.values().map(|place| place.lane).chain(also.iter().copied()).for_each(|lane| load[lane] += 1);
        load.iter().enumerate().min_by_key(|(_, partitions)| **partitions).map_or(0, |(lane, _)| lane)
    }

    /// Begins a generation of this partition at `next`, on hold and before its first record can arrive.
    pub fn install(&self, _hold: &Hold<'_>, partition: Arc<TopicPartition>, lane: usize, next: i64) -> u64 {
        let mut state = self.lock();
        state.generation += 1;
        let generation = state.generation;
        let place = Place { partition, generation, lane, next, at_end: false, end: None, phase: Phase::Active };
        state.places.insert(PartitionName::from(place.partition.as_ref()), place);
        generation
    }

    /// Forgets these partitions, on hold. What is in flight of them is void from here on.
    pub fn remove(&self, _hold: &Hold<'_>, names: &[PartitionName]) {
        let mut state = self.lock();
        for name in names {
            state.places.remove(name);
        }
    }

    /// Reads no more of these partitions and waits until what is in flight is finished, up to `deadline`. Says whether
    /// all was.
    pub fn drain(&self, names: &[PartitionName], deadline: Duration) -> bool {
        let until = Instant::now() + deadline;
        let mut state = self.lock();
        let mut generations = Vec::new();
        for name in names {
            // Also one that is draining already: it lost its place in the log, or an earlier drain gave up.
            if let Some(place) = state.places.get_mut(name)
                && place.phase != Phase::Stopped
            {
                place.phase = Phase::Draining;
                generations.push(place.generation);
            }
        }
        while generations.iter().any(|generation| state.in_flight.contains_key(generation)) {
            let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return false;
            };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Stops one partition: nothing of it is read or applied any more. `false` where it was stopped or gone already.
    pub fn stop(&self, name: &PartitionName) -> bool {
        match self.lock().places.get_mut(name) {
            Some(place) if place.phase != Phase::Stopped => {
                place.phase = Phase::Stopped;
                true
            }
            _ => false,
        }
    }

    /// Stops the partitions of these generations and names them.
    pub fn stop_generations(&self, generations: &[u64]) -> Vec<PartitionName> {
        let mut state = self.lock();
        let named = state.places.iter_mut().filter(|(_, place)| generations.contains(&place.generation));
        named
            .map(|(name, place)| {
                place.phase = Phase::Stopped;
                name.clone()
            })
            .collect()
    }

    /// Whether work of this generation may still be committed.
    #[must_use]
    pub fn is_current(&self, name: &PartitionName, generation: u64) -> bool {
        let state = self.lock();
        state.places.get(name).is_some_and(|place| place.generation == generation && place.phase != Phase::Stopped)
    }

    /// The assigned partitions that are not stopped, with the offset up to which they were handed out.
    #[must_use]
    pub fn assigned(&self) -> Vec<(Arc<TopicPartition>, i64)> {
        let state = self.lock();
        let read = state.places.values().filter(|place| place.phase != Phase::Stopped);
        read.map(|place| (Arc::clone(&place.partition), place.next)).collect()
    }

    /// The assigned partitions that are not stopped, with the generation of their assignment.
    #[must_use]
    pub fn generations(&self) -> Vec<(Arc<TopicPartition>, u64)> {
        let state = self.lock();
        let held = state.places.values().filter(|place| place.phase != Phase::Stopped);
        held.map(|place| (Arc::clone(&place.partition), place.generation)).collect()
    }

    /// The partitions that a lane reads: name, next offset, whether nothing stood behind that when it was last read.
    #[must_use]
    pub fn of_lane(&self, lane: usize) -> Vec<(PartitionName, i64, bool)> {
        let state = self.lock();
        let read = state.places.iter().filter(|(_, place)| place.lane == lane && place.phase == Phase::Active);
        let mut read: Vec<_> = read.map(|(name, place)| (name.clone(), place.next, place.at_end)).collect();
        read.sort_unstable();
        read
    }

    /// Remembers where logs end, as just asked.
    pub fn look(&self, ends: &HashMap<PartitionName, i64>) {
        let mut state = self.lock();
        for (name, end) in ends {
            if let Some(place) = state.places.get_mut(name) {
                place.end = Some(*end);
            }
        }
    }

    /// Where this partition's log ended when it was last looked at.
    #[must_use]
    pub fn end(&self, name: &PartitionName) -> Option<i64> {
        self.lock().places.get(name)?.end
    }

    /// Whether something is assigned, every assigned partition was read up to where its log ended when it was last
    /// looked at, and nothing is in flight.
    #[must_use]
    pub fn caught_up(&self) -> bool {
        let state = self.lock();
        let mut places = state.places.values().filter(|place| place.phase != Phase::Stopped).peekable();
        state.in_flight.is_empty()
            && places.peek().is_some()
            && places.all(|place| place.at_end || place.end.is_some_and(|end| place.next >= end))
    }

    /// Counts what a lane read in its turn: runs with generation and first offset, in flight from here on. Records of
    /// partitions that are no longer read are dropped. `stopped` is told of partitions that end here, with their generation:
    /// it may take its time, and should say nothing of one that is not [current](Self::is_current) any more.
    #[must_use]
    pub fn take(
        self: &Arc<Self>,
        turn: Turn<'_>,
        pieces: Vec<Piece>,
        stopped: impl Fn(PartitionName, u64, StopReason),
    ) -> Fetched {
        let mut batch = Batch::default();
        let mut generations = Vec::new();
        let mut ended = Vec::new();
        let mut state = self.lock();
        for piece in pieces {
            let Some(place) = state.places.get_mut(&piece.name) else { continue };
            if place.phase != Phase::Active {
                continue;
            }
            let first = place.next;
            // A start offset may point behind what the fetch began with; those records are counted already.
            let records = piece.records.into_iter().filter(|record| record.offset >= first);
            let from = batch.records.len();
            batch.records.extend(records);
            let last = batch.records[from..].last().map_or(first, |record| record.offset + 1);
            place.next = last.max(piece.position.unwrap_or(last));
            place.at_end = piece.at_end;
            if place.next > first {
                batch.runs.push(Run {
                    partition: Arc::clone(&place.partition),
                    generation: place.generation,
                    first_offset: first,
                    next_offset: place.next,
                    records: from..batch.records.len(),
                });
                generations.push(place.generation);
            }
            if let Some(lost) = piece.lost {
                // What stands before is still applied.
                place.phase = Phase::Draining;
                let reason = match lost {
                    Lost::Offset(broker) => StopReason::OffsetLost { offset: place.next, log: None, broker },
                    Lost::Unreadable(broker) => StopReason::Unreadable { broker },
                };
                ended.push((piece.name, place.generation, reason));
            }
        }
        for generation in &generations {
            *state.in_flight.entry(*generation).or_default() += 1;
        }
        drop(state);
        drop(turn);
        ended.into_iter().for_each(|(name, generation, reason)| stopped(name, generation, reason));
        Fetched { batch, flight: Flight { positions: Arc::clone(self), generations } }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn partition(number: i32) -> Arc<TopicPartition> {
        Arc::new(TopicPartition {
            cluster_id: "c".into(),
            topic_id: Uuid::from_u128(1),
            topic: "t".into(),
            partition: number,
        })
    }

    fn name(number: i32) -> PartitionName {
        PartitionName { topic: "t".into(), partition: number }
    }

    fn piece(number: i32, offsets: &[i64], position: Option<i64>) -> Piece {
        let record =
            |offset: &i64| Record { offset: *offset, timestamp_ms: None, key: None, payload: None, headers: vec![] };
        Piece { records: offsets.iter().map(record).collect(), position, at_end: false, ..Piece::of(name(number)) }
    }

    fn take(positions: &Arc<Positions>, pieces: Vec<Piece>) -> Fetched {
        positions.take(positions.turn(), pieces, |_, _, _| {})
    }

    fn spans(fetched: &Fetched) -> Vec<(i64, i64, usize)> {
        let runs = fetched.batch.runs.iter();
        runs.map(|run| (run.first_offset, run.next_offset, run.records.len())).collect()
    }

    #[test]
    fn runs_tile_offsets_with_and_without_records() {
        let positions = Positions::new(1);
        positions.install(&positions.hold(|| {}), partition(0), 0, 10);
        let first = take(&positions, vec![piece(0, &[10, 11, 14], None)]);
        assert_eq!(spans(&first), [(10, 15, 3)], "a gap within belongs to the run");
        assert!(!positions.caught_up());
        let second = take(&positions, vec![piece(0, &[], Some(18))]);
        assert_eq!(spans(&second), [(15, 18, 0)], "the end lies beyond the last record");
        let third = take(&positions, vec![piece(0, &[], Some(18))]);
        assert!(third.batch.runs.is_empty(), "the same position again moves nothing");
        drop((first, second, third));
        assert!(!positions.caught_up(), "nobody knows where the log ends");
        positions.look(&HashMap::from([(name(0), 18)]));
        assert!(positions.caught_up());
        positions.look(&HashMap::from([(name(0), 19)]));
        assert!(!positions.caught_up());
    }

    #[test]
    fn an_old_generation_is_void() {
        let positions = Positions::new(1);
        let old = positions.install(&positions.hold(|| {}), partition(0), 0, 0);
        assert!(positions.is_current(&name(0), old));
        let new = positions.install(&positions.hold(|| {}), partition(0), 0, 5);
        assert!(!positions.is_current(&name(0), old));
        assert!(positions.is_current(&name(0), new));
        positions.remove(&positions.hold(|| {}), &[name(0)]);
        assert!(!positions.is_current(&name(0), new));
        assert!(take(&positions, vec![piece(0, &[5], None)]).batch.records.is_empty());
    }

    #[test]
    fn a_drain_waits_for_what_is_in_flight() {
        let positions = Positions::new(1);
        let generation = positions.install(&positions.hold(|| {}), partition(0), 0, 0);
        let fetched = take(&positions, vec![piece(0, &[0], None)]);
        assert!(!positions.drain(&[name(0)], Duration::from_millis(1)), "still in flight");
        assert!(!positions.drain(&[name(0)], Duration::from_millis(1)), "a second drain does not pass it by");
        assert!(positions.is_current(&name(0), generation), "and may still be committed");
        let finished = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (other, seen) = (Arc::clone(&positions), Arc::clone(&finished));
        let drain = std::thread::spawn(move || {
            let drained = other.drain(&[name(0)], Duration::from_secs(60));
            drained && seen.load(std::sync::atomic::Ordering::SeqCst)
        });
        finished.store(true, std::sync::atomic::Ordering::SeqCst);
        drop(fetched);
        assert!(drain.join().unwrap(), "done once the batch is, and not before");
    }

    #[test]
    fn the_assignment_changes_only_between_turns() {
        let positions = Positions::new(1);
        let turn = positions.turn();
        let other = Arc::clone(&positions);
        let (woken, wait) = std::sync::mpsc::channel();
        let hold = std::thread::spawn(move || {
            let hold = other.hold(|| woken.send(()).unwrap());
            other.install(&hold, partition(0), 0, 7)
        });
        wait.recv().unwrap();
        // The reader comes back with what it read of the old assignment: nothing of it is counted.
        let fetched = positions.take(turn, vec![piece(0, &[99], None)], |_, _, _| {});
        assert!(fetched.batch.records.is_empty());
        hold.join().unwrap();
        assert_eq!(spans(&take(&positions, vec![piece(0, &[7], None)])), [(7, 8, 1)]);
    }

    #[test]
    fn a_lost_partition_still_gives_what_stands_before() {
        let positions = Positions::new(1);
        positions.install(&positions.hold(|| {}), partition(0), 0, 0);
        let mut broken = piece(0, &[0], None);
        broken.lost = Some(Lost::Offset("out of range".into()));
        let told = std::cell::RefCell::new(Vec::new());
        let fetched =
            positions.take(positions.turn(), vec![broken], |name, _, reason| told.borrow_mut().push((name, reason)));
        assert_eq!(spans(&fetched), [(0, 1, 1)]);
        assert_eq!(told.borrow()[0].1, StopReason::OffsetLost { offset: 1, log: None, broker: "out of range".into() });
        assert!(positions.is_current(&name(0), fetched.batch.runs[0].generation));
        assert!(take(&positions, vec![piece(0, &[1], None)]).batch.records.is_empty());
    }

    #[test]
    fn partitions_spread_over_lanes() {
        let positions = Positions::new(2);
        let first = positions.lane_for(&name(0), &[]);
        let second = positions.lane_for(&name(1), &[first]);
        assert_ne!(first, second);
    }
}
