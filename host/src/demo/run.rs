//! One run, from an empty folder to the exit code.

use std::{
    io::IsTerminal,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    error::DemoError,
    host::Host,
    interrupt::Interrupt,
    measure::measure,
    options::Options,
    producer::{Plan, Producer},
    proof::proofs,
    report::Report,
    stage::{self, Stage},
    summary::{Style, summary},
    watch::Watch,
};

/// Events a second with `--keep-running`: something to look at, not a load.
const DRIP: u64 = 5;

/// Runs it, shows what came of it, and gives the exit code.
pub(super) async fn run(options: &Options, watched: bool) -> Result<u8, DemoError> {
    let mut interrupt = Interrupt::listen()?;
    let stage = Stage::set(options).await?;
    let played = on(&stage, options, watched, &mut interrupt).await;
    played.map_err(|error| DemoError::Begun { source: Box::new(error), folder: stage.folder().display().to_string() })
}

async fn on(stage: &Stage, options: &Options, watched: bool, interrupt: &mut Interrupt) -> Result<u8, DemoError> {
    if watched {
        eprintln!("{}\n", stage.introduction(options));
    }
    let watch = Watch::new(stage, options.events, watched);
    let producer = Producer::new(Arc::clone(&stage.broker), watch.pace(), watch.produced(), stage::story(options))?;
    let host = Host::start(&stage.config).await?;
    let played = play(options, watched, stage, &watch, &host, producer, interrupt).await;
    watch.end();
    if played.is_err() {
        watch.abandon();
    }
    host.drain().await;
    let producer = played?;
    // After the drain: what is in the database now stays, and the offsets are committed.
    let report = report(options, stage, &watch, &producer, None).await?;
    show(options, &report);
    Ok(u8::from(!report.ok()))
}

/// Produces everything, follows it to the end; then, where asked to, goes on slowly until interrupted.
async fn play(
    options: &Options,
    watched: bool,
    stage: &Stage,
    watch: &Watch,
    host: &Host,
    producer: Producer,
    interrupt: &mut Interrupt,
) -> Result<Producer, DemoError> {
    // Where a person watches, slowly enough to be seen.
    let per_second = watched.then(|| (options.events / 8).max(3_000));
    let plan = Plan { events: Some(options.events), per_second };
    let producer = tokio::select! {
        producer = act(watch, host, producer, plan) => producer?,
        () = interrupt.wait() => return Err(DemoError::Interrupted),
    };
    if !options.keep_running {
        return Ok(producer);
    }
    let interim = report(options, stage, watch, &producer, Some(host)).await?;
    watch.pause(|| {
        if !options.json {
            show(options, &interim);
        }
        eprintln!("\nGoing on with {DRIP} events a second; Ctrl-C ends it, with the proofs once more.");
    });
    let going_on = act(watch, host, producer, Plan { events: None, per_second: Some(DRIP) });
    tokio::pin!(going_on);
    tokio::select! {
        ended = &mut going_on => return ended,
        () = interrupt.wait() => watch.produced().stop.store(true, Ordering::Relaxed),
    }
    tokio::select! {
        ended = going_on => ended,
        () = interrupt.wait() => Err(DemoError::Interrupted),
    }
}

/// Produces as planned; then, once every consumer has seen all of it, what was broken, corrected.
async fn act(watch: &Watch, host: &Host, producer: Producer, plan: Plan) -> Result<Producer, DemoError> {
    let producer = follow(watch, host, producer, move |producer| producer.run(plan)).await?;
    follow(watch, host, producer, Producer::correct).await
}

/// Lets the producer work on a thread of its own, until it has ended and every consumer has caught up.
async fn follow(
    watch: &Watch,
    host: &Host,
    mut producer: Producer,
    work: impl FnOnce(&mut Producer) -> Result<(), DemoError> + Send + 'static,
) -> Result<Producer, DemoError> {
    let ended = Arc::new(AtomicBool::new(false));
    let thread = tokio::task::spawn_blocking({
        let ended = Arc::clone(&ended);
        move || {
            let result = work(&mut producer);
            ended.store(true, Ordering::Release);
            result.map(|()| producer)
        }
    });
    let caught_up = watch.until_caught_up(|| !ended.load(Ordering::Acquire), || host.trouble()).await;
    if caught_up.is_err() {
        watch.abandon();
    }
    let producer = thread.await.unwrap_or_else(|e| Err(DemoError::Host(format!("the producer broke off: {e}"))));
    caught_up.and(producer)
}

async fn report(
    options: &Options,
    stage: &Stage,
    watch: &Watch,
    producer: &Producer,
    running: Option<&Host>,
) -> Result<Report, DemoError> {
    let ends = watch.ends().await?;
    let mut measured = measure(&stage.database, &stage.broker, &ends).await?;
    // While the host runs, commits are still on their way.
    if running.is_none() {
        measured.committed = stage.committed().await?;
    }
    let proofs = proofs(producer.story.oracle(), &measured);
    let report = Report {
        events: options.events,
        seed: options.seed,
        measured,
        proofs,
        places: stage.places(running.and_then(Host::metrics_url)),
    };
    stage.keep(&report)?;
    Ok(report)
}

fn show(options: &Options, report: &Report) {
    if options.json {
        println!("{}", report.json());
    } else {
        let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        print!("{}", summary(report, Style { colours }));
    }
}
