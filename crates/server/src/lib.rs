//! Limits for a service of your own: a tower layer for axum, hyper and tonic.
//!
//! [`Limits`] hold a policy, from a file or from text, and its counters. A [layer](Limits::layer) of them is told by a closure
//! who is calling, decides, and answers as the gateway does: limit headers on every limited response; 429 with a problem
//! body, or gRPC's `RESOURCE_EXHAUSTED`, to whoever may not pass.
//!
//! ```
//! use axum::{Router, body::Body, http::Request, routing::get};
//! use tollgate_server::{Caller, Limits, Policy};
//! # use tower_service::Service;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let policy = Policy::of("limits.yaml", b"
//! plans: { free: { rate_limit: { sustained: { rate: 1, window: minute }, scope: user } } }
//! tenants: [ { id: acme, plan: free } ]
//! ").unwrap();
//! let limits = Limits::new(policy);
//!
//! let layer = limits.layer(|request| {
//!     let user = request.headers.get("x-user").and_then(|user| user.to_str().ok());
//!     Caller::of("acme").user(user.unwrap_or("nobody"))
//! });
//! let mut app = Router::new().route("/", get(|| async { "hello" })).layer(layer.same_body());
//!
//! let request = || Request::get("/").header("x-user", "ada").body(Body::empty()).unwrap();
//! let first = app.call(request()).await.unwrap();
//! assert_eq!(first.headers()["ratelimit-policy"], r#""user-minute";q=1;w=60"#);
//! let second = app.call(request()).await.unwrap();
//! assert_eq!(second.status(), 429);
//! assert!(second.headers().contains_key("retry-after"));
//! # }
//! ```
//!
//! - **Who is calling**: a [`Caller`] names its tenant and plan as the policy does, its user, operation and cost. A tenant that
//!   the policy does not have is treated as `anonymous`, unless the layer is [told otherwise](LimitLayer::unknown_tenant).
//! - **What for**: where the policy has routes, a request is for the route that its host, method and path match, and a path
//!   that only its plain spelling makes a route's is answered 400. A request that no route matches meets all limits but a route's: whether it is 404
//!   is the service's to say. Operation and cost that the program states go before the route's.
//! - **What layers further out see**: a [`Verdict`] among the extensions of every response; of refusals alone where the layer goes
//!   [without](LimitLayer::without_verdicts). Handlers see it among the request's, where the layer is [told to](LimitLayer::telling_service). Where
//!   a limit with strategy `degrade` was skipped, request and response have `X-RateLimit-Degraded`. A request that comes with such a mark loses
//!   it, unless another of these layers has set it, or [the layer trusts](LimitLayer::trusting_marks) the gateway before it.
//! - **What callers see**: the limit headers that the gateway would write. What the service itself says of limits is removed, also where the
//!   policy shows none; its other headers, and its `X-Request-Id`, are left alone.
//! - **Where it is counted**: in this process, or wherever the [`Gate`] that is [handed in](Limits::over) keeps its counters, say in Redis.
//! - **While it runs**: [`Limits::reload`] puts another policy into force, [`Limits::set_pending`] tells how much is pending.
//! - **Request ids**: a refusal repeats the request's `X-Request-Id`. Where there is none, none is made up: that is for the service, which also
//!   writes the log it would be looked up in.

mod answer;
mod asked;
mod body;
mod caller;
mod future;
mod head;
mod layer;
mod limits;
mod passed;
mod source;
mod verdict;

pub use body::{Bodies, EitherBody, LimitedBody, SameBody};
pub use caller::{ByClosure, Caller, Identify, UnknownTenant};
pub use future::LimitedFuture;
pub use head::Head;
pub use layer::{LimitLayer, Limited};
pub use limits::{Limits, LoadError};
pub use tollgate_gate::Gate;
pub use tollgate_policy::compile::{Policy, PolicyFaults};
pub use verdict::{Outcome, Verdict};
