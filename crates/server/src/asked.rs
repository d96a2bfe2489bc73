//! What one request asks for under the policy in force, and how it is decided.
//!
//! The order is the gateway's: route, backpressure, caller, chain. Here everything that a request takes along is owned, so
//! that nothing of the policy is borrowed while the service works.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use tollgate_engine::Clock;
use tollgate_gate::{self as gate, Holder, Lines, Passage};
use tollgate_policy::compile::{ANONYMOUS, Policy, RouteInForce, Work};
use tollgate_policy::routes::normalise;
use tollgate_wire::{Problem, Refused, degraded_by, is_grpc, names};

use crate::caller::{Caller, UnknownTenant};
use crate::limits::{Limits, Present};
use crate::passed::Passed;
use crate::verdict::{Outcome, Verdict};

/// Where too much is pending, as refusals name it.
const SERVICE: &str = "service";

/// Ids that are longer are not repeated to the caller.
const LONGEST_ID: usize = 128;

/// What a request asks for. Its numbers are of one policy.
#[derive(Debug)]
pub(crate) struct Asked {
    caller: gate::Caller<'static>,
    route: Option<usize>,
    operation: Option<usize>,
    cost: Option<u64>,
    is_tenant_known: bool,
    /// Its user and address, which counters that are kept elsewhere are called by.
    user: Option<Box<str>>,
    address: IpAddr,
    answer: Answer,
}

/// A request that is decided already, or not yet.
#[derive(Debug)]
pub(crate) enum Arrived {
    Asks(Asked),
    Decided(Decided),
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Decided {
    Passes(Passed),
    Stays(Response<Bytes>),
}

/// How the layer answers a request itself: in its protocol, with its own id.
#[derive(Debug)]
struct Answer {
    request_id: Option<HeaderValue>,
    is_grpc: bool,
}

impl Arrived {
    /// A request at the door.
    pub(crate) fn at<C: Clock>(
        limits: &Limits<C>,
        present: &Present,
        (parts, caller): (&Parts, &Caller<'_>),
        unknown: UnknownTenant,
    ) -> Arrived {
        let policy = present.in_force.policy();
        let answer = Answer::to(parts);
        let route = match route(policy, parts) {
            Ok(route) => route,
            Err(bad) => {
                let problem = Problem::new(StatusCode::BAD_REQUEST).detail(bad);
                return stays(answer.problem(problem), Verdict::unlimited(Outcome::Malformed));
            }
        };
        let cost = caller.cost.or_else(|| route.and_then(RouteInForce::cost));
        if cost == Some(0) {
            return passes(Passed::unlimited(Verdict::unlimited(Outcome::Admitted)));
        }
        if let Err(wait) = limits.backpressure().check() {
            return stays(answer.overloaded(wait), Verdict::overloaded(wait));
        }
        let named = caller.tenant.as_deref();
        let found = named.and_then(|tenant| policy.tenants().number(tenant));
        let is_tenant_known = named.is_none() || found.is_some();
        if !is_tenant_known {
            let verdict = |outcome| Verdict::unlimited(outcome).with_tenant_known(false);
            match unknown {
                UnknownTenant::Anonymous => {}
                UnknownTenant::Forbidden => {
                    let problem = Problem::new(StatusCode::FORBIDDEN)
                        .detail("The caller's tenant is not known here.");
                    return stays(answer.problem(problem), verdict(Outcome::Forbidden));
                }
                UnknownTenant::Unlimited => {
                    return passes(Passed::unlimited(verdict(Outcome::Admitted)));
                }
            }
        }
        let address = caller.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let (gate, in_force) = (limits.gate(), &present.in_force);
        let known = match (found, caller.user.as_deref()) {
            (Some(tenant), Some(user)) => {
                gate.caller(in_force, tenant, Holder::User(user), address)
            }
            (Some(tenant), None) => gate.anonymous(in_force, tenant, address),
            // Every tree has this tenant, declared or not.
            (None, _) => {
                let anonymous = policy.tenants().number(ANONYMOUS).unwrap_or_default();
                gate.anonymous(in_force, anonymous, address)
            }
        };
        let plan = caller.plan.as_deref().filter(|_| is_tenant_known);
        Arrived::Asks(Asked {
            caller: known.unnamed().with_plan(plan.and_then(|name| policy.plan(name))),
            route: route.map(RouteInForce::number),
            operation: caller.operation.as_deref().and_then(|name| policy.operation(name)),
            cost: caller.cost,
            is_tenant_known,
            user: caller
                .user
                .as_deref()
                .filter(|_| in_force.keeps_elsewhere() && found.is_some())
                .map(Into::into),
            address,
            answer,
        })
    }
}

impl Asked {
    /// Decides it at once. Only for a policy under which nobody waits.
    pub(crate) fn decide<C: Clock>(&self, limits: &Limits<C>, present: &Present) -> Decided {
        let in_force = &*present.in_force;
        let work = self.work(in_force.policy());
        self.decided(&limits.gate().decide(in_force, &self.caller, work))
    }

    /// Decides it, waiting in line where the strategy is `queue`.
    pub(crate) async fn pass<C: Clock>(self, limits: Limits<C>, present: Arc<Present>) -> Decided {
        let in_force = &*present.in_force;
        let work = self.work(in_force.policy());
        let holder = self.user.as_deref().map_or(Holder::Address(self.address), Holder::User);
        let caller = self.caller.named(holder);
        self.decided(&limits.gate().pass(in_force, &caller, work).await)
    }

    fn work<'p>(&self, policy: &'p Policy) -> Work<'p> {
        let route = self.route.map(|number| &policy.routes()[number]);
        route.map(Work::on).unwrap_or_default().stating(self.operation, self.cost)
    }

    fn decided(&self, passage: &Passage<'_>) -> Decided {
        if let Some(what) = passage.unavailable() {
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE).detail(what);
            let verdict = Verdict::unlimited(Outcome::Unavailable);
            let verdict = verdict.with_tenant_known(self.is_tenant_known);
            return Decided::Stays(told(self.answer.problem(problem), verdict));
        }
        let lines = Lines::of(passage);
        let verdict = Verdict::of(passage, &lines).with_tenant_known(self.is_tenant_known);
        let shows = passage.shows_headers();
        if !passage.is_admitted() {
            let report = lines.report();
            let refused = Refused::by_limit(&report, self.answer.id()).limit_headers(shows);
            return Decided::Stays(told(self.answer.refuse(&refused), verdict));
        }
        let mark = passage.degraded().and_then(|(name, _)| degraded_by(name));
        Decided::Passes(Passed::new(verdict, shows.then(|| lines.detached()), mark))
    }
}

impl Answer {
    fn to(parts: &Parts) -> Answer {
        let id = parts.headers.get(&names::X_REQUEST_ID);
        let id = id.filter(|id| id.len() <= LONGEST_ID && id.to_str().is_ok());
        Answer { request_id: id.cloned(), is_grpc: is_grpc(&parts.headers) }
    }

    fn id(&self) -> &str {
        self.request_id.as_ref().and_then(|id| id.to_str().ok()).unwrap_or_default()
    }

    fn refuse(&self, refused: &Refused<'_>) -> Response<Bytes> {
        if self.is_grpc { refused.grpc() } else { refused.http() }
    }

    fn overloaded(&self, wait: Duration) -> Response<Bytes> {
        self.refuse(&Refused::by_backpressure(SERVICE, wait, self.id()))
    }

    fn problem(&self, problem: Problem) -> Response<Bytes> {
        let problem = match self.id() {
            "" => problem,
            id => problem.instance(id),
        };
        if self.is_grpc { problem.grpc() } else { problem.http() }
    }
}

/// The route of a request, where the policy has any; `Err` says what is wrong with its path.
///
/// The service sees the path as it was sent, and may have chosen a handler by it already. So a path that is one route's as
/// it was sent and another's in its plain spelling is bad: `/files/../health` would be free here and a file there.
fn route<'p>(policy: &'p Policy, parts: &Parts) -> Result<Option<&'p RouteInForce>, String> {
    if policy.routes().is_empty() {
        return Ok(None);
    }
    let plain = normalise(parts.uri.path()).map_err(|bad| bad.to_string())?;
    let find = |path| policy.route(host(parts), parts.method.as_str(), path);
    let route = find(&plain);
    if let Cow::Owned(plain) = &plain {
        let as_sent = find(parts.uri.path());
        if as_sent.map(RouteInForce::number) != route.map(RouteInForce::number) {
            return Err(format!(
                "this path has a plainer spelling, `{plain}`, which is to be sent"
            ));
        }
    }
    Ok(route)
}

/// The host a request is for, without its port.
fn host(parts: &Parts) -> &str {
    let named = match parts.uri.authority() {
        Some(authority) => authority.as_str(),
        None => {
            let header = parts.headers.get(http::header::HOST);
            header.and_then(|value| value.to_str().ok()).unwrap_or_default()
        }
    };
    // `[::1]:80` ends its host with the bracket.
    match named.rfind(':') {
        Some(at) if !named[at..].contains(']') => &named[..at],
        _ => named,
    }
}

fn passes(passed: Passed) -> Arrived {
    Arrived::Decided(Decided::Passes(passed))
}

fn stays(response: Response<Bytes>, verdict: Verdict) -> Arrived {
    Arrived::Decided(Decided::Stays(told(response, verdict)))
}

fn told(mut response: Response<Bytes>, verdict: Verdict) -> Response<Bytes> {
    response.extensions_mut().insert(verdict);
    response
}
