//! `make chaos`: random walks over faults, on a broker and a database of their own.
//!
//! `chaos [--seed N | --seeds N,N,…] [--minutes N] [--hosts N] [--haste N] [--faults KIND,…]`

use std::{collections::BTreeSet, process::ExitCode, time::Duration};

use clap::Parser;
use tidegate_tests::chaos::{
    measure::measure,
    schedule::Allowed,
    walk::{Length, Options, walk},
};

/// Random walks over faults: hosts, database, broker and network fail while traffic flows, and nothing may be lost or
/// applied twice.
#[derive(Debug, Parser)]
#[command(name = "chaos")]
struct Arguments {
    /// Everything that is drawn follows from it; another one each time unless given
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Several walks, one after the other
    #[arg(long, value_delimiter = ',')]
    seeds: Vec<u64>,
    /// How long each walk injects faults
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// A number of faults instead of a time
    #[arg(long)]
    steps: Option<usize>,
    /// Hosts in the group
    #[arg(long, default_value_t = 3)]
    hosts: usize,
    /// How many times as fast as usual faults come
    #[arg(long, default_value_t = 1)]
    haste: u32,
    /// Measure recoveries one at a time before the first walk
    #[arg(long)]
    measure: bool,
    /// Only kinds that begin so, such as "host: kill,database"
    #[arg(long, value_delimiter = ',')]
    faults: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seeds = if arguments.seeds.is_empty() {
        vec![arguments.seed.unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0 % 1_000_000)]
    } else {
        arguments.seeds.clone()
    };
    let length = match arguments.steps {
        Some(steps) => Length::Faults(steps),
        None => Length::Time(Duration::from_secs_f64(arguments.minutes.max(0.0) * 60.0)),
    };
    let options = |seed: u64| Options {
        seed,
        length,
        hosts: arguments.hosts.max(1),
        haste: arguments.haste,
        allowed: Allowed { only: arguments.faults.iter().cloned().collect(), without: BTreeSet::new() },
    };
    let (mut injected, mut failed) = (0, Vec::new());
    let measured = arguments.measure.then(|| seeds[0]);
    for (seed, walks) in measured.iter().map(|seed| (seed, false)).chain(seeds.iter().map(|seed| (seed, true))) {
        let options = options(*seed);
        let report = if walks {
            eprintln!("seed {seed}: walking");
            walk(&options).await
        } else {
            eprintln!("measuring recoveries, one at a time");
            measure(&options).await
        };
        match report {
            Ok(report) => {
                print!("{report}");
                injected += report.injected();
                if !report.findings.is_empty() {
                    failed.push(*seed);
                }
            }
            Err(error) => {
                eprintln!("chaos: {error}");
                // As everywhere in this project: 3 = the environment.
                return ExitCode::from(3);
            }
        }
    }
    println!("{} walks, {injected} faults, {} seeds with findings {failed:?}", seeds.len(), failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
