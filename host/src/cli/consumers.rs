//! `tidegate consumers`: looks at the consumers of a running host, and tells them to pause, go on or start again.

mod outcome;
mod table;

use std::{
    fmt::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use axum::http::Method;
use outcome::Awaited;
use serde_json::Value;
use table::{Reloads, plain, table};
use tokio::time::{Instant, sleep};

use super::{
    Arguments, Exit,
    arguments::{ConsumersCommand, ConsumersOptions},
    console::{answer, block_on, complain, configuration, who},
};
use crate::{
    config::Secret,
    http::client::{Endpoint, ask},
};

/// How long the outcome of a change is waited for, and how often it is asked for.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);

/// Where the host is and what it takes to ask it.
struct Host {
    endpoint: Endpoint,
    token: Option<Secret>,
    trusted: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, options: &ConsumersOptions) -> Exit {
    let host = match host(arguments, options) {
        Ok(host) => host,
        Err(exit) => return exit,
    };
    let (method, path) = match &options.command {
        None | Some(ConsumersCommand::List) => (Method::GET, "/v1/consumers".to_owned()),
        Some(ConsumersCommand::Pause { name }) => (Method::POST, order(name, "pause")),
        Some(ConsumersCommand::Resume { name }) => (Method::POST, order(name, "resume")),
        Some(ConsumersCommand::Restart { name }) => (Method::POST, order(name, "restart")),
        Some(ConsumersCommand::Reload { name, accept_key_change: None }) => (Method::POST, order(name, "reload")),
        Some(ConsumersCommand::Reload { name, accept_key_change: Some(sha256) }) => {
            let (sha256, by) = (encoded(sha256), encoded(&who()));
            (Method::POST, format!("{}?accept_key_change={sha256}&by={by}", order(name, "reload")))
        }
        Some(ConsumersCommand::Shadow { name }) => (Method::GET, order(name, "shadow")),
        Some(ConsumersCommand::PromoteShadow { name }) => (Method::POST, order(name, "shadow/promote")),
        Some(ConsumersCommand::DropShadow { name }) => (Method::POST, order(name, "shadow/drop")),
    };
    // It is not a consumer, so there is no table of it.
    let shadow = matches!(options.command, Some(ConsumersCommand::Shadow { .. }));
    // A token goes only where it is needed.
    let token = host.token.as_ref().filter(|_| method == Method::POST || shadow);
    if token.is_some() && host.endpoint.is_readable_on_the_way() {
        complain("warning: the token goes over the network in plain text; https:// would keep it");
    }
    let awaited = options.command.as_ref().filter(|_| !options.no_wait).and_then(awaited);
    block_on(async {
        let before = match &awaited {
            // Of before the order: what is there afterwards may be its outcome already.
            Some((_, name)) => match host.state(name).await {
                Ok(before) => before,
                Err(why) => return failed(Exit::Environment, &why, options.json),
            },
            None => Value::Null,
        };
        let said = match ask(&host.endpoint, method, &path, token, host.trusted.as_deref()).await {
            Ok(said) => said,
            Err(why) => return failed(Exit::Environment, &why, options.json),
        };
        match awaited {
            Some((awaited, name)) if said.status == 202 => await_it(&host, awaited, name, &before, options.json).await,
            _ => show(&host, said.status, &said.body, options.json || shadow),
        }
    })
}

/// What is to be waited for, and whose.
fn awaited(command: &ConsumersCommand) -> Option<(Awaited, &str)> {
    match command {
        ConsumersCommand::Reload { name, .. } | ConsumersCommand::PromoteShadow { name } => {
            Some((Awaited::Reload, name))
        }
        ConsumersCommand::Restart { name } => Some((Awaited::Start, name)),
        _ => None,
    }
}

/// Asks until it is known what became of an order.
async fn await_it(host: &Host, awaited: Awaited, name: &str, before: &Value, json: bool) -> Exit {
    let until = Instant::now() + PATIENCE;
    loop {
        let now = match host.state(name).await {
            Ok(now) => now,
            Err(why) => return failed(Exit::Environment, &format!("{name} was told, but {why}"), json),
        };
        let outcome = match awaited.outcome(before, &now) {
            Some(outcome) => outcome,
            None if Instant::now() < until => {
                sleep(PAUSE).await;
                continue;
            }
            None => Err(format!(
                "nothing has become of it within {} s: `tidegate consumers list` shows when something does",
                PATIENCE.as_secs()
            )),
        };
        if json {
            answer(&now.to_string());
        }
        return match outcome {
            Ok(text) => {
                if !json {
                    answer(&format!("{name}: {text}"));
                }
                Exit::Fine
            }
            Err(text) => {
                complain(&format!("error: {name}: {text}"));
                Exit::Failed
            }
        };
    }
}

impl Host {
    /// What it says of a consumer; null where it knows none of that name.
    async fn state(&self, name: &str) -> Result<Value, String> {
        let path = format!("/v1/consumers/{}", encoded(name));
        let said = ask(&self.endpoint, Method::GET, &path, None, self.trusted.as_deref()).await?;
        if said.status != 200 {
            return Ok(Value::Null);
        }
        serde_json::from_str(&said.body).map_err(|_| format!("{} answers, but not as tidegate does", self.endpoint))
    }
}

fn order(name: &str, order: &str) -> String {
    format!("/v1/consumers/{}/{order}", encoded(name))
}

/// A name as a part of a path.
fn encoded(name: &str) -> String {
    let mut path = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            let _ = write!(path, "%{byte:02X}");
        }
    }
    path
}

/// From the command line and the environment; what is missing there, from the configuration.
fn host(arguments: &Arguments, options: &ConsumersOptions) -> Result<Host, Exit> {
    let invalid = |why: &str| {
        complain(&format!("error: {why}"));
        Exit::Invalid
    };
    let mut token = match (&options.token_file, std::env::var("TIDEGATE_TOKEN")) {
        (Some(file), _) => Some(read_token(file).map_err(|why| invalid(&why))?),
        (None, Ok(token)) if !token.is_empty() => Some(Secret::new(token)),
        (None, _) => None,
    };
    if let Some(url) = &options.url {
        let endpoint = Endpoint::parse(url).map_err(|why| invalid(&format!("--url: {why}")))?;
        return Ok(Host { endpoint, token, trusted: options.ca.clone() });
    }
    let (config, _) = configuration(arguments).inspect_err(|_| {
        complain("  help: --url http://127.0.0.1:9464 asks the host without the configuration (and TIDEGATE_TOKEN has the token)");
    })?;
    let Some(listen) = config.http.listen else {
        return Err(invalid("[http] listen is \"off\": this host cannot be asked; --url names another one"));
    };
    token = token.or(config.http.token);
    let trusted = options.ca.clone().or_else(|| config.http.tls.as_ref().map(|tls| tls.cert_file.clone()));
    Ok(Host { endpoint: Endpoint::local(listen, config.http.tls.is_some()), token, trusted })
}

fn read_token(file: &Path) -> Result<Secret, String> {
    match std::fs::read_to_string(file) {
        Ok(text) if text.trim().is_empty() => Err(format!("--token-file: {} is empty", file.display())),
        Ok(text) => Ok(Secret::new(text.trim_end_matches(['\n', '\r']))),
        Err(error) => Err(format!("--token-file: cannot read {}: {error}", file.display())),
    }
}

fn failed(exit: Exit, why: &str, json: bool) -> Exit {
    if json {
        answer(&serde_json::json!({ "ok": false, "error": why }).to_string());
    }
    complain(&format!("error: {why}"));
    exit
}

fn show(host: &Host, status: u16, body: &str, json: bool) -> Exit {
    let said: Option<Value> = serde_json::from_str(body).ok();
    let why = said.as_ref().and_then(|said| said["error"].as_str()).unwrap_or("it does not say why");
    // After an order, the last reload is about something else.
    let reloads = if status == 202 { Reloads::Left } else { Reloads::Shown };
    let (exit, way_out) = match status {
        200 | 202 => {
            let Some(said) = said else {
                let why = format!("{} answers, but not as tidegate does", host.endpoint);
                return failed(Exit::Environment, &why, json);
            };
            answer(&if json { said.to_string() } else { table(&said, reloads) });
            return Exit::Fine;
        }
        400 => (Exit::Invalid, "the refusal in the host's log has the whole command"),
        401 => (Exit::Invalid, "give it with TIDEGATE_TOKEN, --token-file, or a configuration that has it"),
        403 => (Exit::Invalid, "that is a matter of the host's configuration"),
        404 => (Exit::Invalid, "`tidegate consumers list` shows what there is"),
        409 => (Exit::Failed, "`tidegate consumers list` shows its state"),
        421 => (Exit::Invalid, "it listens on its loopback address only: ask it on its own machine"),
        _ => (Exit::Environment, "is that a tidegate?"),
    };
    failed(exit, &format!("{} answers {status}: {}; {way_out}", host.endpoint, plain(why)), json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_is_one_part_of_the_path() {
        assert_eq!(order("settlement-service", "pause"), "/v1/consumers/settlement-service/pause");
        assert_eq!(order("a/../b c?ü", "restart"), "/v1/consumers/a%2F..%2Fb%20c%3F%C3%BC/restart");
    }
}
