//! Gathers limits as they are found, each checked where it stands.

use tollgate_core::{Kind, Limit, LimitError, Period, PolicyName, Rate, Scope, remote};

use crate::path::Path;
use crate::shapes::{self, Algorithm, Consistency, QuotaScope, QuotaUnit, QuotaWindow, Strategy};
use crate::text::UpstreamName;

use super::faults::Faults;
use super::figures::rate;
use super::placed::{Counted, LimitId, Place, PlacedLimit, QueueBounds};

/// All limits found so far, and what they are checked against.
#[derive(Debug)]
pub(crate) struct Limits<'f, 'd> {
    pub(crate) all: Vec<PlacedLimit>,
    pub(crate) faults: Faults<'d>,
    file: &'f shapes::File,
    /// The upstream of all routes, if they have but one.
    only_upstream: Option<&'f UpstreamName>,
}

/// Where a limit stands, for its counters, for people, and in the file.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub(crate) place: Place,
    pub(crate) source: String,
    /// Of the `rate_limit` object.
    pub(crate) path: Path,
    /// The tenant whose counter it is, whoever below it is calling.
    pub(crate) node: Option<usize>,
}

impl Spot {
    pub(crate) fn new(place: Place, source: String, path: Path) -> Spot {
        Spot { place, source, path, node: None }
    }
}

/// A limit's figures, as they were written or after folding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    pub(crate) rate: Rate,
    pub(crate) burst: Option<u64>,
}

impl Amount {
    pub(crate) fn written(sustained: &shapes::Sustained, terms: &shapes::Terms) -> Amount {
        let burst = terms.burst.as_ref().map(|burst| burst.capacity);
        Amount { rate: rate(sustained), burst }
    }
}

impl<'f, 'd> Limits<'f, 'd> {
    pub(crate) fn new(file: &'f shapes::File, faults: Faults<'d>) -> Limits<'f, 'd> {
        let mut upstreams = file.routes.iter().map(|route| &route.upstream);
        let only_upstream = upstreams.next().filter(|first| upstreams.all(|other| other == *first));
        Limits { all: Vec::new(), faults, file, only_upstream }
    }

    /// Adds a limit as it is written in one piece.
    pub(crate) fn add(&mut self, spot: Spot, written: &shapes::RateLimit) -> Option<LimitId> {
        let amount = Amount::written(&written.sustained, &written.terms);
        self.place(spot, amount, &written.terms, written.cost)
    }

    /// Adds a limit with these figures, which counts as `terms` say.
    pub(crate) fn place(
        &mut self,
        spot: Spot,
        amount: Amount,
        terms: &shapes::Terms,
        cost: u64,
    ) -> Option<LimitId> {
        let limit = self.build(&spot, amount, terms);
        let Some(limit) = limit.filter(|limit| self.can_pass(&spot, limit, cost)) else {
            // Whatever its figures are.
            self.check_terms(&spot, terms);
            return None;
        };
        let scope = scope(terms.scope);
        let placed = PlacedLimit {
            place: spot.place,
            counter: format!("{}:{}", scope.name(), spot.source).into(),
            counted: counted(scope, spot.node),
            scope,
            strategy: terms.strategy,
            consistency: self.consistency(&spot.path, terms, &limit),
            queue: QueueBounds {
                max_wait_ms: u32::try_from(terms.queue.max_wait_ms).unwrap_or(u32::MAX),
                max_depth: u32::try_from(terms.queue.max_depth).unwrap_or(u32::MAX),
            },
            degrade: self.degrade(&spot, terms),
            shows_headers: terms.response_headers,
            cost,
            counts_requests: false,
            line: self.line(&spot.path),
            name: PolicyName::new(scope, limit.span()),
            window_secs: limit.window_secs(),
            source: spot.source.into(),
            limit,
        };
        Some(self.push(placed))
    }

    /// Whether a request that costs so much may ever pass; tells if none may.
    fn can_pass(&mut self, spot: &Spot, limit: &Limit, cost: u64) -> bool {
        if cost <= limit.capacity() {
            return true;
        }
        let message = format!(
            "a cost of {cost} can never pass: {} has a capacity of {}",
            spot.source,
            limit.capacity()
        );
        let at = spot.path.clone().key("cost");
        self.faults.error(&at, message, "lower the cost, or raise the capacity");
        false
    }

    /// Tells what is wrong with `terms` by themselves, of a limit that does not come about.
    pub(crate) fn check_terms(&mut self, spot: &Spot, terms: &shapes::Terms) {
        self.degrade(spot, terms);
        self.asked_consistency(&spot.path, terms);
    }

    /// A limit of these figures, or what is wrong with them.
    pub(crate) fn build(
        &mut self,
        spot: &Spot,
        amount: Amount,
        terms: &shapes::Terms,
    ) -> Option<Limit> {
        let kind = kind(terms.algorithm);
        let mut builder = Limit::of(kind, amount.rate);
        if let Some(capacity) = amount.burst {
            builder = builder.burst(capacity);
        }
        if kind == Kind::LeakyBucket && terms.strategy == Strategy::Queue {
            builder = builder.paced();
        }
        let fault = match builder.build() {
            Ok(limit) => return Some(limit),
            Err(fault) => fault,
        };
        let path = spot.path.clone();
        let at = match fault {
            LimitError::BurstOnWindow { .. } | LimitError::CapacityTooLarge { .. } => {
                path.key("burst").key("capacity")
            }
            _ => path.key("sustained").key("rate"),
        };
        self.faults.error(&at, fault.to_string(), "");
        None
    }

    /// Adds a quota. `counter` is what its counters are called by.
    pub(crate) fn quota(
        &mut self,
        spot: Spot,
        quota: &shapes::Quota,
        counter: &str,
    ) -> Option<LimitId> {
        let period = match quota.window {
            QuotaWindow::Day => Period::Day,
            QuotaWindow::Week => Period::Week,
            QuotaWindow::Month => Period::Month,
            QuotaWindow::Year => Period::Year,
        };
        let zone = quota.time_zone.as_str();
        let limit = match Limit::quota(quota.limit, period, zone) {
            Ok(limit) => limit,
            Err(error) => {
                self.faults.error(&spot.path, error.to_string(), "");
                return None;
            }
        };
        let scope = match quota.scope {
            QuotaScope::User => Scope::User,
            QuotaScope::Tenant => Scope::Tenant,
        };
        let unit = match quota.unit {
            QuotaUnit::Requests => "",
            QuotaUnit::Tokens => "-tokens",
        };
        let zone = if zone == "UTC" { String::new() } else { format!("@{zone}") };
        let is_synced = self.file.rate_limit_sync.enabled;
        let placed = PlacedLimit {
            place: Place::Quota,
            counter: format!("{}:{counter}{unit}{zone}", scope.name()).into(),
            counted: counted(scope, None),
            scope,
            strategy: Strategy::Reject,
            // One node alone counts for itself; several lease, which never admits too much.
            consistency: if is_synced { Consistency::Lease } else { Consistency::Local },
            queue: QueueBounds { max_wait_ms: 0, max_depth: 0 },
            degrade: None,
            shows_headers: true,
            cost: 1,
            counts_requests: quota.unit == QuotaUnit::Requests,
            line: self.line(&spot.path),
            name: PolicyName::new(scope, limit.span()),
            window_secs: limit.window_secs(),
            source: spot.source.into(),
            limit,
        };
        Some(self.push(placed))
    }

    pub(crate) fn get(&self, id: LimitId) -> &PlacedLimit {
        &self.all[id.index()]
    }

    fn push(&mut self, placed: PlacedLimit) -> LimitId {
        self.all.push(placed);
        LimitId(self.all.len() as u32 - 1)
    }

    /// How nodes count it together; what Redis cannot count exactly must be counted by each alone.
    fn consistency(&mut self, path: &Path, terms: &shapes::Terms, limit: &Limit) -> Consistency {
        let asked = self.asked_consistency(path, terms);
        let cannot = match asked {
            Consistency::Local => None,
            Consistency::Lease => remote::leasable(limit).err().map(|why| why.to_string()),
            Consistency::Hybrid | Consistency::Strict => None,
        };
        let is_shared = asked != Consistency::Local;
        let out_of_range = is_shared.then(|| remote::supports(limit).err()).flatten();
        if let Some(why) = cannot.or_else(|| out_of_range.map(|why| why.to_string())) {
            self.faults.error(path, why, "");
        }
        asked
    }

    fn asked_consistency(&mut self, path: &Path, terms: &shapes::Terms) -> Consistency {
        let is_synced = self.file.rate_limit_sync.enabled;
        match terms.consistency {
            None if is_synced => Consistency::Hybrid,
            None | Some(Consistency::Local) => Consistency::Local,
            Some(asked) if is_synced => asked,
            Some(_) if self.doubts_sync() => Consistency::Local,
            Some(_) => {
                self.faults.error(
                    &path.clone().key("consistency"),
                    "only `local` works without Redis",
                    "write `rate_limit_sync: { enabled: true }`, or leave `consistency` out",
                );
                Consistency::Local
            }
        }
    }

    fn doubts_sync(&mut self) -> bool {
        let root = Path::root();
        self.faults.doubts(&root, "rate_limit_sync")
            || self.faults.doubts(&root.key("rate_limit_sync"), "enabled")
    }

    fn degrade(&mut self, spot: &Spot, terms: &shapes::Terms) -> Option<u32> {
        let name = terms.degrade.upstream.as_ref()?;
        let path = spot.path.clone().key("degrade").key("upstream");
        let Some((number, _, upstream)) = self.file.upstreams.get_full(name) else {
            let known = self.file.upstreams.keys().map(UpstreamName::as_str);
            self.faults.unknown(&path, "upstream", name.as_str(), known);
            return None;
        };
        // A pool says what the limit beside it says.
        let degrades = terms.strategy == Strategy::Degrade && spot.place != Place::Pool;
        // Where all requests are for that upstream it is in their chains.
        let is_another = self.only_upstream != Some(name) && !self.file.routes.is_empty();
        if degrades && upstream.rate_limit.is_some() && is_another {
            let message =
                format!("requests that are degraded to `{name}` are not charged to its limit");
            let help = "degrade to an upstream without `rate_limit`, and bound what it is sent by its `backpressure`";
            self.faults.warning(&path, message, help);
        }
        Some(number as u32)
    }

    fn line(&self, path: &Path) -> u32 {
        if self.faults.has(path) { self.faults.line_of(path) as u32 } else { 0 }
    }
}

fn counted(scope: Scope, node: Option<usize>) -> Counted {
    match (scope, node) {
        (Scope::Global, _) => Counted::Everybody,
        (Scope::Tenant, Some(node)) => Counted::Node(node as u32),
        (Scope::Tenant, None) => Counted::Tenant,
        (Scope::User, _) => Counted::User,
        (Scope::Ip, _) => Counted::Ip,
        (Scope::Route, _) => Counted::Route,
    }
}

pub(crate) fn kind(algorithm: Algorithm) -> Kind {
    match algorithm {
        Algorithm::TokenBucket => Kind::TokenBucket,
        Algorithm::SlidingWindow => Kind::SlidingWindow,
        Algorithm::SlidingWindowLog => Kind::SlidingWindowLog,
        Algorithm::FixedWindow => Kind::FixedWindow,
        Algorithm::LeakyBucket => Kind::LeakyBucket,
        Algorithm::Gcra => Kind::Gcra,
    }
}

fn scope(scope: shapes::Scope) -> Scope {
    match scope {
        shapes::Scope::Global => Scope::Global,
        shapes::Scope::Tenant => Scope::Tenant,
        shapes::Scope::User => Scope::User,
        shapes::Scope::Ip => Scope::Ip,
        shapes::Scope::Route => Scope::Route,
    }
}
