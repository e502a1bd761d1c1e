//! Looks at the database while nothing is written to it: whether it answers, and whether it still knows what was committed.
//!
//! A failover to a standby that lagged, or a restore, takes commits back. A lane that has work finds out at its next commit,
//! whose link has lost its predecessor. A partition without new records would not, and what it lost would stay lost until
//! somebody publishes something: so the chains' tips are compared every few seconds.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::lane::{Phase, Shared};
use crate::{
    health::Dependency,
    panics,
    record::TopicPartition,
    store::{Connection, Registration, Statement, Store, StoreError, Tip},
};

/// How often.
const LOOK: Duration = Duration::from_secs(5);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection beside the lanes', for whoever needs one. Taken out while in use: cut off in the middle of something it
/// never comes back.
pub(super) struct Aside<C = Box<dyn Connection>> {
    kept: Mutex<Option<C>>,
    /// One that is on its way. Who waits for it may have to go before it is there: then it is the next one's.
    coming: tokio::sync::Mutex<Option<JoinHandle<Result<C, StoreError>>>>,
}

impl<C> Default for Aside<C> {
    fn default() -> Self {
        Self { kept: Mutex::default(), coming: tokio::sync::Mutex::default() }
    }
}

impl<C: Send + 'static> Aside<C> {
    /// The one that was given back last, or a new one, which `connect` makes.
    pub(super) async fn take<F>(&self, connect: impl FnOnce() -> F) -> Result<C, StoreError>
    where
        F: Future<Output = Result<C, StoreError>> + Send + 'static,
    {
        if let Some(kept) = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Ok(kept);
        }
        let mut coming = self.coming.lock().await;
        let connected = coming.get_or_insert_with(|| tokio::spawn(connect())).await;
        *coming = None;
        connected.unwrap_or_else(|error| {
            let text = panics::of_task(error);
            Err(StoreError::transient(Statement::Connect, "connect to the database", text))
        })
    }

    /// For the next who needs one. Where one is kept already, this one goes.
    pub(super) fn give_back(&self, connection: C) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(connection);
    }
}

/// Makes a connection, as [`Aside::take`] wants it.
pub(super) fn connecting(
    store: &Arc<dyn Store>,
) -> impl FnOnce() -> BoxFuture<Result<Box<dyn Connection>, StoreError>> + use<> {
    let store = Arc::clone(store);
    || Box::pin(async move { store.connect().await })
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Registers a consumer that the database has lost (a failover, a restore), with the plugin that rules now.
pub(super) async fn register_again(store: &dyn Store, registration: &Registration) -> Result<(), StoreError> {
    tracing::warn!(consumer = %registration.name, "the database has lost the consumer: registering it again");
    // Under which key version it stands there is looked at in every transaction.
    store.register_consumer(registration).await.map(drop)
}

/// A partition as this member holds it.
struct Held {
    partition: Arc<TopicPartition>,
    generation: u64,
    tip: Tip,
}

/// Until the consumer stops running.
pub(super) async fn watch(shared: Arc<Shared>, aside: Arc<Aside>) {
    let mut phase = shared.phase.clone();
    loop {
        tokio::select! {
            () = sleep(LOOK) => {}
            // An error means that the consumer is gone.
            _ = phase.wait_for(|phase| *phase > Phase::Running) => return,
        }
        match timeout(PATIENCE, look(&shared, &aside)).await {
            Ok(Ok(())) => shared.health.answers(Dependency::Database),
            Ok(Err(error)) => shared.health.silent(Dependency::Database, error.to_string()),
            Err(_) => {
                let text = format!("{} did not answer within {} s", shared.store.place(), PATIENCE.as_secs());
                shared.health.silent(Dependency::Database, text);
            }
        }
    }
}

async fn look(shared: &Shared, aside: &Aside) -> Result<(), StoreError> {
    let held = held(shared);
    let partitions: Vec<_> = held.iter().map(|one| Arc::clone(&one.partition)).collect();
    let mut connection = aside.take(connecting(&shared.store)).await?;
    let found = connection.tips(&shared.name, &partitions).await?;
    aside.give_back(connection);

    let lost: Vec<_> = held.iter().zip(found).filter(|(one, found)| is_lost(&one.tip, found.as_ref())).collect();
    if lost.is_empty() {
        return Ok(());
    }
    for (Held { partition, tip, .. }, found) in &lost {
        tracing::warn!(
            consumer = %shared.name, %partition, committed = tip.next_offset,
            database = found.map(|tip| tip.next_offset),
            "the database has forgotten what it had committed (a failover, a restore): going back to what it knows"
        );
    }
    shared.metrics.fenced();
    shared.source.reposition(&lost.iter().map(|(one, _)| one.generation).collect::<Vec<_>>());
    Ok(())
}

/// What this member holds, with the tips that it knows to be committed. The generation comes before the tip: a tip that is
/// newer than its generation belongs to the next, whose partition is then left alone.
fn held(shared: &Shared) -> Vec<Held> {
    let held = shared.source.positions().generations();
    let tips = shared.tips();
    let with_tip = |(partition, generation)| {
        let tip = *tips.get(&partition)?;
        Some(Held { partition, generation, tip })
    };
    held.into_iter().filter_map(with_tip).collect()
}

/// Whether a chain no longer holds the link that was committed last. Chains only grow: what is found afterwards is that
/// link or a later one, or something was taken back. Pure.
fn is_lost(known: &Tip, found: Option<&Tip>) -> bool {
    match found {
        None => true,
        Some(found) => found.seq < known.seq || (found.seq == known.seq && found.id != known.id),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn a_connection_that_comes_too_late_is_there_for_the_next() {
        let (aside, made) = (Aside::<u8>::default(), Arc::new(AtomicU8::new(0)));
        let connect = || {
            let made = Arc::clone(&made);
            move || async move {
                sleep(Duration::from_millis(50)).await;
                Ok(made.fetch_add(1, Ordering::SeqCst))
            }
        };
        // As a rebalance does that has less time than a connection takes.
        let mut tries = 0;
        let found = loop {
            tries += 1;
            if let Ok(found) = timeout(Duration::from_millis(20), aside.take(connect())).await {
                break found;
            }
        };
        assert!(tries > 1 && matches!(found, Ok(0)), "the one that was begun first, after {tries} tries");
        aside.give_back(7);
        assert!(matches!(aside.take(connect()).await, Ok(7)));
        assert!(matches!(aside.take(connect()).await, Ok(1)));
    }

    #[test]
    fn a_chain_that_lacks_a_committed_link_was_taken_back() {
        let tip = |id: u128, seq| Tip { id: Uuid::from_u128(id), seq, next_offset: seq * 10 };
        let known = tip(5, 5);
        assert!(!is_lost(&known, Some(&tip(5, 5))));
        assert!(!is_lost(&known, Some(&tip(6, 6))), "extended meanwhile");
        assert!(is_lost(&known, Some(&tip(4, 4))));
        assert!(is_lost(&known, Some(&tip(9, 5))), "taken back, and extended otherwise");
        assert!(is_lost(&known, None));
    }
}
