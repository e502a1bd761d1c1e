//! `tidegate consumers`: looks at the consumers of a running host, and tells them to pause, go on or start again.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use axum::http::Method;
use serde_json::Value;

use super::{
    Arguments, Exit,
    arguments::{ConsumersCommand, ConsumersOptions},
    console::{answer, block_on, complain, configuration, who},
};
use crate::{
    config::Secret,
    http::client::{Endpoint, ask},
};

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
    block_on(async {
        match ask(&host.endpoint, method, &path, token, host.trusted.as_deref()).await {
            Ok(said) => show(&host, said.status, &said.body, options.json || shadow),
            Err(why) => failed(Exit::Environment, &why, options.json),
        }
    })
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
    let (config, _) = configuration(arguments)?;
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
    let (exit, way_out) = match status {
        200 | 202 => {
            let Some(said) = said else {
                let why = format!("{} answers, but not as tidegate does", host.endpoint);
                return failed(Exit::Environment, &why, json);
            };
            answer(&if json { said.to_string() } else { table(&said) });
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

/// Text of somebody else's, without signs that a terminal would obey.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Consumers, or one of them, for people.
fn table(said: &Value) -> String {
    let consumers = said["consumers"].as_array().map_or(std::slice::from_ref(said), Vec::as_slice);
    if consumers.is_empty() {
        return "no consumer is configured there".to_owned();
    }
    let text = |value: &Value| value.as_str().map(plain).unwrap_or_default();
    let head = ["consumer", "state", "partitions", "lag", "applied", "duplicates", "dead letters"].map(str::to_owned);
    let mut rows = vec![head];
    for consumer in consumers {
        let partitions = consumer["partitions"].as_object();
        let lags = || partitions.into_iter().flatten().map(|(_, partition)| partition["lag"].as_i64());
        // Where one is not known, the sum is not either.
        let lag = lags().sum::<Option<i64>>().map_or_else(|| "?".to_owned(), |lag| lag.to_string());
        let count = |outcome: &str| consumer["outcomes"][outcome].as_u64().unwrap_or_default().to_string();
        rows.push([
            text(&consumer["consumer"]),
            text(&consumer["state"]),
            partitions.map_or(0, serde_json::Map::len).to_string(),
            lag,
            count("applied"),
            count("duplicate"),
            count("dead"),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; 7] = std::array::from_fn(width);
    let mut lines = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cell = |(column, cell): (usize, &String)| {
            let width = widths[column];
            if column < 2 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        };
        let cells: Vec<_> = row.iter().enumerate().map(cell).collect();
        let _ = writeln!(lines, "{}", cells.join("  ").trim_end());
        let reload = number.checked_sub(1).map(|at| &consumers[at]["last_reload"]).filter(|reload| reload.is_object());
        if let Some(reload) = reload {
            let why = reload["why"].as_str().map(|why| format!(": {}", plain(why))).unwrap_or_default();
            let _ = writeln!(lines, "  last reload {} {}{why}", text(&reload["at"]), text(&reload["result"]));
        }
        let warning = number.checked_sub(1).and_then(|at| consumers[at]["plugin"]["warning"].as_str());
        if let Some(warning) = warning {
            let _ = writeln!(lines, "  ! plugin: {}", plain(warning));
        }
        let reasons = number.checked_sub(1).and_then(|at| consumers[at]["reasons"].as_array());
        for reason in reasons.into_iter().flatten() {
            let _ = writeln!(lines, "  ! {}: {}", text(&reason["about"]), text(&reason["text"]));
        }
    }
    lines.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn people_get_a_table_with_the_reasons_and_no_signs_for_the_terminal() {
        let outcomes = json!({ "applied": 12_345, "duplicate": 7, "dead": 0 });
        let consumer = |name: &str, partitions: Value, reasons: Value| json!({ "consumer": name, "state": "running", "partitions": partitions, "outcomes": outcomes, "reasons": reasons });
        let partition = |lag: Option<i64>| json!({ "state": "reading", "lag": lag });
        let one = consumer("a", json!({ "t[0]": partition(Some(2)), "t[1]": partition(Some(40)) }), json!([]));
        let stuck = json!([{ "about": "lane 0", "text": "tries \u{1b}[31magain" }]);
        let other = consumer("settlement", json!({ "t[2]": partition(None) }), stuck);
        assert_eq!(
            table(&json!({ "consumers": [one, other] })),
            "consumer    state    partitions  lag  applied  duplicates  dead letters\n\
             a           running           2   42    12345           7             0\n\
             settlement  running           1    ?    12345           7             0\n  \
             ! lane 0: tries  [31magain"
        );
        assert!(table(&one).ends_with("a         running           2   42    12345           7             0"));
    }

    #[test]
    fn any_name_is_one_part_of_the_path() {
        assert_eq!(order("settlement-service", "pause"), "/v1/consumers/settlement-service/pause");
        assert_eq!(order("a/../b c?ü", "restart"), "/v1/consumers/a%2F..%2Fb%20c%3F%C3%BC/restart");
    }
}
