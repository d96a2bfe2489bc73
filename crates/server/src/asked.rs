//! What one request asks for under the policy in force, and how it is decided.
//!
//! The order is the gateway's: route, backpressure, caller, chain. Here everything that a request takes along is owned, so
//! that nothing of the policy is borrowed while the service works.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use tollgate_engine::Clock;
use tollgate_gate::{self as gate, Holder, Lines, Passage};
use tollgate_policy::compile::{ANONYMOUS, Policy, RouteInForce, Work};
use tollgate_policy::routes::normalise;
use tollgate_wire::{Problem, Refused, degraded_by};

use crate::answer::Answer;
use crate::caller::{Caller, UnknownTenant};
use crate::head::Head;
use crate::limits::{Limits, Present};
use crate::passed::{Mark, Passed};
use crate::verdict::{Outcome, Verdict};

/// What a request asks for. Its numbers are of one policy.
#[derive(Debug)]
pub(crate) struct Asked {
    caller: gate::Caller<'static>,
    route: Option<usize>,
    operation: Option<usize>,
    cost: Option<u64>,
    is_tenant_known: bool,
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

impl Decided {
    /// The service is told the verdict, or not.
    pub(crate) fn telling_service(self, tells: bool) -> Decided {
        match self {
            Decided::Passes(passed) => Decided::Passes(passed.telling_service(tells)),
            Decided::Stays(response) => Decided::Stays(response),
        }
    }
}

impl Arrived {
    /// A request at the door.
    pub(crate) fn at<C: Clock>(
        limits: &Limits<C>,
        present: &Present,
        (head, caller): (Head<'_>, &Caller<'_>),
        unknown: UnknownTenant,
    ) -> Arrived {
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
            return passes(Passed::unlimited(Verdict::unlimited(Outcome::Admitted)));
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
            caller: known.with_plan(plan.and_then(|name| policy.plan(name))),
            route: route.map(RouteInForce::number),
            operation: caller.operation.as_deref().and_then(|name| policy.operation(name)),
            cost: caller.cost,
            is_tenant_known,
        })
    }
}

impl Asked {
    /// Decides it at once. Only for a policy under which nobody waits.
    pub(crate) fn decide<C: Clock>(
        &self,
        limits: &Limits<C>,
        present: &Present,
        head: Head<'_>,
    ) -> Decided {
        let in_force = &*present.in_force;
        let work = self.work(in_force.policy());
        let passage = limits.gate().decide(in_force, &self.caller, work);
        self.decided(&passage, present, || Answer::to(head))
    }

    /// Decides it, waiting in line where the strategy is `queue`.
    pub(crate) async fn pass<C: Clock>(
        self,
        limits: Limits<C>,
        present: Arc<Present>,
        answer: Answer,
    ) -> Decided {
        let in_force = &*present.in_force;
        let work = self.work(in_force.policy());
        let passage = limits.gate().pass(in_force, &self.caller, work).await;
        self.decided(&passage, &present, || answer)
    }

    fn work<'p>(&self, policy: &'p Policy) -> Work<'p> {
        let route = self.route.map(|number| &policy.routes()[number]);
        route.map(Work::on).unwrap_or_default().stating(self.operation, self.cost)
    }

    fn decided(
        &self,
        passage: &Passage<'_>,
        present: &Present,
        answer: impl FnOnce() -> Answer,
    ) -> Decided {
        let lines = Lines::of(passage);
        let report = lines.report();
        let verdict = Verdict::of(passage, &report).with_tenant_known(self.is_tenant_known);
        let shows = passage.shows_headers();
        if !passage.is_admitted() {
            let answer = answer();
            let refused = Refused::by_limit(&report, answer.id()).limit_headers(shows);
            return Decided::Stays(told(answer.refuse(&refused), verdict));
        }
        let mut headers = HeaderMap::new();
        if shows {
            report.write(&mut headers);
        }
        let mark = match passage.degraded().and_then(|(name, _)| degraded_by(name)) {
            Some(mark) => Mark::By(mark),
            None if present.degrades => Mark::Off,
            None => Mark::Any,
        };
        Decided::Passes(Passed::new(verdict, headers, mark))
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
    let find = |path| policy.route(head.host(), head.method.as_str(), path);
    let route = find(&plain);
    if let Cow::Owned(plain) = &plain {
        if find(as_sent).map(RouteInForce::number) != route.map(RouteInForce::number) {
            return Err(format!(
                "this path has a plainer spelling, `{plain}`, which is to be sent"
            ));
        }
    }
    Ok(route)
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
