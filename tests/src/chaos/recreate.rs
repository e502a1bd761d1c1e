//! A topic that is deleted and made again while hosts read it, and what their operator does about it.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::{
    actors::Hand,
    running::{all_joined, catch_up, tell_hosts},
    world::{TOPIC, World},
};
use crate::settlement::CONSUMER;

/// How long each step may take on healthy servers.
const PATIENCE: Duration = Duration::from_secs(90);

/// Where the chains of every life of the topic stand.
const TIPS: &str = "SELECT DISTINCT ON (topic_id, partition) topic_id::text, partition, next_offset FROM checkpoints
WHERE consumer_name = $1 AND topic = $2 ORDER BY topic_id, partition, seq DESC";

/// Nobody else may act. Everything of the old topic is consumed before it goes, since the oracle does not know of topics'
/// lives; what is published into the new one comes while the hosts still know the old one.
pub(super) async fn make_topic_again(hand: &Hand) -> bool {
    hand.reins.halt(true);
    let done = made_again(hand).await;
    hand.reins.halt(false);
    if let Err(why) = &done {
        hand.world.chronicle.found(format_args!("the topic was to be made again, but {why}"));
    }
    for slot in &hand.world.hosts {
        slot.lock().await.start();
    }
    done.is_ok()
}

async fn made_again(hand: &Hand) -> Result<(), String> {
    let (world, reins) = (&hand.world, &hand.reins);
    for slot in &world.hosts {
        slot.lock().await.start();
    }
    until("the producer has not paused", async || reins.halted().then_some(())).await?;
    // One that is still on its way in would have nothing to say of a topic that it never knew.
    if !all_joined(hand, Instant::now()).await {
        return Err("a host was not in its group".to_owned());
    }
    if !catch_up(hand, Instant::now()).await {
        return Err("the hosts were not through with the old one".to_owned());
    }
    let before = tips(world).await?;
    let partitions = i32::try_from(reins.partitions()).unwrap_or(1);
    world.broker.try_delete(TOPIC).await?;
    let gone = || world.broker.partitions(TOPIC) == 0;
    until("it does not go", async || tokio::task::block_in_place(gone).then_some(())).await?;
    let make = async || world.broker.try_create(TOPIC, partitions, &[]).await.ok();
    until("the broker does not make it", make).await?;
    reins.anew();
    reins.halt(false);

    // What one says is enough to go on by, but all of them have to.
    let (mut command, mut silent) = (None, None);
    for (number, slot) in world.hosts.iter().enumerate() {
        let what = format!("host {number} does not say so");
        let named = async || named_command(&slot.lock().await.says().await);
        match until(&what, named).await {
            Ok(named) => command = Some(named),
            Err(why) => silent = Some(why),
        }
    }
    if silent.is_some() {
        tell_hosts(world).await;
    }
    let Some(command) = command else { return Err("nobody says so".to_owned()) };
    world.chronicle.note(format_args!("the hosts say: `{command}`"));
    for slot in &world.hosts {
        slot.lock().await.terminate().await;
    }
    let after = tips(world).await?;
    if before != after {
        return Err(format!("the chains of the old one went on from {before:?} to {after:?}"));
    }
    seek(world, &command).await?;
    silent.map_or(Ok(()), Err)
}

/// Types what was named, until the group has no members any more.
async fn seek(world: &World, command: &str) -> Result<(), String> {
    let mut words: Vec<&str> = command.split_whitespace().skip(1).collect();
    // The file is gone with the host; the command is run with one that says the same.
    if let Some(at) = words.iter().position(|word| *word == "--config") {
        words.drain(at..(at + 2).min(words.len()));
    }
    words.extend(["--reason", "the topic was made again"]);
    let slot = world.hosts[0].lock().await;
    let begun = Instant::now();
    loop {
        let output = tokio::task::block_in_place(|| slot.run_once(&words));
        match output.status.code() {
            Some(0) => return Ok(()),
            // A static member stays until its session is over.
            Some(3) if begun.elapsed() < PATIENCE => sleep(Duration::from_millis(200)).await,
            _ => {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                return Err(format!("`{command}` ended with {}: {said}", output.status));
            }
        }
    }
}

/// The command that a host names where its topic was made again.
fn named_command(said: &str) -> Option<String> {
    let is_meant = |part: &&str| part.starts_with("tidegate seek ") && part.contains(" --topic-recreated ");
    said.split('`').find(is_meant).map(str::to_owned)
}

async fn tips(world: &World) -> Result<Vec<(String, i32, i64)>, String> {
    let asked = sqlx::query_as(TIPS).bind(CONSUMER).bind(TOPIC).fetch_all(&world.admin).await;
    asked.map_err(|error| format!("the chains cannot be read: {error}"))
}

/// Asks until there is an answer.
async fn until<T>(otherwise: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> Result<T, String> {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return Ok(answer);
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("{otherwise} within {} s", PATIENCE.as_secs()));
        }
        sleep(Duration::from_millis(100)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_found_among_what_a_host_says() {
        let said = "payments[1] is stopped: topic payments was deleted and made again; stop the hosts, run `tidegate seek \
                    --topic payments --topic-recreated --execute`, start them again";
        assert_eq!(named_command(said).as_deref(), Some("tidegate seek --topic payments --topic-recreated --execute"));
        assert_eq!(named_command("payments[1] is stopped: run `tidegate seek --offsets-lost --execute`"), None);
    }
}
