//! What a host shows of itself: `/livez`, `/readyz`, `/metrics`, `/v1/consumers` and a status page at `/`, for everybody
//! who can reach it. What changes something, below `/v1`, needs a token.

mod admin;
pub(crate) mod client;
mod page;
mod serve;
mod tls;
mod token;

use std::sync::Arc;

use axum::{
    Router,
    body::HttpBody,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
pub use serve::Server;
pub use tls::{examine as examine_tls, load as load_tls};

use crate::{
    app::{App, Control},
    config::Secret,
    health::Health,
    metrics::Metrics,
};

/// Bytes of a request's body. None is read, but a client may send an empty JSON object or the like.
const BODY: u64 = 4 << 10;

/// What there is to show.
#[derive(Clone, Debug)]
pub struct View {
    /// Whether the process does its work.
    pub health: Health,
    /// What it has done.
    pub metrics: Arc<Metrics>,
    /// Where orders go.
    pub control: Control,
    /// What who gives orders must show; `None` = there are none.
    pub token: Option<Secret>,
}

impl View {
    /// Of this application.
    #[must_use]
    pub fn of(app: &App, token: Option<Secret>) -> Self {
        let (health, metrics, control) = (app.health().clone(), Arc::clone(app.metrics()), app.control().clone());
        Self { health, metrics, control, token }
    }
}

/// All paths. `loopback` = listening on a loopback address only.
fn router(view: View, loopback: bool) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .merge(admin::routes())
        .with_state(view)
        .layer(middleware::from_fn(small_bodies_only))
        .layer(middleware::from_fn_with_state(loopback, local_names_only))
        .layer(middleware::map_response(harden))
}

/// 200 unless a restart is called for.
async fn live(State(view): State<View>) -> Response {
    if view.health.live() {
        (StatusCode::OK, "live\n").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "stuck: restart this process\n").into_response()
    }
}

/// 200 while every consumer does its work, else 503 with every reason. Text, or JSON for who accepts it.
async fn ready(State(view): State<View>, headers: HeaderMap) -> Response {
    let reasons = view.health.reasons();
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accept.contains("application/json") {
        let body = serde_json::json!({"ready": reasons.is_empty(), "reasons": reasons}).to_string();
        return (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
    }
    let mut text = if reasons.is_empty() { "ready\n".to_owned() } else { "not ready\n".to_owned() };
    for reason in reasons {
        text.push_str(&format!("{}: {}: {}\n", reason.consumer, reason.about, reason.text));
    }
    (status, text).into_response()
}

async fn metrics(State(view): State<View>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], view.metrics.text()).into_response()
}

async fn index(State(view): State<View>) -> Response {
    let configuration = view.health.configuration();
    let html = page::render(&view.health.report(), configuration.as_ref(), view.health.live(), |consumer| {
        view.metrics.outcomes(consumer)
    });
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], html).into_response()
}

/// On a loopback address only loopback's names are answered: a web page that makes its own name resolve to this
/// machine (DNS rebinding) would otherwise read all of this through somebody's browser.
async fn local_names_only(State(loopback): State<bool>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).map(|host| host.to_str().unwrap_or("?").to_owned());
    match host {
        Some(host) if loopback && !is_local(&host) => {
            (StatusCode::MISDIRECTED_REQUEST, "only the loopback address is answered here\n").into_response()
        }
        _ => next.run(request).await,
    }
}

/// Refuses a body that is long, or of a length that nobody has said, before a byte of it is read.
async fn small_bodies_only(request: Request, next: Next) -> Response {
    match request.body().size_hint().upper() {
        Some(bytes) if bytes <= BODY => next.run(request).await,
        _ => (StatusCode::PAYLOAD_TOO_LARGE, "no request here needs a body\n").into_response(),
    }
}

fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

async fn harden(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_local() {
        for host in ["localhost", "LOCALHOST:9464", "127.0.0.1:1", "127.9.9.9", "[::1]:9464", "[::1]"] {
            assert!(is_local(host), "{host}");
        }
        for host in ["example.org", "localhost.example.org:9464", "10.0.0.1", "[2001:db8::1]:1", "", "?"] {
            assert!(!is_local(host), "{host}");
        }
    }
}
