//! The services that are compared: one axum handler, with and without something around it.

use std::num::NonZeroU32;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use http::Request;
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
    /// Our layer: one limit a user, all headers.
    Ours,
    /// The same with a limit that is slow to fill up again: of it every response tells other figures.
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
    pub const ALL: [Side; 8] = [
        Side::Bare,
        Side::Nothing,
        Side::Ours,
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
            Side::Ours => "ours",
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
            Side::Ours => hello.layer(ours("scope: user", "", "").layer(caller).same_body()),
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
