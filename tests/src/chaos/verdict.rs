//! What must hold after a walk. Each promise that does not is a finding; none of them ends the questions.

use std::collections::BTreeSet;

use super::{
    story::Story,
    world::{TOPIC, World},
};
use crate::{
    oracle,
    settlement::{self, CONSUMER},
};

/// How many examples a finding has.
const EXAMPLES: usize = 5;

/// What the database says after a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Outcomes, added up over all chains.
    pub totals: oracle::Totals,
    /// Published ids that were never applied.
    pub lost: usize,
    /// Payments whose sum is not that of their events.
    pub wrong_sums: usize,
}

/// Holds the story against the database. Everything published is consumed, and no host runs.
///
/// # Panics
/// Where the database does not answer.
pub async fn judge(world: &World, story: &Story) -> Account {
    let (chronicle, database, expected) = (&world.chronicle, &world.database, story.expected());
    let totals = oracle::totals(database, CONSUMER).await;
    let mut account = Account { totals, ..Account::default() };

    let ids: Vec<String> = sqlx::query_scalar("SELECT message_id FROM processed_messages WHERE consumer_name = $1")
        .bind(CONSUMER)
        .fetch_all(database.pool())
        .await
        .unwrap();
    let strange: Vec<_> = ids.iter().filter(|id| !story.applies(id)).take(EXAMPLES).collect();
    if !strange.is_empty() {
        chronicle.found(format_args!("ids in the ledger that were never to be applied, such as {strange:?}"));
    }
    account.lost = expected.applied.saturating_sub(ids.len());
    if ids.len() != expected.applied {
        chronicle.found(format_args!("the ledger has {} ids of {}", ids.len(), expected.applied));
    }
    if totals.applied != i64::try_from(ids.len()).unwrap_or(0) {
        let applied = totals.applied;
        chronicle
            .found(format_args!("the chains say that {applied} inputs were applied, the ledger has {}", ids.len()));
    }

    // The adding column: what was applied twice, or not at all, is a wrong sum.
    let found = settlement::amounts(database).await;
    let payments: BTreeSet<&String> = found.keys().chain(expected.sums.keys()).collect();
    let wrong: Vec<_> = payments
        .into_iter()
        .filter(|payment| found.get(*payment) != expected.sums.get(*payment))
        .map(|payment| (payment, expected.sums.get(payment), found.get(payment)))
        .collect();
    account.wrong_sums = wrong.len();
    if !wrong.is_empty() {
        let some = &wrong[..wrong.len().min(EXAMPLES)];
        chronicle.found(format_args!("{} payments have wrong sums, such as (expected, found) {some:?}", wrong.len()));
    }
    let doubled = oracle::target_duplicates(database, "settlements", "payment_id").await;
    if doubled > 0 {
        chronicle.found(format_args!("{doubled} payments have more than one row"));
    }

    dead_letters(world, &expected.dead, expected.broken).await;
    chains(world).await;
    account
}

/// Exactly the inputs that are at fault themselves are dead letters: infrastructure never makes one (Invariant 6).
async fn dead_letters(world: &World, expected: &[String], broken: u64) {
    let (chronicle, pool) = (&world.chronicle, world.database.pool());
    let open = "SELECT DISTINCT message_id FROM dead_letters WHERE consumer_name = $1 AND status = 'open' AND message_id IS NOT NULL";
    let open: Vec<String> = sqlx::query_scalar(open).bind(CONSUMER).fetch_all(pool).await.unwrap();
    let (open, expected): (BTreeSet<_>, BTreeSet<_>) = (open.into_iter().collect(), expected.iter().cloned().collect());
    let missing: Vec<_> = expected.difference(&open).take(EXAMPLES).collect();
    let strange: Vec<_> = open.difference(&expected).take(EXAMPLES).collect();
    if !missing.is_empty() {
        chronicle.found(format_args!("inputs at fault without an open dead letter, such as {missing:?}"));
    }
    if !strange.is_empty() {
        chronicle.found(format_args!("open dead letters of inputs that were not at fault, such as {strange:?}"));
    }
    let without = "SELECT count(*) FROM dead_letters WHERE consumer_name = $1 AND message_id IS NULL";
    let without: i64 = sqlx::query_scalar(without).bind(CONSUMER).fetch_one(pool).await.unwrap();
    if u64::try_from(without).unwrap_or(0) != broken {
        chronicle.found(format_args!("{without} dead letters without an id, {broken} such messages"));
    }
}

/// The chains tile, add up, and end where the topic ends; Kafka knows it.
async fn chains(world: &World) {
    let chronicle = &world.chronicle;
    let faults = oracle::chain_faults(&world.database, CONSUMER).await;
    if !faults.is_empty() {
        chronicle.found(format_args!("{} faults in the chains, such as {}", faults.len(), faults[0]));
    }
    let ends: Vec<i64> =
        tokio::task::block_in_place(|| world.broker.watermarks(TOPIC)).into_iter().map(|(_, end)| end).collect();
    let mut look = super::watch::Look::new(world.admin.clone(), CONSUMER, TOPIC);
    let positions = look.at(ends.len()).await.unwrap_or_default().positions;
    if positions != ends {
        chronicle.found(format_args!("the chains end at {positions:?}, the topic at {ends:?}"));
    }
    let committed: Vec<i64> = tokio::task::block_in_place(|| world.broker.committed(&world.group, TOPIC))
        .into_iter()
        .map(Option::unwrap_or_default)
        .collect();
    if committed != ends {
        chronicle.found(format_args!("after a clean end Kafka knows {committed:?}, the topic ends at {ends:?}"));
    }
}
