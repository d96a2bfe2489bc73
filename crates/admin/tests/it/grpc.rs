//! The configuration over gRPC, by clients that nobody here wrote: tonic's, and Python's with reflection.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tollgate_admin::grpc::v1::admin_client::AdminClient;
use tollgate_admin::grpc::v1::{
    Backpressure, GetConfigRequest, GetConfigResponse, Limit, UpdateConfigRequest,
    UpdateConfigResponse,
};
use tollgate_engine::Refusal;
use tollgate_gate::Holder;
use tollgate_policy::compile::Work;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_types::StatusExt;

use crate::node::FILE;
use crate::{Node, TOKEN};

/// A tonic client with the token, which waits for every answer.
struct Client<'n> {
    node: &'n Node,
    channel: Channel,
    admin: AdminClient<Channel>,
}

impl Client<'_> {
    fn of(node: &Node) -> Client<'_> {
        let endpoint = Endpoint::from_shared(format!("http://{}", node.address)).unwrap();
        let channel = node.runtime.block_on(endpoint.connect()).unwrap();
        Client { node, admin: AdminClient::new(channel.clone()), channel }
    }

    fn get(&self) -> Result<GetConfigResponse, Status> {
        let mut admin = self.admin.clone();
        let answer = admin.get_config(with_token(GetConfigRequest {}));
        self.node.runtime.block_on(answer).map(Response::into_inner)
    }

    fn update(&self, text: &str) -> Result<UpdateConfigResponse, Status> {
        self.ask(UpdateConfigRequest { text: text.to_owned(), expected_version: None })
    }

    fn update_if(&self, version: &str, text: &str) -> Result<UpdateConfigResponse, Status> {
        let expected_version = Some(version.to_owned());
        self.ask(UpdateConfigRequest { text: text.to_owned(), expected_version })
    }

    fn ask(&self, asked: UpdateConfigRequest) -> Result<UpdateConfigResponse, Status> {
        let mut admin = self.admin.clone();
        let answer = admin.update_config(with_token(asked));
        self.node.runtime.block_on(answer).map(Response::into_inner)
    }
}

fn with_token<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {TOKEN}").parse().unwrap());
    request
}

fn limit(rate: u64, capacity: u64) -> Option<Limit> {
    Some(Limit { rate, window: "second".to_owned(), capacity })
}

#[test]
fn a_configuration_is_replaced_by_the_code_path_of_the_rest_api() {
    let node = Node::start();
    let client = Client::of(&node);
    let read = client.get().unwrap();
    assert_eq!((read.text.as_str(), read.file.as_str()), (FILE, "tollgate.yaml"));
    let etag = format!("\"{}\"", read.version);
    assert_eq!(node.get("/v1/config").header("etag"), Some(etag.as_str()));

    let text = FILE.replace("id: acme", "id: ajax");
    let updated = client.update_if(&read.version, &text).unwrap();
    assert!(updated.warnings.is_empty(), "{updated:?}");
    assert_eq!(client.get().unwrap().version, updated.version);
    assert_eq!(std::fs::read_to_string(&node.plane.file).unwrap(), text);
    assert!(node.in_force().policy().tenants().number("ajax").is_some());
    let audit = node.get("/v1/audit").expect(200);
    assert_eq!(audit["items"][0]["action"], "config.replace");
    assert_eq!(audit["items"][0]["actor"], "admin@127.0.0.1");
    assert_eq!(audit["items"][0]["after"]["sha256"], updated.version);

    // Whoever has not seen this change must look first.
    let stale = client.update_if(&read.version, FILE).unwrap_err();
    assert_eq!(stale.code(), Code::Aborted);
    assert_eq!(client.get().unwrap().text, text);
    // Whoever does not say what he has seen replaces whatever is there.
    client.update(FILE).unwrap();
    assert_eq!(client.get().unwrap().text, FILE);
}

#[test]
fn warnings_are_answered_with_their_places() {
    let node = Node::start();
    let text = FILE.replace("mode: allocated, total: 100", "mode: allocated, total: 200");
    let updated = Client::of(&node).update(&text).unwrap();
    let [warning] = &updated.warnings[..] else { panic!("{updated:?}") };
    assert_eq!((warning.file.as_str(), warning.line), ("tollgate.yaml", 9));
    assert!(warning.message.contains("total"), "{warning:?}");
}

#[test]
fn every_fault_is_told_and_nothing_has_changed() {
    let node = Node::start();
    let client = Client::of(&node);
    let bad = "plans: { free: { rate_limit: { sustaned: 1 } } }\ntenants: 7\n";
    let status = client.update(bad).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().starts_with("3 things are wrong."), "{}", status.message());
    let told = status.get_details_bad_request().unwrap().field_violations;
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].field.starts_with("tollgate.yaml:1:"), "{told:?}");
    assert!(told.iter().any(|one| one.description.contains("sustained")), "{told:?}");
    assert_eq!(client.get().unwrap().text, FILE);
    assert_eq!(std::fs::read_to_string(&node.plane.file).unwrap(), FILE);
}

/// Broken before: in the order of the file, a hundred warnings left no room for the error behind them.
#[test]
fn an_error_has_its_place_before_any_number_of_warnings() {
    let node = Node::start();
    let operation = |n: usize| format!("o{n}: {{ sustained: {{ rate: 1 }} }}, ");
    let operations: String = (0..300).map(operation).collect();
    let text = format!(
        "plans: {{ free: {{ operations: {{ {operations} }} }} }}
upstreams: {{ api: {{ url: \"http://127.0.0.1:3000\" }} }}
routes: [ {{ path: \"/*\", upstream: api }} ]
tenants: [ {{ id: acme, plan: nope }} ]
"
    );
    let status = Client::of(&node).update(&text).unwrap_err();
    assert!(status.message().starts_with("there is no plan `nope`"), "{}", status.message());
    let told = status.get_details_bad_request().unwrap().field_violations;
    assert!(told[0].description.starts_with("there is no plan `nope`"), "{told:?}");
    assert!(told[1].description.starts_with("warning: "), "{told:?}");
}

/// Details travel in a header, which clients read so much of and no more.
#[test]
fn a_thousand_faults_still_reach_the_caller() {
    let node = Node::start();
    let status = Client::of(&node).update(&"x: 1\n".repeat(1000)).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    let many: String = (0..1000).map(|n| format!("unknown_{n}: 1\n")).collect();
    let status = Client::of(&node).update(&many).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    let told = status.get_details_bad_request().unwrap().field_violations;
    assert!(told.len() > 15, "{told:?}");
    let last = &told.last().unwrap().description;
    assert!(last.starts_with(&format!("{} more", 1000 - (told.len() - 1))), "{last}");
}

#[test]
fn what_stands_in_the_way_is_named() {
    let node = Node::start();
    let client = Client::of(&node);
    let refused = |text: &str| {
        let status = client.update(text).unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        let [violation] = &status.get_details_precondition_failure().unwrap().violations[..] else {
            panic!("{status}")
        };
        (violation.r#type.clone(), violation.subject.clone())
    };
    let moved = format!("server: {{ listen: 127.0.0.1:1 }}\n{FILE}");
    assert_eq!(refused(&moved), ("NEEDS_RESTART".into(), "server.listen".into()));
    node.post("/v1/keys", &json!({ "tenant": "acme" })).expect(201);
    let stranding = FILE.replace("id: acme", "id: ajax");
    assert_eq!(refused(&stranding), ("KEYS_IN_USE".into(), "1 keys".into()));
    let child =
        json!({ "id": "child", "parent": "part", "rate_limit": { "sustained": { "rate": 100 } } });
    node.post("/v1/tenants", &child).expect(201);
    let small = FILE.replace("total: 100", "total: 10");
    assert_eq!(refused(&small), ("BUDGET_EXCEEDED".into(), "tenant:part".into()));
    assert_eq!(client.get().unwrap().text, FILE);
}

/// Record `004`: all thresholds change at once, and buckets keep what they hold.
#[test]
fn the_three_tiers_change_at_once_and_buckets_keep_their_tokens() {
    let text = |threshold: u64, client: (u64, u64), tenant: (u64, u64)| {
        format!(
            "
upstreams: {{ api: {{ url: \"http://127.0.0.1:3000\", backpressure: {{ threshold: {threshold} }} }} }}
routes: [ {{ path: \"/*\", upstream: api }} ]
defaults:
  client: {{ sustained: {{ rate: {} }}, burst: {{ capacity: {} }}, scope: user }}
  tenant: {{ sustained: {{ rate: {} }}, burst: {{ capacity: {} }} }}
tenants: [ {{ id: acme }} ]
",
            client.0, client.1, tenant.0, tenant.1
        )
    };
    let node = Node::of(&text(100, (50, 100), (500, 1000)));
    let client = Client::of(&node);
    let tiers = client.get().unwrap().tiers.unwrap();
    let backpressure = |threshold| vec![Backpressure { upstream: "api".to_owned(), threshold }];
    assert_eq!(tiers.backpressure, backpressure(100));
    assert_eq!((tiers.client, tiers.tenant), (limit(50, 100), limit(500, 1000)));

    let ask = || {
        let in_force = node.in_force();
        let acme = in_force.policy().tenants().number("acme").unwrap();
        let home = std::net::Ipv4Addr::LOCALHOST.into();
        let caller = node.plane.gate.caller(&in_force, acme, Holder::User("ci"), home);
        let passage = node.plane.gate.decide(&in_force, &caller, Work::default());
        passage.refusal().map(Refusal::retry_after)
    };
    for _ in 0..100 {
        assert_eq!(ask(), None);
    }
    assert!(ask().is_some(), "the client's bucket is empty");

    let updated = client.update(&text(7, (10, 200), (400, 900))).unwrap();
    let tiers = updated.tiers.unwrap();
    assert_eq!(tiers.backpressure, backpressure(7));
    assert_eq!((tiers.client, tiers.tenant), (limit(10, 200), limit(400, 900)));
    // Nothing was given: the next token comes at the new rate.
    assert_eq!(ask(), Some(Some(Duration::from_millis(100))));
    node.plane.clock.advance(Duration::from_millis(100));
    assert_eq!(ask(), None);
    assert!(ask().is_some());
    let live = node.get("/v1/limits?tenant=acme&user=ci").expect(200);
    let capacities: Vec<_> =
        live["items"].as_array().unwrap().iter().map(|one| &one["capacity"]).collect();
    assert_eq!(capacities, [200, 900]);

    // Switched off is told, and `null` is not the built-in one.
    let off = "defaults: { client: null }\ntenants: [ { id: acme } ]\n";
    let tiers = client.update(off).unwrap().tiers.unwrap();
    assert_eq!((tiers.client, tiers.tenant), (None, limit(500, 1000)));
}

#[test]
fn without_the_token_no_call_is_answered() {
    let node = Node::start();
    let mut admin = Client::of(&node).admin;
    for token in [None, Some("Bearer wrong-but-long-enough"), Some(TOKEN)] {
        let mut request =
            Request::new(UpdateConfigRequest { text: "{}".to_owned(), expected_version: None });
        if let Some(token) = token {
            request.metadata_mut().insert("authorization", token.parse().unwrap());
        }
        let status = node.runtime.block_on(admin.update_config(request)).unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated, "{token:?}");
        assert!(status.message().contains("admin token"), "{status}");
    }
    assert_eq!(node.get("/v1/config").text, FILE);
}

#[test]
fn a_message_too_large_and_an_unknown_method_are_statuses() {
    let node = Node::start();
    let client = Client::of(&node);
    let large = "#".repeat(5 * 1024 * 1024);
    assert_eq!(client.update(&large).unwrap_err().code(), Code::OutOfRange);
    let ask = crate::Ask::new("POST", "/tollgate.admin.v1.Admin/DropConfig")
        .header("content-type", "application/grpc");
    let answer = node.send(&ask);
    assert_eq!((answer.status, answer.header("grpc-status")), (200, Some("12")));
    let ask = crate::Ask::new("POST", "/v1/keys").header("content-type", "application/grpc+proto");
    assert_eq!(node.send(&ask).header("grpc-status"), Some("12"));
    // What is no call is the REST API's.
    node.send(&crate::Ask::new("POST", "/tollgate.admin.v1.Admin/GetConfig")).expect(404);
}

#[test]
fn reflection_tells_the_service_in_its_newer_form_too() {
    let node = Node::start();
    let channel = Client::of(&node).channel;
    let asked = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answer = node.runtime.block_on(async {
        let mut reflection = ServerReflectionClient::new(channel);
        let asked = tokio_stream::once(asked);
        let answers = reflection.server_reflection_info(with_token(asked)).await.unwrap();
        answers.into_inner().message().await.unwrap().unwrap()
    });
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}")
    };
    let names: Vec<&str> = list.service.iter().map(|one| one.name.as_str()).collect();
    assert!(names.contains(&"tollgate.admin.v1.Admin"), "{names:?}");
}

/// A stream of reflection has no end of its own: it must not keep a program from stopping.
#[test]
fn an_open_stream_does_not_hold_up_a_stop() {
    let mut node = Node::start();
    let channel = Client::of(&node).channel;
    let _open = node.runtime.block_on(async {
        let mut reflection = ServerReflectionClient::new(channel);
        let asked = with_token(tokio_stream::pending::<ServerReflectionRequest>());
        reflection.server_reflection_info(asked).await.unwrap().into_inner()
    });
    let served = node.tell_to_stop();
    let bounded = async { tokio::time::timeout(Duration::from_secs(60), served).await };
    node.runtime.block_on(bounded).unwrap().unwrap();
}

/// It knows the address and the token, and learns everything else by reflection.
#[test]
fn grpcio_finds_the_service_by_reflection_and_changes_the_configuration() {
    let node = Node::start();
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/configure.py");
    let output =
        Command::new(python).arg(script).args([&node.address.to_string(), TOKEN]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let expected = "\
grpc.reflection.v1alpha.ServerReflection tollgate.admin.v1.Admin
read tollgate.yaml
updated [] 50/second 500/second
ABORTED It has changed since that version: read it again.
INVALID_ARGUMENT 2 faults at tollgate.yaml:1:10
FAILED_PRECONDITION NEEDS_RESTART server.listen
UNAUTHENTICATED
UNAUTHENTICATED
";
    assert_eq!(told, expected, "{}", String::from_utf8_lossy(&output.stderr));
    assert!(node.in_force().policy().tenants().number("ajax").is_some());
}
