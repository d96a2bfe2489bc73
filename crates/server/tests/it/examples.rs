//! The examples, run and asked by programs that a reader would ask them with.

use std::process::Command;

use tokio::net::TcpListener;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

#[allow(dead_code)]
#[path = "../../examples/axum.rs"]
mod axum_example;
#[allow(dead_code)]
#[path = "../../examples/tonic.rs"]
mod tonic_example;

/// More than pass before the first refusal, whatever time goes by between them.
const ENOUGH: usize = 200;

#[tokio::test]
async fn the_axum_example_limits_curl() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server =
        tokio::spawn(async move { axum::serve(listener, axum_example::app().unwrap()).await });
    let asked = tokio::task::spawn_blocking(move || {
        let curl = || {
            let output =
                Command::new("curl").args(["-sSi", "--max-time", "60", &url]).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        (0..ENOUGH).map(|_| curl()).find(|answer| !answer.starts_with("HTTP/1.1 200 OK"))
    });
    let refused = asked.await.unwrap().expect("a refusal");
    server.abort();
    assert!(refused.starts_with("HTTP/1.1 429 Too Many Requests"), "{refused}");
    for part in [
        "\r\nretry-after: ",
        "ratelimit-policy: \"user-minute\";q=3;w=18\r\n",
        "RATE_LIMIT_EXCEEDED",
    ] {
        assert!(refused.contains(part), "{part} in {refused}");
    }
}

#[tokio::test]
async fn the_tonic_example_limits_a_stock_client() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint =
        Endpoint::from_shared(format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let server = tokio::spawn(async move { tonic_example::serve(listener).await.unwrap() });
    let mut client = HealthClient::new(endpoint.connect().await.unwrap());
    let mut refused = None;
    for _ in 0..ENOUGH {
        if let Err(status) = client.check(HealthCheckRequest::default()).await {
            refused = Some(status);
            break;
        }
    }
    server.abort();
    assert_eq!(refused.expect("a refusal").code(), tonic::Code::ResourceExhausted);
}
