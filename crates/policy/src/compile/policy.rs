//! A file compiled: immutable, cheap to share, swapped whole.

use crate::diagnostic::Diagnostics;
use crate::doubts::Doubts;
use crate::load::{Loaded, load_file};
use crate::path::Path;
use crate::routes::Matcher;
use crate::shapes::{self, Named, RedisMode};
use crate::text::PlanName;

use super::beyond_shape::{Names, beyond_shape};
use super::costs;
use super::defaults::Defaults;
use super::faults::{Faults, MADE_ALREADY};
use super::keys::{self, KeyInForce};
use super::limits::Limits;
use super::operations::Operations;
use super::placed::{LimitId, PlacedLimit};
use super::plans::{self, PlanInForce};
use super::routes::{self, RouteInForce};
use super::tenants::{PolicyFaults, Tenants};

/// What the API made, beside what the file declares.
#[derive(Clone, Debug, Default)]
pub struct Made {
    /// Its tenants.
    pub tenants: Vec<shapes::Tenant>,
    /// Its plans.
    pub plans: Named<PlanName, shapes::Plan>,
}

/// A file compiled: who is limited by what, and how to find it out for one request.
///
/// ```
/// use tollgate_policy::compile::{Client, Policy, Work};
///
/// let policy = Policy::of("tollgate.yaml", b"
/// upstreams: { api: { url: \"http://127.0.0.1:3000\" } }
/// routes: [ { path: /*, upstream: api } ]
/// plans: { free: { rate_limit: { sustained: { rate: 10 }, scope: user } } }
/// tenants: [ { id: acme, plan: free } ]
/// ").unwrap();
/// let route = policy.route("example.com", "GET", "/v1/models").unwrap();
/// let acme = policy.tenants().number("acme").unwrap();
///
/// let chain = policy.chain(Client::of(&policy, acme), Work::on(route));
/// let sources: Vec<_> = chain.map(|(_, limit)| limit.source()).collect();
/// assert_eq!(sources, ["plan:free"]);
/// ```
#[derive(Clone, Debug)]
pub struct Policy {
    limits: Vec<PlacedLimit>,
    /// Every limit's number at its own place, so that one limit can be lent as a list.
    pub(super) ids: Vec<LimitId>,
    tenants: Tenants,
    plans: Vec<PlanInForce>,
    plan_numbers: foldhash::HashMap<Box<str>, u32>,
    routes: Vec<RouteInForce>,
    matcher: Matcher,
    operations: foldhash::HashMap<Box<str>, u32>,
    keys: Vec<KeyInForce>,
    pub(super) defaults: Defaults,
    settings: shapes::File,
    file: Box<str>,
    warnings: Diagnostics,
}

impl Policy {
    /// Reads and compiles a file. `name` is what diagnostics call it.
    pub fn of(name: &str, text: &[u8]) -> Result<Policy, Box<PolicyFaults>> {
        let loaded = load_file(name, text).map_err(|unread| beyond_shape(unread, Names::Here))?;
        Policy::compile(loaded, Made::default())
    }

    /// Compiles a file together with what the API made, or tells everything that is wrong with both.
    ///
    /// Every change goes through here, by file or API: what is accepted is what a fresh start would accept.
    pub fn compile(loaded: Loaded, made: Made) -> Result<Policy, Box<PolicyFaults>> {
        Policy::compile_rest(loaded, made, Doubts::default())
    }

    /// As [`compile`](Policy::compile), of what is left of a file without the faults of its shape.
    pub(crate) fn compile_rest(
        loaded: Loaded,
        made: Made,
        doubts: Doubts,
    ) -> Result<Policy, Box<PolicyFaults>> {
        let Loaded { value: mut file, document } = loaded;
        let mut faults = Faults::doubting(&document, doubts);
        join(&mut file, made, &mut faults);
        let mut limits = Limits::new(&file, faults);
        let operations = Operations::of(&file);
        let defaults = Defaults::gather(&file, &mut limits);
        let plans = plans::gather(&file, &operations, &mut limits);
        let (tenants, budgets) = Tenants::gather(&file, &mut limits);
        let (routes, matcher) = routes::gather(&file, &operations, &mut limits);
        let keys = keys::gather(&file, &tenants, &mut limits);
        costs::check(&routes, &plans, &mut limits);
        let operations = operations.into_numbers();
        let Limits { all, mut faults, .. } = limits;
        let redis = Path::root().key("redis");
        if file.redis.mode == RedisMode::Single
            && !file.redis.urls.is_empty()
            && !faults.doubts(&redis, "mode")
        {
            let urls = redis.key("urls");
            let help = "write `mode: cluster` or `mode: sentinel`, or leave them out";
            faults.error(&urls, "a single server has one URL", help);
        }
        if file.routes.is_empty() && !file.upstreams.is_empty() {
            let upstreams = Path::root().key("upstreams");
            let message = "there are no routes: every request is answered with 404";
            faults.warning(&upstreams, message, "write `routes: [{ path: \"/*\", upstream: … }]`");
        }
        let warnings = faults.into_found();
        if warnings.has_errors() {
            return Err(Box::new(PolicyFaults { diagnostics: warnings, budgets }));
        }
        let numbered = plans.iter().zip(0..).map(|(plan, number)| (plan.name().into(), number));
        Ok(Policy {
            ids: (0..all.len() as u32).map(LimitId).collect(),
            limits: all,
            tenants,
            plan_numbers: numbered.collect(),
            plans,
            routes,
            matcher,
            operations,
            keys,
            defaults,
            settings: shapes::File {
                tenants: Vec::new(),
                routes: Vec::new(),
                plans: Named::default(),
                keys: Vec::new(),
                ..file
            },
            file: document.source().name().into(),
            warnings,
        })
    }

    /// Every limit, by its number.
    pub fn limits(&self) -> &[PlacedLimit] {
        &self.limits
    }

    /// One limit.
    #[inline]
    pub fn limit(&self, id: LimitId) -> &PlacedLimit {
        &self.limits[id.index()]
    }

    /// The tree of tenants.
    pub fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    /// Every plan, by its number.
    pub fn plans(&self) -> &[PlanInForce] {
        &self.plans
    }

    /// The number of the plan called `name`.
    pub fn plan(&self, name: &str) -> Option<usize> {
        self.plan_numbers.get(name).map(|number| *number as usize)
    }

    /// The number of the operation called `name`, if a plan or a route names it.
    pub fn operation(&self, name: &str) -> Option<usize> {
        self.operations.get(name).map(|number| *number as usize)
    }

    /// Every route, in the order of the file.
    pub fn routes(&self) -> &[RouteInForce] {
        &self.routes
    }

    /// The route of a request, whose path is [normalised](crate::routes::normalise).
    pub fn route(&self, host: &str, method: &str, path: &str) -> Option<&RouteInForce> {
        self.matcher.find(host, method, path).map(|number| &self.routes[number])
    }

    /// The same by a path as it is spelled, which is how some routers choose what they run.
    pub fn route_as_spelled(&self, host: &str, method: &str, path: &str) -> Option<&RouteInForce> {
        let number = self.matcher.find_as_spelled(host, method, path);
        number.map(|number| &self.routes[number])
    }

    /// The keys that the file declares.
    pub fn keys(&self) -> &[KeyInForce] {
        &self.keys
    }

    /// Everything else the file says: sections that need no compiling, and the upstreams.
    pub fn settings(&self) -> &shapes::File {
        &self.settings
    }

    /// The name of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// What deserves a look.
    pub fn warnings(&self) -> &Diagnostics {
        &self.warnings
    }
}

/// Puts what the API made beside what the file declares. A tenant that both have is told with the tree.
fn join(file: &mut shapes::File, made: Made, faults: &mut Faults<'_>) {
    faults.made(file.tenants.len(), made.tenants.iter().map(|tenant| tenant.id.clone()).collect());
    file.tenants.extend(made.tenants);
    for name in made.plans.keys().filter(|name| file.plans.contains_key(*name)) {
        faults.error(
            &Path::root().key("plans").key(name.as_str().to_owned()),
            format!("plan `{name}` was made by the API already"),
            MADE_ALREADY,
        );
    }
    let written = std::mem::take(&mut file.plans);
    let all = made.plans.into_iter().chain(written);
    // The file's come last, so they stay where both have one; their order does not matter.
    file.plans = all.collect();
}
