//! `/v1/consumers`: what the status page shows, for machines, and the orders that an operator may give.

use axum::{
    Router,
    extract::{Path, State},
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
async fn change(State(view): State<View>, Path((name, order)): Path<(String, String)>, headers: HeaderMap) -> Response {
    // The token first: who has none learns nothing of what there is.
    if let Err(refusal) = token::check(view.token.as_ref(), &headers) {
        return refusal.into_response();
    }
    let Some(order) = Order::from_word(&order) else {
        return refuse(StatusCode::NOT_FOUND, "a consumer can be told: restart, pause, resume, reload");
    };
    obey(&view, &name, order)
}

fn obey(view: &View, name: &str, order: Order) -> Response {
    match view.control.order(name, order) {
        Ok(()) => match view.health.report().iter().find(|report| report.consumer == name) {
            Some(report) => answer(StatusCode::ACCEPTED, &consumer(view, report)),
            None => StatusCode::ACCEPTED.into_response(),
        },
        Err(why @ Disobeyed::Unknown(_)) => refuse(StatusCode::NOT_FOUND, &why.to_string()),
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
