//! `tidegate run`.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    Arguments, Exit,
    arguments::RunOptions,
    console::{block_on, complain, configuration, who},
    dry_run,
};
use crate::{
    app::{App, Fault},
    config::{Config, Diagnostic},
    fail_point,
    http::{Server, View, load_tls},
    key_gate::Acceptance,
};

pub(super) fn run(arguments: &Arguments, options: &RunOptions) -> Exit {
    if let Err(why) = fail_point::arm() {
        complain(&why);
        return Exit::Invalid;
    }
    match configuration(arguments) {
        Ok((config, _)) if options.dry_run => dry_run::run(&config, options),
        Ok((config, warnings)) => {
            let by = who();
            let accepted: Vec<_> = options.accept_key_change.iter().map(|word| Acceptance::new(word, &by)).collect();
            match unknown(&config, &accepted) {
                None => block_on(serve(config, warnings, accepted)),
                Some(why) => {
                    complain(&why);
                    Exit::Invalid
                }
            }
        }
        Err(exit) => exit,
    }
}

/// A word for no consumer of the configuration would be lost unseen.
fn unknown(config: &Config, accepted: &[Acceptance]) -> Option<String> {
    let known = |word: &&Acceptance| config.consumers.iter().any(|consumer| word.names(&consumer.name));
    let word = accepted.iter().find(|word| !known(word))?;
    let names: Vec<&str> = config.consumers.iter().map(|consumer| consumer.name.as_str()).collect();
    Some(format!(
        "--accept-key-change {word}: there is no such consumer, nor CONSUMER@ and 8 to 64 digits of its plugin's SHA-256; there is: {}",
        names.join(", ")
    ))
}

/// The signals that ask a process to end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for one; answers the exit code of who is forced by it.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.terminate.recv() => 143,
            _ = self.interrupt.recv() => 130,
        }
    }
}

async fn serve(config: Config, warnings: Vec<Diagnostic>, accepted: Vec<Acceptance>) -> Exit {
    for warning in &warnings {
        tracing::warn!(key = warning.key, "{}", warning.message);
    }
    let (mut signals, mut hangup) =
        match Signals::new().and_then(|signals| Ok((signals, signal(SignalKind::hangup())?))) {
            Ok(both) => both,
            Err(error) => {
                complain(&format!("cannot wait for signals: {error}"));
                return Exit::Environment;
            }
        };
    let starting = start(config, accepted);
    let (app, server) = tokio::select! {
        started = starting => match started {
            Ok(started) => started,
            Err(exit) => return exit,
        },
        // Nothing is at hand yet.
        _ = signals.next() => return Exit::Fine,
    };
    let exit = loop {
        tokio::select! {
            () = app.ended() => break ended(&app),
            _ = signals.next() => break drain(&app, &mut signals).await,
            _ = hangup.recv() => {
                tracing::info!("SIGHUP: reading the configuration and the plugins again");
                tokio::select! {
                    () = app.reload() => {}
                    _ = signals.next() => break drain(&app, &mut signals).await,
                }
            }
        }
    };
    drop(server);
    exit
}

fn ended(app: &App) -> Exit {
    // Each has logged why. A supervisor may try again; a process without a consumer would only look alive.
    tracing::error!("no consumer runs any more");
    match app.fault() {
        Some(Fault::Configuration) => Exit::Invalid,
        Some(Fault::Environment) => Exit::Environment,
        Some(Fault::Running) | None => Exit::Failed,
    }
}

async fn drain(app: &App, signals: &mut Signals) -> Exit {
    tracing::info!("draining: finishing what is at hand; another signal forces");
    tokio::select! {
        () = app.drain() => {
            tracing::info!("drained");
            Exit::Fine
        }
        code = signals.next() => {
            complain("forced to stop: what was at hand will come again");
            Exit::Code(code)
        }
    }
}

/// Everything that runs: the consumers, and what shows them.
async fn start(config: Config, accepted: Vec<Acceptance>) -> Result<(App, Option<Server>), Exit> {
    let http = config.http.clone();
    // Before anything runs: a mistake here must not be found with a batch at hand.
    let tls = http.tls.as_ref().map(load_tls).transpose().map_err(|why| {
        complain(&format!("cannot start: {why}"));
        Exit::Invalid
    })?;
    let app = App::start_accepting(config, accepted).map_err(|error| {
        complain(&format!("cannot start: {error}"));
        Exit::Environment
    })?;
    let Some(listen) = http.listen else { return Ok((app, None)) };
    let scheme = if tls.is_some() { "https" } else { "http" };
    match Server::start(listen, tls, View::of(&app, http.token)).await {
        Ok(server) => {
            tracing::info!("status and metrics on {scheme}://{}", server.address());
            Ok((app, Some(server)))
        }
        Err(error) => {
            complain(&cannot_listen(listen, &error));
            app.drain().await;
            Err(Exit::Environment)
        }
    }
}

fn cannot_listen(listen: std::net::SocketAddr, error: &std::io::Error) -> String {
    let other = match error.kind() {
        std::io::ErrorKind::AddrInUse => "; another tidegate may run there: `tidegate consumers` asks it",
        _ => "",
    };
    format!("cannot listen on {listen}: {error}{other}; choose another http.listen")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_use_may_be_another_host_s() {
        let there = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = there.local_addr().unwrap();
        let error = std::net::TcpListener::bind(address).unwrap_err();
        assert!(cannot_listen(address, &error).contains("`tidegate consumers` asks it; choose another http.listen"));
        let error = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        assert!(!cannot_listen(address, &error).contains("another tidegate"));
    }
}
