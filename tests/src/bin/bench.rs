//! `make bench`: the roof, a hand-written consumer and tidegate on the same backlog, in turns.
//!
//! `bench [--messages N] [--rounds N] [--lanes N] [--batch N] [--seed N] [--only NAME[,NAME…]]`

use std::process::ExitCode;

use tidegate_tests::{
    bench::{Contest, Contestant, child, profile, report},
    workload::Workload,
};

struct Options {
    messages: usize,
    rounds: usize,
    lanes: usize,
    batch: usize,
    seed: u64,
    contestants: Vec<Contestant>,
}

fn options(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options {
        messages: 300_000,
        rounds: 3,
        lanes: 2,
        batch: 1_000,
        seed: 1,
        contestants: Contestant::ALL.to_vec(),
    };
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} wants a value"))?;
        let number = || value.replace('_', "").parse::<usize>().map_err(|_| format!("{name}: '{value}' is no number"));
        match name.as_str() {
            "--messages" => options.messages = number()?.max(1),
            "--rounds" => options.rounds = number()?.max(1),
            "--lanes" => options.lanes = number()?.max(1),
            "--batch" => options.batch = number()?.max(1),
            "--seed" => options.seed = number()? as u64,
            "--only" => {
                let named = |name: &str| Contestant::ALL.into_iter().find(|contestant| contestant.name() == name);
                options.contestants = value
                    .split(',')
                    .map(|name| {
                        named(name)
                            .ok_or_else(|| format!("no contestant '{name}' (roof, hand-written, tidegate, reloading)"))
                    })
                    .collect::<Result<_, _>>()?;
            }
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, mandate] = arguments.as_slice()
        && flag == "--child"
    {
        child(mandate);
        return ExitCode::SUCCESS;
    }
    let options = match options(&arguments) {
        Ok(options) => options,
        Err(fault) => {
            eprintln!("bench: {fault}");
            return ExitCode::from(2);
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("bench: no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(run(&options));
    ExitCode::SUCCESS
}

async fn run(options: &Options) {
    let workload = Workload { messages: options.messages, seed: options.seed };
    eprintln!("producing {} messages", options.messages);
    let contest = Contest::prepare(workload, options.lanes, options.batch).await;
    let mut rounds = Vec::new();
    for round in 0..options.rounds {
        let mut runs = Vec::new();
        let mut order = options.contestants.clone();
        // Who comes first finds the machine in another state than who comes last: everybody takes each turn.
        let turn = round % order.len();
        order.rotate_left(turn);
        for contestant in order {
            let run = contest.run(contestant).await;
            eprintln!("round {}: {} {:.0} msg/s", round + 1, contestant.name(), run.rate);
            runs.push((contestant, run));
        }
        rounds.push(runs);
    }
    println!(
        "{} messages, {} lanes × {}, {} rounds, {} cores; profile: {}",
        options.messages,
        options.lanes,
        options.batch,
        options.rounds,
        std::thread::available_parallelism().map_or(0, usize::from),
        profile(),
    );
    print!("{}", report(&rounds));
}
