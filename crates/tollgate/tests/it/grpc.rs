//! gRPC end to end: a tonic client, the gateway as a process, a tonic service behind it.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt};
use tollgate_admin::grpc::v1::admin_client::AdminClient;
use tollgate_admin::grpc::v1::{GetConfigRequest, UpdateConfigRequest};
use tonic::metadata::{AsciiMetadataValue, MetadataMap};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};
use tonic_types::StatusExt;

use crate::keys::{KEY, digest};
use crate::support::{PATIENCE, Tollgate, eventually, stay_clear_of_midnight};

/// A health service: `slow` is answered when told to, and nobody has heard of `unknown`.
struct Patient {
    slow: Arc<AtomicUsize>,
    told: watch::Receiver<bool>,
}

/// The service on a port of its own, together with reflection, which streams both ways.
struct Upstream {
    address: SocketAddr,
    /// How many wait for a slow answer.
    slow: Arc<AtomicUsize>,
    tell: watch::Sender<bool>,
}

impl Upstream {
    async fn start() -> Upstream {
        let slow = Arc::new(AtomicUsize::new(0));
        let (tell, told) = watch::channel(false);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let health = HealthServer::new(Patient { slow: Arc::clone(&slow), told });
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .unwrap();
        let server = Server::builder().add_service(health).add_service(reflection);
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        Upstream { address, slow, tell }
    }

    /// A gateway before it.
    fn behind(&self, limit: &str) -> Tollgate {
        Tollgate::with(&format!(
            "
upstreams: {{ api: {{ url: \"http://{}\", backpressure: {{ threshold: 1 }} }} }}
routes:
  - {{ path: \"/*\", upstream: api }}
  - {{ path: /grpc.health.v1.Health/Watch, upstream: api, rate_limit: {{ cost: 2 }} }}
plans: {{ p: {{ rate_limit: {limit} }} }}
tenants: [ {{ id: acme, plan: p }} ]
keys: [ {{ tenant: acme, user: ci, sha256: {} }} ]
",
            self.address,
            digest()
        ))
    }
}

#[tonic::async_trait]
impl Health for Patient {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        // It knows who calls, and not by which key.
        assert_eq!(request.metadata().get("x-tollgate-tenant").unwrap(), "acme");
        assert!(!request.metadata().contains_key("x-api-key"));
        match request.into_inner().service.as_str() {
            "slow" => {
                self.slow.fetch_add(1, Relaxed);
                self.told.clone().wait_for(|told| *told).await.unwrap();
            }
            "unknown" => return Err(Status::not_found("nobody has heard of it")),
            _ => {}
        }
        Ok(Response::new(serving()))
    }

    type WatchStream =
        Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send + 'static>>;

    /// Three answers, and an end that says why.
    async fn watch(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let answers = tokio_stream::iter((0..3).map(|_| Ok(serving())));
        let end = tokio_stream::once(Err(Status::data_loss("it broke off")));
        Ok(Response::new(Box::pin(answers.chain(end))))
    }
}

fn serving() -> HealthCheckResponse {
    HealthCheckResponse { status: ServingStatus::Serving.into() }
}

async fn channel(gateway: &Tollgate) -> Channel {
    let endpoint = Endpoint::from_shared(gateway.url("")).unwrap();
    endpoint.connect().await.unwrap()
}

fn with_key<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("x-api-key", KEY.parse().unwrap());
    request
}

fn asking(service: &str) -> Request<HealthCheckRequest> {
    with_key(HealthCheckRequest { service: service.to_owned() })
}

#[track_caller]
fn is_told(metadata: &MetadataMap, remaining: &str) {
    assert_eq!(metadata.get("x-ratelimit-limit").unwrap(), "7");
    assert_eq!(metadata.get("x-ratelimit-remaining").unwrap(), remaining);
    assert_eq!(metadata.get("ratelimit-policy").unwrap(), "\"user-day\";q=7;w=86400");
    assert!(metadata.contains_key("x-request-id"));
}

/// Says when to come back, three times the same; answers the milliseconds.
#[track_caller]
fn is_refused(status: &Status) -> u64 {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let told = |name: &str| -> u64 {
        status.metadata().get(name).unwrap().to_str().unwrap().parse().unwrap()
    };
    let millis = told("retry-after-ms");
    assert_eq!(told("grpc-retry-pushback-ms"), millis);
    let retry = status.get_details_retry_info().unwrap();
    assert_eq!(retry.retry_delay, Some(Duration::from_millis(millis)));
    millis
}

const SEVEN_A_DAY: &str = "{ sustained: { rate: 7, window: day }, scope: user }";

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_every_kind_pass_and_are_told_their_limits_until_they_are_refused() {
    stay_clear_of_midnight();
    let upstream = Upstream::start().await;
    let gateway = upstream.behind(SEVEN_A_DAY);
    let channel = channel(&gateway).await;
    let mut health = HealthClient::new(channel.clone());

    let unary = health.check(asking("")).await.unwrap();
    is_told(unary.metadata(), "6");
    assert_eq!(unary.into_inner(), serving());

    // What the service says itself gets through, and is told the limits too.
    let status = health.check(asking("unknown")).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::NotFound, "nobody has heard of it"));
    is_told(status.metadata(), "5");

    let streamed = health.watch(asking("")).await.unwrap();
    is_told(streamed.metadata(), "3");
    let mut stream = streamed.into_inner();
    for _ in 0..3 {
        assert_eq!(stream.message().await.unwrap(), Some(serving()));
    }
    let end = stream.message().await.unwrap_err();
    assert_eq!((end.code(), end.message()), (Code::DataLoss, "it broke off"));

    // Both ways at once: the second question is asked when the first is answered.
    let (ask, asked) = mpsc::channel(1);
    let mut reflection = ServerReflectionClient::new(channel);
    let question = || ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    ask.send(question()).await.unwrap();
    let both = with_key(ReceiverStream::new(asked));
    let both = reflection.server_reflection_info(both).await.unwrap();
    is_told(both.metadata(), "2");
    let mut answers = both.into_inner();
    for _ in 0..3 {
        let answer: ServerReflectionResponse = answers.message().await.unwrap().unwrap();
        assert!(matches!(answer.message_response, Some(MessageResponse::ListServicesResponse(_))));
        ask.send(question()).await.unwrap();
    }
    drop(ask);
    assert!(answers.message().await.unwrap().is_some());
    assert!(answers.message().await.unwrap().is_none());

    // A stream costs two here; two are left, and then none.
    assert!(health.watch(asking("")).await.is_ok());
    let refused = health.watch(asking("")).await.unwrap_err();
    let millis = is_refused(&refused);
    assert!((1..=2 * 86_400_000 / 7 + 1).contains(&millis), "{millis}");
    assert!(refused.message().contains("user-day of plan:p"), "{refused}");
    is_told(refused.metadata(), "0");
    is_refused(&health.check(asking("")).await.unwrap_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_pass_and_who_is_not_known_are_statuses_too() {
    let upstream = Upstream::start().await;
    let gateway = upstream.behind("{ sustained: { rate: 1 }, scope: user }");
    let mut health = HealthClient::new(channel(&gateway).await);
    let never = health.watch(asking("")).await.unwrap_err();
    assert_eq!(never.code(), Code::ResourceExhausted);
    assert_eq!(never.metadata().get("grpc-retry-pushback-ms").unwrap(), "-1");
    assert!(!never.metadata().contains_key("retry-after-ms"));
    let nobody = health.check(Request::new(HealthCheckRequest::default())).await.unwrap_err();
    assert_eq!(nobody.code(), Code::Unauthenticated);
}

#[tokio::test(flavor = "multi_thread")]
async fn backpressure_refuses_calls_until_the_service_has_answered() {
    let upstream = Upstream::start().await;
    let gateway = upstream.behind("{ sustained: { rate: 1000 }, scope: user }");
    let health = HealthClient::new(channel(&gateway).await);
    let pending: Vec<_> = (0..2)
        .map(|_| {
            let mut health = health.clone();
            tokio::spawn(async move { health.check(asking("slow")).await })
        })
        .collect();
    eventually("both are pending", || upstream.slow.load(Relaxed) == 2);
    let mut another = health.clone();
    // Whoever it is: nobody is asked for a key.
    let refused = another.check(Request::new(HealthCheckRequest::default())).await.unwrap_err();
    assert_eq!(is_refused(&refused), 10);
    upstream.tell.send(true).unwrap();
    for one in pending {
        tokio::time::timeout(PATIENCE, one).await.unwrap().unwrap().unwrap();
    }
    another.check(asking("")).await.unwrap();
}

/// Limits are changed while requests run, by the same gateway's admin port; what was spent stays spent.
#[tokio::test(flavor = "multi_thread")]
async fn limits_are_changed_over_grpc_while_it_runs() {
    stay_clear_of_midnight();
    let upstream = Upstream::start().await;
    let gateway = upstream.behind(SEVEN_A_DAY);
    let mut health = HealthClient::new(channel(&gateway).await);
    is_told(health.check(asking("")).await.unwrap().metadata(), "6");

    let endpoint = Endpoint::from_shared(gateway.admin_url("")).unwrap();
    let mut admin = AdminClient::new(endpoint.connect().await.unwrap());
    let bearer: AsciiMetadataValue = format!("Bearer {}", gateway.token()).parse().unwrap();
    let mut get = Request::new(GetConfigRequest {});
    get.metadata_mut().insert("authorization", bearer.clone());
    let read = admin.get_config(get).await.unwrap().into_inner();
    assert_eq!(read.text, std::fs::read_to_string(gateway.file()).unwrap());
    let mut update = async |text: String| {
        let mut update = Request::new(UpdateConfigRequest {
            text,
            expected_version: Some(read.version.clone()),
        });
        update.metadata_mut().insert("authorization", bearer.clone());
        admin.update_config(update).await.map(Response::into_inner)
    };
    let moved = update(read.text.replace("listen: 127.0.0.1:0,", "listen: 127.0.0.1:1,")).await;
    let moved = moved.unwrap_err();
    assert_eq!(moved.code(), Code::FailedPrecondition, "{moved}");
    let bad = update(read.text.replace("rate: 7", "rate: seven")).await.unwrap_err();
    assert_eq!(bad.code(), Code::InvalidArgument, "{bad}");
    let nowhere = read.text.replacen("server: {", "server: { access_log: /no/such/dir/x,", 1);
    let nowhere = update(nowhere).await.unwrap_err();
    assert_eq!(nowhere.code(), Code::InvalidArgument, "{nowhere}");
    assert!(nowhere.message().contains("server.access_log"), "{nowhere}");
    let fewer = read.text.replace("rate: 7", "rate: 3").replace("threshold: 1", "threshold: 9");
    let updated = update(fewer.clone()).await.unwrap();
    assert_eq!(updated.tiers.unwrap().backpressure[0].threshold, 9);
    assert_eq!(std::fs::read_to_string(gateway.file()).unwrap(), fewer);

    // Clamped to the lower capacity, and one of it is spent now.
    let passed = health.check(asking("")).await.unwrap();
    assert_eq!(passed.metadata().get("x-ratelimit-limit").unwrap(), "3");
    assert_eq!(passed.metadata().get("x-ratelimit-remaining").unwrap(), "2");
    assert_eq!(update(read.text.clone()).await.unwrap_err().code(), Code::Aborted);
}
