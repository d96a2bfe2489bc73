//! What anybody may ask: whether the process lives, whether it wants requests, what it counted.

use std::future::Future;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::Health;
use crate::connections;
use crate::listening::Listening;

/// What the open endpoints tell.
#[derive(Debug)]
pub struct Open {
    /// Whether the gateway wants requests.
    pub health: Health,
    /// What was counted.
    pub registry: Registry,
}

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves the open endpoints alone on `listening` until `stop` is done.
pub async fn serve(
    listening: impl Into<Listening>,
    open: Open,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    connections::serve(listening.into(), open_routes(open), stop).await
}

/// The open endpoints.
pub(crate) fn open_routes(open: Open) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "alive\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(open))
}

async fn readyz(State(open): State<Arc<Open>>) -> (StatusCode, &'static str) {
    if open.health.is_ready() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
    }
}

async fn metrics(State(open): State<Arc<Open>>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &open.registry) {
        Ok(()) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
