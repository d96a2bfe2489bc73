//! A gRPC service whose callers are limited: `cargo run -p tollgate-server --example tonic`.

use tokio::net::TcpListener;
use tollgate_server::{Caller, Limits, Policy};
use tonic::transport::{Server, server::TcpIncoming};

const POLICY: &[u8] = b"
plans: { free: { rate_limit: { sustained: { rate: 10, window: minute }, burst: { capacity: 3 }, scope: user } } }
tenants: [ { id: acme, plan: free } ]
";

/// Serves whoever connects, limited.
pub async fn serve(listener: TcpListener) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let limits = Limits::new(Policy::of("policy", POLICY).map_err(|faults| faults.diagnostics)?);
    let layer = limits.layer(|request| {
        let user = request.headers.get("x-user").and_then(|user| user.to_str().ok());
        Caller::of("acme").user(user.unwrap_or("nobody")).operation(request.uri.path())
    });
    let (_, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(layer).add_service(health);
    Ok(server.serve_with_incoming(TcpIncoming::from(listener)).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    serve(TcpListener::bind("127.0.0.1:50051").await?).await
}
