//! gRPC clients that nobody here wrote, against a tonic server behind the layer.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tollgate_engine::FakeClock;
use tollgate_server::{Caller, Limits, UnknownTenant};
use tonic::Code;
use tonic::transport::{Endpoint, Server, server::TcpIncoming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

use crate::support::{limits, text};

const POLICY: &str = "
plans: { free: { rate_limit: { sustained: { rate: 4, window: minute }, burst: { capacity: 2 }, scope: user } } }
tenants: [ { id: acme, plan: free } ]
";

/// A tonic server on a clock that stands still, until dropped.
struct Health {
    limits: Limits<FakeClock>,
    address: SocketAddr,
    server: JoinHandle<()>,
}

impl Health {
    async fn start() -> Health {
        let (limits, _) = limits(POLICY);
        let layer = limits.layer(|request| {
            let tenant = text(request.headers, "x-tenant");
            Caller::of(if tenant.is_empty() { "acme" } else { tenant }).user("ada")
        });
        let layer = layer.unknown_tenant(UnknownTenant::Forbidden);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (_, service) = tonic_health::server::health_reporter();
            let server = Server::builder().layer(layer).add_service(service);
            server.serve_with_incoming(TcpIncoming::from(listener)).await.unwrap();
        });
        Health { limits, address, server }
    }

    async fn check(
        &self,
        tenant: &'static str,
    ) -> Result<tonic::metadata::MetadataMap, tonic::Status> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        let mut client = HealthClient::new(endpoint.connect().await.unwrap());
        let mut request = tonic::Request::new(HealthCheckRequest::default());
        request.metadata_mut().insert("x-tenant", tenant.parse().unwrap());
        client.check(request).await.map(|response| response.metadata().clone())
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        self.server.abort();
    }
}

#[tokio::test]
async fn a_stock_tonic_client_is_told_its_limits_and_when_to_come_back() {
    let health = Health::start().await;
    for remaining in ["1", "0"] {
        let metadata = health.check("acme").await.unwrap();
        assert_eq!(metadata.get("x-ratelimit-remaining").unwrap(), remaining);
    }
    let status = health.check("acme").await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(
        status.message(),
        "The limit user-minute of plan:free is used up. Try again in 15 seconds."
    );
    for name in ["retry-after-ms", "grpc-retry-pushback-ms"] {
        assert_eq!(status.metadata().get(name).unwrap(), "15000", "{name}");
    }
    assert_eq!(status.metadata().get("x-ratelimit-remaining").unwrap(), "0");
    let retry = status.get_details_retry_info().unwrap();
    assert_eq!(retry.retry_delay, Some(Duration::from_secs(15)));
}

#[tokio::test]
async fn backpressure_and_unknown_tenants_are_statuses_too() {
    let health = Health::start().await;
    let status = health.check("nobody").await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    health.limits.set_pending(130);
    let status = health.check("acme").await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.metadata().get("retry-after-ms").unwrap(), "300");
}

#[tokio::test]
async fn grpcio_is_told_the_same() {
    let health = Health::start().await;
    let script = format!(
        "
import grpc
channel = grpc.insecure_channel('{}')
check = channel.unary_unary('/grpc.health.v1.Health/Check')
for n in range(3):
    try:
        answer, call = check.with_call(b'', timeout=60)
        told = dict(call.initial_metadata())
        print('OK', told['x-ratelimit-remaining'])
    except grpc.RpcError as error:
        told = dict(error.trailing_metadata())
        print(error.code().name, told['retry-after-ms'], told['grpc-retry-pushback-ms'])
        print(b'google.rpc.RetryInfo' in told['grpc-status-details-bin'], error.details())
",
        health.address
    );
    let output = tokio::task::spawn_blocking(move || {
        let python =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python");
        Command::new(python).args(["-c", &script]).output().unwrap()
    });
    let output = output.await.unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let expected = "OK 1\nOK 0\nRESOURCE_EXHAUSTED 15000 15000\n\
                    True The limit user-minute of plan:free is used up. Try again in 15 seconds.\n";
    assert_eq!(told, expected, "{}", String::from_utf8_lossy(&output.stderr));
}
