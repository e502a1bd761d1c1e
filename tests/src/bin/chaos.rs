//! `make chaos`: random walks over faults, on a broker and a database of their own.
//!
//! `chaos [--seed N | --seeds N,N,…] [--minutes N] [--hosts N] [--haste N] [--faults KIND,…] [--measure]
//! [--fail-points N] [--churn SECONDS] [--figures FILE] [--table]`

use std::{collections::BTreeSet, path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use tidegate_tests::{
    chaos::{
        figures::{self, Entry},
        measure::measure,
        parts,
        schedule::Allowed,
        walk::{Length, Options, walk},
    },
    services::ServiceError,
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
    /// How long each walk injects faults; 0 = no walk
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
    /// After the walks, kill a host so many times at each fail point
    #[arg(long, value_name = "TIMES", default_value_t = 0)]
    fail_points: usize,
    /// After the walks, hosts come and go every second for so long, under both protocols of a group
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    churn: usize,
    /// Where a line of figures is added for each part [default: target/chaos.jsonl]
    #[arg(long)]
    figures: Option<PathBuf>,
    /// Only add the figures up that were kept so far, as Markdown
    #[arg(long)]
    table: bool,
}

impl Arguments {
    fn options(&self, seed: u64) -> Options {
        let length = match self.steps {
            Some(steps) => Length::Faults(steps),
            None => Length::Time(Duration::from_secs_f64(self.minutes.max(0.0) * 60.0)),
        };
        Options {
            seed,
            length,
            hosts: self.hosts.max(1),
            haste: self.haste,
            allowed: Allowed { only: self.faults.iter().cloned().collect(), without: BTreeSet::new() },
        }
    }

    fn seeds(&self) -> Vec<u64> {
        if self.seeds.is_empty() {
            vec![self.seed.unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0 % 1_000_000)]
        } else {
            self.seeds.clone()
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let file = arguments.figures.clone().unwrap_or_else(figures::file);
    if arguments.table {
        return match figures::read(&file) {
            Ok(entries) => {
                print!("{}", figures::tables(&entries));
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("chaos: {}: {error}", file.display());
                ExitCode::from(2)
            }
        };
    }
    let mut done = Done { file, parts: 0, faults: 0, failed: Vec::new() };
    if let Err(error) = all(&arguments, &mut done).await {
        eprintln!("chaos: {error}");
        // As everywhere in this project: 3 = the environment.
        return ExitCode::from(3);
    }
    println!("{} parts, {} faults; with findings: {:?}", done.parts, done.faults, done.failed);
    if done.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What was done so far.
struct Done {
    file: PathBuf,
    parts: usize,
    faults: u64,
    failed: Vec<String>,
}

impl Done {
    fn keep(&mut self, entry: &Entry) {
        self.parts += 1;
        self.faults += entry.faults.values().sum::<u64>();
        if !entry.findings.is_empty() {
            self.failed.push(format!("{} (seed {})", entry.part, entry.seed));
        }
        if let Err(error) = figures::append(&self.file, entry) {
            eprintln!("chaos: the figures are not kept: {}: {error}", self.file.display());
        }
    }
}

async fn all(arguments: &Arguments, done: &mut Done) -> Result<(), ServiceError> {
    let seeds = arguments.seeds();
    if arguments.measure {
        eprintln!("measuring recoveries, one at a time");
        let report = measure(&arguments.options(seeds[0])).await?;
        print!("{report}");
        done.keep(&Entry::of("measure", &report));
    }
    let walks = arguments.steps.is_some() || arguments.minutes > 0.0;
    for &seed in seeds.iter().filter(|_| walks) {
        eprintln!("seed {seed}: walking");
        let report = walk(&arguments.options(seed)).await?;
        print!("{report}");
        done.keep(&Entry::of("walk", &report));
    }
    if arguments.fail_points > 0 {
        eprintln!("seed {}: killing hosts at each fail point", seeds[0]);
        done.keep(&parts::fail_points(arguments.fail_points, seeds[0])?);
    }
    if arguments.churn > 0 {
        eprintln!("seed {}: hosts come and go", seeds[0]);
        for entry in parts::churn(arguments.churn, seeds[0])? {
            done.keep(&entry);
        }
    }
    Ok(())
}
