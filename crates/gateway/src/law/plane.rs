//! What is in force: a policy, its upstreams, and what is told of them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::{HeaderName, HeaderValue};
use tollgate_engine::{Clock, Limit, LimitError, Rate, Rule};
use tollgate_gate::{Gate, InForce};
use tollgate_policy::Cidr;
use tollgate_policy::compile::{PlanInForce, Policy};
use tollgate_policy::shapes::{self, Auth};

use super::keys::FileKeys;
use super::metrics::{Endpoint, Metrics, Tier};
use crate::tls::{TlsError, Trust};
use crate::upstream::Upstream;

/// A policy in force with everything that its requests need, swapped whole.
#[derive(Debug)]
pub struct Plane {
    number: PlaneNumber,
    in_force: Arc<InForce>,
    upstreams: Vec<InUse>,
    keys: FileKeys,
    key_header: HeaderName,
    failures: Arc<Rule>,
    /// As headers tell upstreams, by number.
    tenants: Vec<HeaderValue>,
    plans: Vec<HeaderValue>,
    /// By the plan's number; the last is of callers without one.
    tiers: Vec<Tier>,
    endpoints: Vec<Endpoint>,
}

/// Which plane it is, of all that a process ever had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaneNumber(u64);

impl PlaneNumber {
    fn next() -> PlaneNumber {
        static LAST: AtomicU64 = AtomicU64::new(0);
        PlaneNumber(LAST.fetch_add(1, Relaxed))
    }
}

/// An upstream, and the shape it has in the policy.
#[derive(Clone, Debug)]
struct InUse {
    upstream: Arc<Upstream>,
    shape: shapes::Upstream,
    source: Box<str>,
}

impl InUse {
    /// Whether what is connected, healthy and pending there is so under this shape too. When it is too busy and how much it may be
    /// asked for are the policy's to say.
    fn is_at(&self, shape: &shapes::Upstream) -> bool {
        let of = |shape: &shapes::Upstream| (shape.connect_timeout_ms, shape.response_timeout_ms);
        self.shape.urls() == shape.urls() && of(&self.shape) == of(shape)
    }

    fn enforce(&self) {
        self.upstream.backpressure().set_threshold(self.shape.backpressure.threshold);
    }
}

/// A policy of which everything that may fail is done, and of which nothing is in force yet.
#[derive(Debug)]
pub struct ReadyPlane {
    policy: Policy,
    upstreams: Vec<InUse>,
    keys: FileKeys,
    key_header: HeaderName,
    failures: Limit,
}

/// Why a policy cannot be put into force.
#[derive(Debug)]
pub enum PlaneError {
    /// An upstream's TLS.
    Tls(TlsError),
    /// The limit of failures.
    Failures(LimitError),
}

impl fmt::Display for PlaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaneError::Tls(error) => error.fmt(f),
            PlaneError::Failures(error) => write!(f, "auth.failures: {error}"),
        }
    }
}

impl std::error::Error for PlaneError {}

impl ReadyPlane {
    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Binds it to counters: from here on they go by its figures.
    pub fn bind<C: Clock>(self, gate: &Gate<C>, metrics: &Metrics) -> Plane {
        let ReadyPlane { policy, upstreams, keys, key_header, failures } = self;
        upstreams.iter().for_each(InUse::enforce);
        let value =
            |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""));
        let plans = policy.plans();
        let tiers = plans.iter().map(PlanInForce::name).chain(["none"]);
        Plane {
            number: PlaneNumber::next(),
            upstreams,
            keys,
            key_header,
            failures: gate.limiter().define("ip:auth.failures", failures),
            tenants: policy.tenants().all().iter().map(|tenant| value(tenant.id())).collect(),
            plans: plans.iter().map(|plan| value(plan.name())).collect(),
            tiers: tiers.map(|name| metrics.tier(name)).collect(),
            endpoints: policy
                .routes()
                .iter()
                .map(|route| metrics.endpoint(route.pattern()))
                .collect(),
            in_force: gate.enforce(policy),
        }
    }
}

impl Plane {
    /// Makes everything ready that a policy needs. Upstreams that are where they were in `before` keep their connections, their
    /// health and what is pending.
    pub fn prepare(policy: Policy, before: Option<&Plane>) -> Result<ReadyPlane, PlaneError> {
        let settings = policy.settings();
        let upstreams = settings.upstreams.iter().map(|(name, shape)| {
            let source: Box<str> = format!("upstream:{name}").into();
            // By name too: two of one shape have each its own backlog.
            let same = |other: &&InUse| other.source == source && other.is_at(shape);
            let kept = before.and_then(|before| before.upstreams.iter().find(same));
            let upstream = match kept {
                Some(kept) => Arc::clone(&kept.upstream),
                None => Upstream::new(shape, Trust::system).map_err(PlaneError::Tls)?,
            };
            Ok(InUse { upstream, shape: shape.clone(), source })
        });
        let upstreams = upstreams.collect::<Result<_, _>>()?;
        let auth = &settings.auth;
        let failures = Limit::token_bucket(Rate::per_second(auth.failures.rate))
            .burst(auth.failures.capacity)
            .build()
            .map_err(PlaneError::Failures)?;
        let key_header = HeaderName::from_bytes(auth.header.as_str().as_bytes())
            .unwrap_or(HeaderName::from_static("x-api-key"));
        let keys = FileKeys::of(&policy);
        Ok(ReadyPlane { policy, upstreams, keys, key_header, failures })
    }

    pub(crate) fn number(&self) -> PlaneNumber {
        self.number
    }

    /// The policy in force.
    pub fn in_force(&self) -> &Arc<InForce> {
        &self.in_force
    }

    /// The keys that its file declares.
    pub fn keys(&self) -> &FileKeys {
        &self.keys
    }

    pub(crate) fn upstream(&self, number: usize) -> &Arc<Upstream> {
        &self.upstreams[number].upstream
    }

    pub(crate) fn upstream_source(&self, number: usize) -> &str {
        &self.upstreams[number].source
    }

    pub(crate) fn auth(&self) -> &Auth {
        &self.in_force.policy().settings().auth
    }

    pub(crate) fn key_header(&self) -> &HeaderName {
        &self.key_header
    }

    pub(crate) fn failures(&self) -> &Rule {
        &self.failures
    }

    pub(crate) fn proxies(&self) -> &[Cidr] {
        &self.in_force.policy().settings().server.trusted_proxies
    }

    pub(crate) fn tenant_value(&self, number: usize) -> &HeaderValue {
        &self.tenants[number]
    }

    pub(crate) fn plan_value(&self, number: usize) -> &HeaderValue {
        &self.plans[number]
    }

    pub(crate) fn tier(&self, plan: Option<usize>) -> Tier {
        self.tiers[plan.unwrap_or(self.tiers.len() - 1)]
    }

    /// Of the route with this number.
    pub(crate) fn endpoint(&self, route: usize) -> Endpoint {
        self.endpoints[route]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plane with these upstreams, all of one shape.
    fn plane(names: &[&str], before: Option<&Plane>) -> Plane {
        let upstreams = names.iter().map(|name| format!("{name}: {{ url: 'http://127.0.0.1:1' }}"));
        let upstreams = upstreams.collect::<Vec<_>>().join(", ");
        let file = format!(
            "upstreams: {{ {upstreams} }}\nroutes: [ {{ path: /*, upstream: {} }} ]\n",
            names[0]
        );
        let policy = Policy::of("test", file.as_bytes()).unwrap();
        let ready = Plane::prepare(policy, before).unwrap();
        ready.bind(&Gate::new(100), &Metrics::default())
    }

    /// A plane to be, with an upstream `a` of this shape.
    fn ready(shape: &str, before: Option<&Plane>) -> ReadyPlane {
        let file =
            format!("upstreams: {{ a: {shape} }}\nroutes: [ {{ path: /*, upstream: a }} ]\n");
        let policy = Policy::of("test", file.as_bytes()).unwrap();
        Plane::prepare(policy, before).unwrap()
    }

    fn upstream<'p>(plane: &'p Plane, name: &str) -> &'p Arc<Upstream> {
        let source = format!("upstream:{name}");
        &plane.upstreams.iter().find(|in_use| *in_use.source == *source).unwrap().upstream
    }

    #[test]
    fn upstreams_of_one_shape_stay_two_and_keep_what_is_theirs() {
        let first = plane(&["a", "b"], None);
        let second = plane(&["b", "c", "a"], Some(&first));
        for name in ["a", "b"] {
            assert!(Arc::ptr_eq(upstream(&first, name), upstream(&second, name)), "{name}");
        }
        for old in ["a", "b"] {
            assert!(!Arc::ptr_eq(upstream(&first, old), upstream(&second, "c")), "{old}");
        }
    }

    /// Once nothing was pending any more, and as much again was let through.
    #[test]
    fn another_threshold_or_limit_leaves_an_upstream_what_is_pending() {
        let (gate, metrics) = (Gate::new(100), Metrics::default());
        let first = ready("{ url: 'http://127.0.0.1:1' }", None).bind(&gate, &metrics);
        let backpressure = upstream(&first, "a").backpressure();
        let _pending: Vec<_> = (0..600).map(|_| backpressure.enter()).collect();
        let shape = "{ urls: ['http://127.0.0.1:1'], backpressure: { threshold: 512 }, \
                     rate_limit: { sustained: { rate: 7 } } }";
        let second = ready(shape, Some(&first));
        assert!(backpressure.check().is_ok(), "it may never be put into force");
        let second = second.bind(&gate, &metrics);
        assert!(Arc::ptr_eq(upstream(&first, "a"), upstream(&second, "a")));
        assert!(backpressure.check().is_err());
    }

    #[test]
    fn another_address_or_timeout_makes_another_upstream() {
        let (gate, metrics) = (Gate::new(100), Metrics::default());
        let first = ready("{ url: 'http://127.0.0.1:1' }", None).bind(&gate, &metrics);
        for shape in [
            "{ url: 'http://127.0.0.1:2' }",
            "{ url: 'http://127.0.0.1:1', connect_timeout_ms: 7 }",
            "{ url: 'http://127.0.0.1:1', response_timeout_ms: 7 }",
        ] {
            let second = ready(shape, Some(&first)).bind(&gate, &metrics);
            assert!(!Arc::ptr_eq(upstream(&first, "a"), upstream(&second, "a")), "{shape}");
        }
    }
}
