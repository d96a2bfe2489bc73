//! What one request asks for under the policy in force, and how it is decided.
//!
//! The order is the gateway's: route, backpressure, caller, chain. Here everything that a request takes along is owned, so
//! that nothing of the policy is borrowed while the service works.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use tollgate_engine::Clock;
use tollgate_gate::{self as gate, Holder, Lines, Passage};
use tollgate_policy::compile::{ANONYMOUS, Policy, RouteInForce, Stated, Work};
use tollgate_policy::routes::normalise;
use tollgate_wire::{LimitHeaders, Problem, Refused, Report};

use crate::answer::Answer;
use crate::caller::{Caller, UnknownTenant};
use crate::head::Head;
use crate::limits::{Limits, Present};
use crate::passed::{Passed, Tells};
use crate::verdict::{Outcome, Verdict};

/// What a request asks for.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    caller: gate::Caller<'a>,
    route: Option<&'a RouteInForce>,
    operation: Option<Stated>,
    cost: Option<u64>,
    is_tenant_known: bool,
    tells: Tells,
}

/// The same for one that may have to wait, longer than the request is there to borrow from. Its numbers are of one policy.
#[derive(Debug)]
pub(crate) struct Held {
    caller: gate::Caller<'static>,
    /// Its user, which counters that are kept elsewhere are called by; else the address.
    user: Option<Box<str>>,
    address: IpAddr,
    route: Option<usize>,
    operation: Option<Stated>,
    cost: Option<u64>,
    is_tenant_known: bool,
    tells: Tells,
    answer: Answer,
}

/// A request that is decided already, or not yet.
#[derive(Debug)]
pub(crate) enum Arrived<'a> {
    Asks(Asked<'a>),
    Decided(Decided),
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Decided {
    Passes(Passed),
    Stays(Response<Bytes>),
}

impl<'a> Arrived<'a> {
    /// A request at the door.
    pub(crate) fn at<C: Clock>(
        limits: &Limits<C>,
        present: &'a Present,
        (head, caller): (Head<'_>, &'a Caller<'_>),
        (unknown, tells): (UnknownTenant, Tells),
    ) -> Arrived<'a> {
        let policy = present.in_force.policy();
        let route = match route(policy, head) {
            Ok(route) => route,
            Err(bad) => {
                let problem = Problem::new(StatusCode::BAD_REQUEST).detail(bad);
                let verdict = Verdict::unlimited(Outcome::Malformed);
                return stays(Answer::to(head).problem(problem), verdict);
            }
        };
        let cost = caller.cost.or_else(|| route.and_then(RouteInForce::cost));
        if cost == Some(0) {
            return passes(Passed::unlimited(Verdict::unlimited(Outcome::Admitted), tells));
        }
        if let Err(wait) = limits.backpressure().check() {
            return stays(Answer::to(head).overloaded(wait), Verdict::overloaded(wait));
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
                    return stays(Answer::to(head).problem(problem), verdict(Outcome::Forbidden));
                }
                UnknownTenant::Unlimited => {
                    return passes(Passed::unlimited(verdict(Outcome::Admitted), tells));
                }
            }
        }
        let address = caller.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let (gate, in_force) = (limits.gate(), &present.in_force);
        let (tenant, holder) = match (found, caller.user.as_deref()) {
            (Some(tenant), Some(user)) => (tenant, Holder::User(user)),
            (Some(tenant), None) => (tenant, Holder::Address(address)),
            // Every tree has this tenant, declared or not.
            (None, _) => {
                let anonymous = policy.tenants().number(ANONYMOUS).unwrap_or_default();
                (anonymous, Holder::Address(address))
            }
        };
        let known = gate.caller(in_force, tenant, holder, address);
        let plan = caller.plan.as_deref().filter(|_| is_tenant_known);
        Arrived::Asks(Asked {
            caller: known.with_plan(plan.and_then(|name| policy.plan(name))),
            route,
            operation: caller.operation.as_deref().map(|name| Stated::named(policy, name)),
            cost: caller.cost,
            is_tenant_known,
            tells,
        })
    }
}

impl<'a> Asked<'a> {
    /// Decides it at once. Only for a policy under which nobody waits.
    pub(crate) fn decide<C: Clock>(
        &self,
        limits: &Limits<C>,
        present: &'a Present,
        head: Head<'_>,
    ) -> Decided {
        let work = work(self.route, self.operation, self.cost);
        let told = Told { present, is_tenant_known: self.is_tenant_known, tells: self.tells };
        if let Some(lone) = limits.gate().admit_lone(&present.in_force, &self.caller, work) {
            let report = lone.report();
            let verdict = || Verdict::admitted(&report, self.is_tenant_known);
            return told.admitted(verdict, &report, lone.limit().shows_headers());
        }
        limits.gate().decide_then(&present.in_force, (&self.caller, work), |passage| {
            told.of(passage, || Answer::to(head))
        })
    }

    /// Keeps it beyond the request.
    pub(crate) fn hold(self, head: Head<'_>) -> Held {
        let user = match self.caller.holder() {
            Some(Holder::User(user)) => Some(user.into()),
            _ => None,
        };
        Held {
            user,
            address: self.caller.address(),
            caller: self.caller.unnamed(),
            route: self.route.map(RouteInForce::number),
            operation: self.operation,
            cost: self.cost,
            is_tenant_known: self.is_tenant_known,
            tells: self.tells,
            answer: Answer::to(head),
        }
    }
}

impl Held {
    /// Decides it, waiting in line where the strategy is `queue`, and for counters that are kept elsewhere.
    pub(crate) async fn pass<C: Clock>(self, limits: Limits<C>, present: Arc<Present>) -> Decided {
        let in_force = &*present.in_force;
        let route = self.route.map(|number| &in_force.policy().routes()[number]);
        let work = work(route, self.operation, self.cost);
        let holder = self.user.as_deref().map_or(Holder::Address(self.address), Holder::User);
        let passage = limits.gate().pass(in_force, &self.caller.named(holder), work).await;
        let Held { is_tenant_known, tells, .. } = self;
        let told = Told { present: &present, is_tenant_known, tells };
        told.of(&passage, || self.answer)
    }
}

/// What a program states goes before the route's.
fn work(route: Option<&RouteInForce>, operation: Option<Stated>, cost: Option<u64>) -> Work<'_> {
    route.map(Work::on).unwrap_or_default().stating(operation, cost)
}

/// Turns what became of a request at the gate into what is told of it.
struct Told<'p> {
    present: &'p Present,
    is_tenant_known: bool,
    tells: Tells,
}

impl Told<'_> {
    fn of(&self, passage: &Passage<'_>, answer: impl FnOnce() -> Answer) -> Decided {
        if let Some(what) = passage.unavailable() {
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE).detail(what);
            let verdict = Verdict::unlimited(Outcome::Unavailable);
            let verdict = verdict.with_tenant_known(self.is_tenant_known);
            return Decided::Stays(told(answer().problem(problem), verdict));
        }
        Lines::then(passage, |lines| self.by_limits(passage, &lines.report(), answer))
    }

    /// Of a request that limits have decided.
    fn by_limits(
        &self,
        passage: &Passage<'_>,
        report: &Report<'_>,
        answer: impl FnOnce() -> Answer,
    ) -> Decided {
        let verdict = || Verdict::of(passage, report, self.is_tenant_known);
        let shows = passage.shows_headers();
        if !passage.is_admitted() {
            let answer = answer();
            let refused = Refused::by_limit(report, answer.id()).limit_headers(shows);
            return Decided::Stays(told(answer.refuse(&refused), verdict()));
        }
        self.admitted(verdict, report, shows)
    }

    /// Of a request that limits let pass.
    #[inline]
    fn admitted(
        &self,
        verdict: impl FnOnce() -> Verdict,
        report: &Report<'_>,
        shows_headers: bool,
    ) -> Decided {
        let headers = if shows_headers { report.limit_headers() } else { LimitHeaders::default() };
        let is_needed = self.present.degrades || self.tells.anybody();
        Decided::Passes(Passed::new(is_needed.then(verdict), headers, self.tells))
    }
}

/// The route of a request, where the policy has any; `Err` says what is wrong with its path.
///
/// The service sees the path as it was sent, and may have chosen a handler by it already. So a path that is one route's as
/// it was sent and another's in its plain spelling is bad: `/files/../health` would be free here and a file there.
fn route<'p>(policy: &'p Policy, head: Head<'_>) -> Result<Option<&'p RouteInForce>, String> {
    if policy.routes().is_empty() {
        return Ok(None);
    }
    let as_sent = head.uri.path();
    let plain = normalise(as_sent).map_err(|bad| bad.to_string())?;
    let (host, method) = (head.host(), head.method.as_str());
    let route = policy.route(host, method, &plain);
    // The service's router takes it as it was sent.
    let number = |route: Option<&RouteInForce>| route.map(RouteInForce::number);
    if let Cow::Owned(plain) = &plain
        && number(policy.route_as_spelled(host, method, as_sent)) != number(route)
    {
        return Err(match plain == as_sent {
            true => {
                "this path is percent-encoded for no need, and is to be sent without".to_owned()
            }
            false => format!("this path has a plainer spelling, `{plain}`, which is to be sent"),
        });
    }
    Ok(route)
}

fn passes(passed: Passed) -> Arrived<'static> {
    Arrived::Decided(Decided::Passes(passed))
}

fn stays(response: Response<Bytes>, verdict: Verdict) -> Arrived<'static> {
    Arrived::Decided(Decided::Stays(told(response, verdict)))
}

fn told(mut response: Response<Bytes>, verdict: Verdict) -> Response<Bytes> {
    response.extensions_mut().insert(verdict);
    response
}
