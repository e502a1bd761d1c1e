//! What `make chaos` does beside walks: the longer forms of two tests, on servers of their own.

use std::{thread, time::Instant};

use super::figures::Entry;
use crate::{
    churn, fail_points,
    host::Protocol,
    servers::Servers,
    services::{Durability, Folder, Kafka, Postgres, ServiceError},
};

/// A broker and a database of one's own, as long as it lives.
struct Own {
    servers: Servers,
    _kafka: Kafka,
    _postgres: Postgres,
    folder: Folder,
}

impl Own {
    fn start() -> Result<Self, ServiceError> {
        let folder = Folder::new()?;
        let kafka = Kafka::start(folder.path())?;
        let postgres = Postgres::start(folder.path(), Durability::Fsync)?;
        Ok(Self { servers: Servers::at(kafka.bootstrap(), postgres.url()), _kafka: kafka, _postgres: postgres, folder })
    }
}

/// Kills a host so many times at each fail point.
///
/// # Errors
/// Where a server does not start.
pub fn fail_points(rounds: usize, seed: u64) -> Result<Entry, ServiceError> {
    let own = tokio::task::block_in_place(Own::start)?;
    let work = move |servers| async move { fail_points::kill_at_every_point(&servers, rounds, seed).await };
    Ok(part("fail points", seed, own, work, |entry, figures| {
        println!("{figures}");
        let kills =
            figures.points.iter().map(|point| (format!("killed at {}", point.point.name()), point.kills as u64));
        entry.faults = kills.collect();
        entry.messages = u64::try_from(figures.records).unwrap_or(0);
        entry.consumed = u64::try_from(figures.records + figures.again).unwrap_or(0);
    }))
}

/// Lets hosts come and go for so many seconds, under each protocol.
///
/// # Errors
/// Where a server does not start.
pub fn churn(seconds: usize, seed: u64) -> Result<Vec<Entry>, ServiceError> {
    let mut entries = Vec::new();
    for protocol in [Protocol::Classic, Protocol::Consumer] {
        let own = tokio::task::block_in_place(Own::start)?;
        let work = move |servers| async move { churn::churn(&servers, protocol, seconds, seed).await };
        let name = format!("churn, {}", protocol.name());
        let entry = part(&name, seed, own, work, |entry, happened| {
            println!("{name}: {} records, {:?}; 0 lost, 0 applied twice", happened.records, happened.steps);
            // What is no fault is left out: a place where nobody was, somebody who sleeps on.
            let faults = happened.steps.into_iter().filter(|(what, _)| churn::FAULTS.contains(what));
            entry.faults = faults.map(|(what, times)| (format!("churn: host {what}"), times)).collect();
            entry.messages = happened.records;
        });
        entries.push(entry);
    }
    Ok(entries)
}

/// Does the work, which panics where something does not hold, on a thread and a runtime of its own.
fn part<T: Send + 'static, F: Future<Output = T>>(
    name: &str,
    seed: u64,
    mut own: Own,
    work: impl FnOnce(Servers) -> F + Send + 'static,
    fill: impl FnOnce(&mut Entry, T),
) -> Entry {
    let begun = Instant::now();
    let mut entry = Entry { part: name.to_owned(), seed, ..Entry::default() };
    let servers = own.servers.clone();
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(work(servers))
    });
    match tokio::task::block_in_place(|| thread.join()) {
        Ok(done) => fill(&mut entry, done),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let text = text.unwrap_or_else(|| "it failed without a word".to_owned());
            println!("{name}: {text}; the servers' logs are kept in {}", own.folder.path().display());
            entry.findings.push(text);
            own.folder.keep();
        }
    }
    entry.seconds = begun.elapsed().as_secs_f64();
    entry
}
