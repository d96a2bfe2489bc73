//! An axum service whose callers are limited: `cargo run -p tollgate-server --example axum`, then `curl -i 127.0.0.1:3000`.

use axum::{Router, routing::get};
use tollgate_server::{Caller, Limits, Policy};

const POLICY: &[u8] = b"
plans: { free: { rate_limit: { sustained: { rate: 10, window: minute }, burst: { capacity: 3 }, scope: user } } }
tenants: [ { id: acme, plan: free } ]
";

/// The service, limited.
pub fn app() -> Result<Router, Box<dyn std::error::Error>> {
    let limits = Limits::new(Policy::of("policy", POLICY).map_err(|faults| faults.diagnostics)?);
    let layer = limits.layer(|request| {
        let user = request.headers.get("x-user").and_then(|user| user.to_str().ok());
        Caller::of("acme").user(user.unwrap_or("nobody"))
    });
    Ok(Router::new().route("/", get(|| async { "hello\n" })).layer(layer.same_body()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    Ok(axum::serve(listener, app()?).await?)
}
