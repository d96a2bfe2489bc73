//! A tonic client that is paced, against tonic servers: one that refuses in its trailers, one behind our layer.

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use http::{HeaderMap, Uri};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::Stream;
use tollgate_client::{Ask, PaceLayer, Paced, Pacers, Settings, TooLong};
use tollgate_server::{Caller, Limits, Policy};
use tonic::metadata::MetadataMap;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_types::{ErrorDetails, StatusExt};
use tower_layer::Layer;

const WAIT: Duration = Duration::from_secs(60);

/// How a server says that it refuses.
#[derive(Clone, Copy, Debug)]
enum Refuses {
    /// In the trailers, before any message: `retry-after-ms`.
    ByMillis,
    /// In the trailers, before any message: a `RetryInfo`.
    ByRetryInfo,
    /// In the trailers, after a message.
    AfterAMessage,
}

impl Refuses {
    fn status(self) -> Status {
        let exhausted = Code::ResourceExhausted;
        match self {
            Refuses::ByMillis | Refuses::AfterAMessage => {
                let mut metadata = MetadataMap::new();
                metadata.insert("retry-after-ms", WAIT.as_millis().to_string().parse().unwrap());
                Status::with_metadata(exhausted, "too much", metadata)
            }
            Refuses::ByRetryInfo => {
                let details = ErrorDetails::with_retry_info(Some(WAIT));
                Status::with_error_details(exhausted, "too much", details)
            }
        }
    }
}

type Answers = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Health for Refuses {
    type WatchStream = Answers;

    async fn check(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        Ok(Response::new(HealthCheckResponse::default()))
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Answers>, Status> {
        let mut answers = vec![Err(self.status())];
        if matches!(self, Refuses::AfterAMessage) {
            answers.insert(0, Ok(HealthCheckResponse::default()));
        }
        Ok(Response::new(Box::pin(tokio_stream::iter(answers))))
    }
}

/// A server until it is dropped.
struct Running {
    address: SocketAddr,
    server: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn refusing(refuses: Refuses) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().add_service(HealthServer::new(refuses));
    let serving = server.serve_with_incoming(TcpIncoming::from(listener));
    Running { address, server: tokio::spawn(async move { serving.await.unwrap() }) }
}

/// A paced client, and the pacer that it has.
async fn client(
    running: &Running,
    settings: Settings,
) -> (HealthClient<Paced<Channel>>, Pacers, Uri) {
    let uri: Uri = format!("http://{}", running.address).parse().unwrap();
    let channel = Endpoint::from(uri.clone()).connect().await.unwrap();
    let pacers = Pacers::new(settings);
    let paced = PaceLayer::new(pacers.clone()).layer(channel);
    (HealthClient::with_origin(paced, uri.clone()), pacers, uri)
}

fn not_long() -> Settings {
    Settings::new().max_wait(Duration::from_secs(1))
}

/// The error that a call which would have to wait fails with.
fn too_long(status: &Status) -> &TooLong {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if let Some(tollgate_client::Error::Limited(too_long)) =
            error.downcast_ref::<tollgate_client::Error<tonic::transport::Error>>()
        {
            return too_long;
        }
        source = error.source();
    }
    panic!("{status:?}");
}

#[tokio::test]
async fn what_a_server_says_in_its_trailers_is_heard() {
    for refuses in [Refuses::ByMillis, Refuses::ByRetryInfo, Refuses::AfterAMessage] {
        let running = refusing(refuses).await;
        let (mut client, pacers, uri) = client(&running, not_long()).await;
        let mut stream = client.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
        if matches!(refuses, Refuses::AfterAMessage) {
            assert!(stream.message().await.unwrap().is_some());
            let status = pacers.pacer(&uri, &HeaderMap::new()).status();
            assert_eq!((status.in_flight, status.next_in), (0, Duration::ZERO), "it passed so far");
        }
        assert_eq!(stream.message().await.unwrap_err().code(), Code::ResourceExhausted);
        let status = pacers.pacer(&uri, &HeaderMap::new()).status();
        assert_eq!(status.in_flight, 0, "{refuses:?}");
        assert!(status.next_in > WAIT - Duration::from_secs(10), "{refuses:?} {status:?}");
        let next = client.check(HealthCheckRequest::default()).await.unwrap_err();
        assert!(too_long(&next).wait() > WAIT - Duration::from_secs(10), "{refuses:?} {next:?}");
    }
}

#[tokio::test]
async fn a_call_that_passes_or_is_given_up_leaves_nothing_behind() {
    let running = refusing(Refuses::ByMillis).await;
    let (mut client, pacers, uri) = client(&running, not_long()).await;
    client.check(HealthCheckRequest::default()).await.unwrap();
    // Nobody looks at what comes after its head.
    drop(client.watch(HealthCheckRequest::default()).await.unwrap());
    let status = pacers.pacer(&uri, &HeaderMap::new()).status();
    assert_eq!((status.in_flight, status.next_in), (0, Duration::ZERO));
    client.check(HealthCheckRequest::default()).await.unwrap();
}

#[tokio::test]
async fn what_a_call_asks_for_is_found_in_its_extensions() {
    let running = refusing(Refuses::ByMillis).await;
    let (mut client, pacers, uri) = client(&running, not_long()).await;
    let ask = Ask { operation: Some("watch"), ..Ask::default() };
    let mut request = Request::new(HealthCheckRequest::default());
    request.extensions_mut().insert(ask);
    let mut stream = client.watch(request).await.unwrap().into_inner();
    stream.message().await.unwrap_err();
    let next_in = |ask| pacers.pacer_for(&uri, &HeaderMap::new(), ask).status().next_in;
    assert!(next_in(ask) > WAIT - Duration::from_secs(10));
    assert_eq!(next_in(Ask::default()), Duration::ZERO);
    client.check(HealthCheckRequest::default()).await.unwrap();
}

/// Ten in a hundred seconds: the client uses them up and is then told by our layer's headers, not by a refusal.
#[tokio::test]
async fn a_paced_client_of_our_layer_is_not_refused() {
    const POLICY: &[u8] = b"
plans: { free: { rate_limit: { sustained: { rate: 6, window: minute }, burst: { capacity: 10 }, scope: user } } }
tenants: [ { id: acme, plan: free } ]
";
    let limits = Limits::new(Policy::of("policy", POLICY).unwrap());
    let layer = limits.layer(|_| Caller::of("acme").user("ada"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().layer(layer).add_service(HealthServer::new(Refuses::ByMillis));
    let serving = server.serve_with_incoming(TcpIncoming::from(listener));
    let running = Running { address, server: tokio::spawn(async move { serving.await.unwrap() }) };

    let (mut paced, pacers, uri) = client(&running, not_long()).await;
    let mut passed = 0;
    let stopped = loop {
        match paced.check(HealthCheckRequest::default()).await {
            Ok(_) => passed += 1,
            Err(status) => break status,
        }
    };
    assert!((5..=10).contains(&passed), "{passed}");
    assert!(too_long(&stopped).wait() > Duration::from_secs(1));
    assert_eq!(pacers.pacer(&uri, &HeaderMap::new()).status().limits[0].name, "user-minute");

    // Somebody who does not listen uses up the rest; what the refusal says is heard by whoever does.
    let mut plain = HealthClient::new(Endpoint::from(uri).connect().await.unwrap());
    while plain.check(HealthCheckRequest::default()).await.is_ok() {}
    let (mut other, pacers, uri) = client(&running, not_long()).await;
    let refused = other.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.get_details_retry_info().is_some());
    let next_in = pacers.pacer(&uri, &HeaderMap::new()).status().next_in;
    // A token takes ten seconds, and a part of the bucket is left to others.
    let (least, most) = (Duration::from_secs(1), Duration::from_secs(50));
    assert!((least..most).contains(&next_in), "{next_in:?}");
}
