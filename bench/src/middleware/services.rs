//! The services that are compared: one axum handler, with and without something around it.

use std::num::NonZeroU32;
use std::sync::LazyLock;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use tollgate_server::{Caller, Head, Limits, Policy};
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::KeyExtractor;
use tower_governor::{GovernorError, GovernorLayer};
use tower_layer::Layer;
use tower_service::Service;

/// One service of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Nothing around it.
    Bare,
    /// A layer that only hands on: what axum takes for any.
    Nothing,
    /// A layer that puts ten headers in place of the response's own, copied from a map that it has: what eight limit headers beside type and
    /// length cost whoever decides nothing.
    Headers,
    /// Our layer: one limit a user, all headers.
    Ours,
    /// The same where no layer further out is told the verdict.
    OursUntold,
    /// The first with a limit that is slow to fill up again: of it every response tells other figures.
    OursCounting,
    /// The first with `response_headers: false`.
    OursSilent,
    /// Our layer with a chain of three: user, tenant, the month's quota.
    OursChain,
    /// tower_governor with its headers: one limit a user.
    Governor,
    /// tower_governor as it comes, without headers.
    GovernorSilent,
}

/// The name of the header that says who is calling.
pub const USER: &str = "x-api-key";

impl Side {
    pub const ALL: [Side; 10] = [
        Side::Bare,
        Side::Nothing,
        Side::Headers,
        Side::Ours,
        Side::OursUntold,
        Side::OursCounting,
        Side::OursSilent,
        Side::OursChain,
        Side::Governor,
        Side::GovernorSilent,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Side::Bare => "bare",
            Side::Nothing => "empty-layer",
            Side::Headers => "headers-only",
            Side::Ours => "ours",
            Side::OursUntold => "ours-untold",
            Side::OursCounting => "ours-counting",
            Side::OursSilent => "ours-silent",
            Side::OursChain => "ours-chain",
            Side::Governor => "tower_governor-headers",
            Side::GovernorSilent => "tower_governor-silent",
        }
    }

    pub fn named(name: &str) -> Option<Side> {
        Side::ALL.into_iter().find(|side| side.name() == name)
    }

    /// The service. Its limits admit everything that a bench can send.
    pub fn router(self) -> Router {
        let hello = Router::new().route("/bench", get(|| async { "hello" }));
        let quota = Duration::from_nanos(1);
        let burst = NonZeroU32::MAX.get();
        match self {
            Side::Bare => hello,
            Side::Nothing => hello.layer(Empty),
            Side::Headers => hello.layer(tower::util::MapResponseLayer::new(copied)),
            Side::Ours => hello.layer(ours("scope: user", "", "").layer(caller).same_body()),
            Side::OursUntold => {
                let layer = ours("scope: user", "", "").layer(caller);
                hello.layer(layer.without_verdicts().same_body())
            }
            Side::OursCounting => {
                hello.layer(ours_in("day", "scope: user", "", "").layer(caller).same_body())
            }
            Side::OursSilent => hello.layer(
                ours("scope: user, response_headers: false", "", "").layer(caller).same_body(),
            ),
            Side::OursChain => {
                let quota =
                    ", quota: { limit: 1000000000000, window: month, time_zone: Europe/Vienna }";
                let tenant = ", rate_limit: { sustained: { rate: 1000000000 } }";
                hello.layer(ours("scope: user", quota, tenant).layer(caller).same_body())
            }
            Side::Governor => {
                let mut config = GovernorConfigBuilder::default().key_extractor(ByUser);
                let config = config.period(quota).burst_size(burst).use_headers().finish();
                hello.layer(GovernorLayer::new(config.expect("good figures")))
            }
            Side::GovernorSilent => {
                let mut config = GovernorConfigBuilder::default().key_extractor(ByUser);
                let config = config.period(quota).burst_size(burst).finish();
                hello.layer(GovernorLayer::new(config.expect("good figures")))
            }
        }
    }
}

/// A layer and a service that do nothing.
#[derive(Clone, Copy)]
struct Empty;

#[derive(Clone)]
struct HandsOn<S>(S);

impl<S> Layer<S> for Empty {
    type Service = HandsOn<S>;

    fn layer(&self, inner: S) -> HandsOn<S> {
        HandsOn(inner)
    }
}

impl<S: Service<R>, R> Service<R> for HandsOn<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.0.call(request)
    }
}

/// The same response with the headers of a map that all share.
fn copied(mut response: Response) -> Response {
    static MAP: LazyLock<HeaderMap> = LazyLock::new(|| {
        let names =
            ["limit", "limit-second", "remaining", "remaining-second", "reset", "reset-second"];
        let names = names.iter().map(|name| format!("x-ratelimit-{name}"));
        let names = names.chain(["ratelimit-policy".into(), "ratelimit".into()]);
        let names = names.chain(["content-type".into(), "content-length".into()]);
        let value = |_: &String| HeaderValue::from_static("5");
        let names = names.map(|name| (value(&name), name.parse().expect("a name")));
        names.map(|(value, name): (HeaderValue, HeaderName)| (name, value)).collect()
    });
    *response.headers_mut() = MAP.clone();
    response
}

/// Limits of a tenant whose plan and whose own limit have these further settings.
fn ours(user: &str, quota: &str, tenant: &str) -> Limits {
    ours_in("second", user, quota, tenant)
}

fn ours_in(window: &str, user: &str, quota: &str, tenant: &str) -> Limits {
    let policy = format!(
        "
plans: {{ free: {{ rate_limit: {{ sustained: {{ rate: 1000000000, window: {window} }}, {user} }}{quota} }} }}
tenants: [ {{ id: acme, plan: free{tenant} }} ]
"
    );
    match Policy::of("bench", policy.as_bytes()) {
        Ok(policy) => Limits::new(policy),
        Err(faults) => panic!("{}", faults.diagnostics),
    }
}

fn caller(request: Head<'_>) -> Caller<'_> {
    let user = request.headers.get(USER).and_then(|user| user.to_str().ok());
    Caller::of("acme").user(user.unwrap_or("nobody"))
}

/// The same for tower_governor, as its own examples tell users apart.
#[derive(Clone, Debug)]
struct ByUser;

impl KeyExtractor for ByUser {
    type Key = String;

    fn extract<T>(&self, request: &Request<T>) -> Result<String, GovernorError> {
        let user = request.headers().get(USER).and_then(|user| user.to_str().ok());
        Ok(user.unwrap_or("nobody").to_owned())
    }
}
