//! What a request would meet, and why: for people, and as JSON for programs.

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;
use tollgate_core::{Kind, PolicyName, Rate};

use crate::compile::{
    ANONYMOUS, Client, KeyInForce, Place, PlacedLimit, Policy, RouteInForce, Work,
};
use crate::identity::{Caller, Holder};
use crate::routes::normalise;
use crate::shapes::{Consistency, Strategy};
use crate::words::nearest;

/// Whose request is asked about.
#[derive(Clone, Copy, Debug, Default)]
pub struct Question<'a> {
    /// Its tenant.
    pub tenant: &'a str,
    /// Its user.
    pub user: Option<&'a str>,
    /// Its plan; the key's or the tenant's if unsaid.
    pub plan: Option<&'a str>,
    /// Method and path, perhaps with a host: `POST /v1/x`, `GET api.example.com/v1/x`.
    pub route: Option<&'a str>,
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unexplained(String);

impl fmt::Display for Unexplained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unexplained {}

/// What a request would meet.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The tenant.
    pub tenant: String,
    /// The user, if one was asked about.
    pub user: Option<String>,
    /// The plan in force.
    pub plan: Option<String>,
    /// The route that was found.
    pub route: Option<String>,
    /// The lowest figures of the tenant tree alone; nothing if it sets none.
    pub effective: Option<Effective>,
    /// What the request costs where its route states it, else 1.
    pub cost: u64,
    /// Every limit it is charged to, in order.
    pub chain: Vec<Link>,
}

/// The lowest figures of the tenant tree.
#[derive(Clone, Debug, Serialize)]
pub struct Effective {
    /// The lowest rate.
    pub sustained: Sustained,
    /// The lowest burst.
    pub burst: Burst,
}

/// The lowest rate of a tenant tree.
#[derive(Clone, Debug, Serialize)]
pub struct Sustained {
    /// Tokens a window.
    pub rate: u64,
    /// The window.
    pub window: String,
    /// Who sets it: a tenant, or a pool.
    pub from: String,
}

/// The lowest burst of a tenant tree.
#[derive(Clone, Debug, Serialize)]
pub struct Burst {
    /// Tokens at once.
    pub capacity: u64,
    /// Who sets it: a tenant, or a pool.
    pub from: String,
}

/// One limit of a chain.
#[derive(Clone, Debug, Serialize)]
pub struct Link {
    /// Its name in headers.
    pub policy: String,
    /// Where it stands.
    pub source: String,
    /// Where it is written: `tollgate.yaml:12`, or `built in`.
    pub file: String,
    /// Whose requests share the counter.
    pub scope: &'static str,
    /// The counter's name.
    pub key: String,
    /// Tokens a window, or a quota's limit.
    pub rate: u64,
    /// The window or period.
    pub window: &'static str,
    /// The burst capacity, the window's limit, or the quota.
    pub capacity: u64,
    /// The time zone of a quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// How it counts.
    pub algorithm: &'static str,
    /// What becomes of a request above it.
    pub strategy: Strategy,
    /// How the nodes of a cluster count together.
    pub consistency: Consistency,
    /// What this request is charged.
    pub cost: u64,
}

impl Policy {
    /// What a request would meet.
    pub fn explain(&self, question: &Question<'_>) -> Result<Explanation, Unexplained> {
        let tenant = self.tenants().number(question.tenant).ok_or_else(|| {
            let known = self.tenants().all().iter().map(crate::compile::TenantInForce::id);
            unknown("tenant", question.tenant, known)
        })?;
        let route = question.route.map(|written| self.find(written)).transpose()?;
        let key = self.only_key_of(tenant, question.user);
        let plan = match question.plan {
            Some(name) => Some(self.plan(name).ok_or_else(|| {
                unknown("plan", name, self.plans().iter().map(crate::compile::PlanInForce::name))
            })?),
            None => key.and_then(KeyInForce::plan),
        };
        let client =
            Client::of(self, tenant).with_plan(plan).with_limit(key.and_then(KeyInForce::limit));
        let user =
            question.user.unwrap_or(if question.tenant == ANONYMOUS { "<ip>" } else { "<user>" });
        let caller = Caller {
            tenant: question.tenant,
            holder: Holder::User(user),
            ip: None,
            route: route.map(RouteInForce::name),
        };
        let work = route.map_or_else(Work::default, Work::on);
        let mut seen: HashMap<PolicyName, u16> = HashMap::new();
        let chain = self.chain(client, work).map(|(_, limit)| {
            let nth = seen.entry(limit.name()).or_default();
            *nth += 1;
            let figures = limit.limit();
            Link {
                policy: limit.name().nth(*nth).to_string(),
                source: limit.source().to_owned(),
                file: limit.line().map_or_else(
                    || "built in".to_owned(),
                    |line| format!("{}:{line}", self.file()),
                ),
                scope: limit.scope().name(),
                key: self.counter_key(limit, &caller),
                rate: figures.rate().map_or(figures.capacity(), Rate::tokens),
                window: figures.span().name(),
                capacity: figures.capacity(),
                time_zone: figures.calendar().map(|(_, zone)| zone.to_owned()),
                // A quota is a fixed window too, by the calendar.
                algorithm: match figures.kind() {
                    Kind::Quota => Kind::FixedWindow.name(),
                    kind => kind.name(),
                },
                strategy: limit.strategy(),
                consistency: limit.consistency(),
                cost: limit.cost(work.cost()),
            }
        });
        Ok(Explanation {
            tenant: question.tenant.to_owned(),
            user: question.user.map(str::to_owned),
            plan: client.plan().map(|number| self.plans()[number].name().to_owned()),
            route: route.map(|route| route.name().to_owned()),
            effective: self.effective(tenant, client),
            cost: work.cost().unwrap_or(1),
            chain: chain.collect(),
        })
    }

    /// The lowest figures of all that the tree of tenants charges a request to: the tenant's own limit, those of ancestors, and pools. Among
    /// equals the nearest.
    fn effective(&self, tenant: usize, client: Client) -> Option<Effective> {
        let of_tree = |limit: &&PlacedLimit| matches!(limit.place(), Place::Tenant | Place::Pool);
        let limits = self.chain(client, Work::default()).map(|(_, limit)| limit).filter(of_tree);
        let mut rate: Option<(Rate, &PlacedLimit)> = None;
        let mut capacity: Option<(u64, &PlacedLimit)> = None;
        for limit in limits {
            let figures = limit.limit();
            if let Some(this) = figures.rate()
                && rate.is_none_or(|(least, _)| this.compare(least).is_lt())
            {
                rate = Some((this, limit));
            }
            if capacity.is_none_or(|(least, _)| figures.capacity() < least) {
                capacity = Some((figures.capacity(), limit));
            }
        }
        let ((rate, rate_of), (capacity, capacity_of)) = (rate?, capacity?);
        // What the tenant's own counter runs at may be an ancestor's figure.
        let folded = self.tenants().all()[tenant].effective();
        let rate_from = folded.filter(|own| own.rate == rate).map(|own| own.rate_from);
        // A window has no burst: it admits its rate at once, whoever sets that.
        let capacity_from = match capacity_of.limit().kind().has_burst() {
            true => folded.filter(|own| own.capacity == capacity).map(|own| own.capacity_from),
            false => rate_from,
        };
        let from = |limit: &PlacedLimit, own: Option<usize>| match own {
            Some(number) if limit.place() == Place::Tenant => {
                self.tenants().all()[number].id().to_owned()
            }
            _ => limit.source().trim_start_matches("tenant:").to_owned(),
        };
        Some(Effective {
            sustained: Sustained {
                rate: rate.tokens(),
                window: rate.window().to_string(),
                from: from(rate_of, rate_from),
            },
            burst: Burst { capacity, from: from(capacity_of, capacity_from) },
        })
    }

    /// The route of a request as a person writes it.
    fn find(&self, written: &str) -> Result<&RouteInForce, Unexplained> {
        let (method, rest) = written.split_once(' ').unwrap_or(("GET", written));
        let start = rest.find('/').ok_or_else(|| {
            Unexplained(format!(
                "`{written}` is no request: write a method and a path, as in `POST /v1/x`"
            ))
        })?;
        let (host, path) = rest.split_at(start);
        let path = path.split('?').next().unwrap_or_default();
        let normal = normalise(path).map_err(|bad| Unexplained(format!("`{path}`: {bad}")))?;
        self.route(host, method, &normal).ok_or_else(|| {
            Unexplained(format!("no route is for `{written}`: it is answered with 404"))
        })
    }

    /// The key of a user, if the file declares just one.
    fn only_key_of(&self, tenant: usize, user: Option<&str>) -> Option<&KeyInForce> {
        let of_user = |key: &&KeyInForce| key.tenant() == tenant && key.user() == user;
        let mut keys = self.keys().iter().filter(of_user).take(2);
        let first = keys.next().filter(|_| user.is_some());
        first.filter(|_| keys.next().is_none())
    }
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Unexplained {
    let near =
        nearest(name, known).map_or_else(String::new, |near| format!(", did you mean `{near}`?"));
    Unexplained(format!("there is no {what} `{name}`{near}"))
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tenant {}", self.tenant)?;
        for (what, name) in [("user", &self.user), ("plan", &self.plan), ("route", &self.route)] {
            if let Some(name) = name {
                write!(f, ", {what} {name}")?;
            }
        }
        writeln!(f, "\n")?;
        match &self.effective {
            Some(Effective { sustained, burst }) => writeln!(
                f,
                "tenant tree: at most {} a {} (set by {}), burst {} (set by {})",
                sustained.rate, sustained.window, sustained.from, burst.capacity, burst.from
            )?,
            None => writeln!(f, "tenant tree: sets no limit")?,
        }
        if self.chain.is_empty() {
            return writeln!(f, "this request is charged to no limit");
        }
        writeln!(f, "a request costs {}, and is charged to:\n", self.cost)?;
        for (place, link) in (1..).zip(&self.chain) {
            let Link { policy, source, file, rate, window, algorithm, capacity, cost, .. } = link;
            writeln!(f, "{place:>2}. {policy:<16} {source}  ({file})")?;
            write!(f, "    {rate} a {window}")?;
            if capacity != rate {
                write!(f, ", burst {capacity}")?;
            }
            if let Some(zone) = &link.time_zone {
                write!(f, " of {zone}")?;
            }
            write!(f, "; {algorithm}, scope {}, ", link.scope)?;
            write!(f, "{}, {}", word(&link.strategy), word(&link.consistency))?;
            if *cost != self.cost {
                write!(f, ", charged {cost}")?;
            }
            writeln!(f, "\n    {}", link.key)?;
        }
        Ok(())
    }
}

/// A word as the file writes it.
fn word(value: &impl Serialize) -> String {
    let written = serde_json::to_value(value).ok();
    written.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
