//! `/v1/consumers`: what the status page shows, for machines, and the orders that an operator may give.

use axum::{
    Router,
    extract::{Path, RawQuery, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};

use super::{View, token};
use crate::{
    app::{Disobeyed, Order},
    health::ConsumerReport,
};

/// Characters of a parameter; a digest has 64.
const LONGEST: usize = 100;

/// The paths below `/v1`.
pub(super) fn routes() -> Router<View> {
    Router::new()
        .route("/v1/consumers", get(all))
        .route("/v1/consumers/{name}", get(one))
        .route("/v1/consumers/{name}/shadow", get(shadow))
        .route("/v1/consumers/{name}/shadow/{order}", post(change_shadow))
        .route("/v1/consumers/{name}/{order}", post(change))
}

async fn all(State(view): State<View>) -> Response {
    let consumers: Vec<_> = view.health.report().iter().map(|report| consumer(&view, report)).collect();
    answer(StatusCode::OK, &json!({ "consumers": consumers, "last_configuration_reload": view.health.configuration() }))
}

async fn one(State(view): State<View>, Path(name): Path<String>) -> Response {
    match view.health.report().iter().find(|report| report.consumer == name) {
        Some(report) => answer(StatusCode::OK, &consumer(&view, report)),
        None => refuse(StatusCode::NOT_FOUND, "no such consumer: see /v1/consumers"),
    }
}

/// With the token: differences show what is in messages.
async fn shadow(State(view): State<View>, Path(name): Path<String>, headers: HeaderMap) -> Response {
    if let Err(refusal) = token::check(view.token.as_ref(), &headers) {
        return refusal.into_response();
    }
    match view.control.shadow(&name) {
        Some(report) => answer(StatusCode::OK, &json!(report)),
        None => refuse(StatusCode::NOT_FOUND, "no such consumer, or it has no shadow: see /v1/consumers"),
    }
}

async fn change_shadow(
    State(view): State<View>,
    Path((name, order)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    if let Err(refusal) = token::check(view.token.as_ref(), &headers) {
        return refusal.into_response();
    }
    match order.as_str() {
        "promote" => obey(&view, &name, Order::Promote),
        "drop" => obey(&view, &name, Order::DropShadow),
        _ => refuse(StatusCode::NOT_FOUND, "a shadow can be told: promote, drop"),
    }
}

/// 202: it is done within moments, and `GET` of the consumer shows it.
async fn change(
    State(view): State<View>,
    Path((name, order)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    // The token first: who has none learns nothing of what there is.
    if let Err(refusal) = token::check(view.token.as_ref(), &headers) {
        return refusal.into_response();
    }
    let Some(order) = Order::from_word(&order) else {
        return refuse(StatusCode::NOT_FOUND, "a consumer can be told: restart, pause, resume, reload");
    };
    let query = query.unwrap_or_default();
    match (order, parameter(&query, "accept_key_change")) {
        (Order::Reload, Some(sha256)) => {
            let by = parameter(&query, "by").map_or_else(|| "over HTTP".to_owned(), |by| format!("{by}, over HTTP"));
            said(&view, &name, view.control.accept_key_change(&name, &sha256, &by))
        }
        (_, Some(_)) => refuse(StatusCode::BAD_REQUEST, "accept_key_change belongs to a reload"),
        (order, None) => obey(&view, &name, order),
    }
}

/// A parameter of a query.
fn parameter(query: &str, name: &str) -> Option<String> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    let (mut bytes, mut rest) = (Vec::new(), value.bytes());
    while let Some(byte) = rest.next() {
        let escaped = (byte == b'%').then(|| [rest.next(), rest.next()]);
        bytes.push(match escaped {
            None => byte,
            Some(digits) => {
                let digits = digits.into_iter().collect::<Option<Vec<u8>>>()?;
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
        });
    }
    let text = String::from_utf8(bytes).ok()?;
    Some(text.chars().filter(|c| !c.is_control()).take(LONGEST).collect())
}

fn obey(view: &View, name: &str, order: Order) -> Response {
    said(view, name, view.control.order(name, order))
}

fn said(view: &View, name: &str, done: Result<(), Disobeyed>) -> Response {
    match done {
        Ok(()) => match view.health.report().iter().find(|report| report.consumer == name) {
            Some(report) => answer(StatusCode::ACCEPTED, &consumer(view, report)),
            None => StatusCode::ACCEPTED.into_response(),
        },
        Err(why @ Disobeyed::Unknown(_)) => refuse(StatusCode::NOT_FOUND, &why.to_string()),
        Err(why @ Disobeyed::NoDigest) => refuse(StatusCode::BAD_REQUEST, &why.to_string()),
        Err(why) => refuse(StatusCode::CONFLICT, &why.to_string()),
    }
}

/// An error for a machine, in words for a person.
pub(super) fn refuse(status: StatusCode, why: &str) -> Response {
    answer(status, &json!({ "error": why }))
}

fn answer(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn consumer(view: &View, report: &ConsumerReport) -> Value {
    let outcomes = view.metrics.outcomes(&report.consumer);
    let counts: serde_json::Map<_, _> =
        outcomes.counts.iter().map(|(outcome, count)| ((*outcome).to_owned(), json!(count))).collect();
    let partition = |(name, state): (&String, &&str)| {
        let lag = report.lag.get(name);
        (name.clone(), json!({ "state": state, "lag": lag }))
    };
    let partitions: serde_json::Map<_, _> = report.partitions.iter().map(partition).collect();
    let reasons: Vec<_> = report.reasons.iter().map(|r| json!({ "about": r.about, "text": r.text })).collect();
    json!({
        "consumer": report.consumer,
        "state": report.phase,
        "ready": report.reasons.is_empty(),
        "reasons": reasons,
        "lanes": report.lanes,
        "partitions": partitions,
        "plugin": report.plugin,
        "last_reload": report.last_reload,
        "outcomes": counts,
        "last_progress": outcomes.last_progress.map(|at| at.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_what_was_escaped() {
        let query = "accept_key_change=ab12&by=ann%40ops%0A%C3%BC&broken=%4";
        let value = |name| parameter(query, name);
        assert_eq!(value("accept_key_change").as_deref(), Some("ab12"));
        assert_eq!(value("by").as_deref(), Some("ann@ops\u{fc}"), "nothing that would break a line");
        assert_eq!((value("broken"), value("b"), value("accept")), (None, None, None));
        assert_eq!(parameter(&format!("by={}", "x".repeat(1_000)), "by").map(|by| by.len()), Some(LONGEST));
    }
}
