//! Routes as they are in force.

use crate::path::Path;
use crate::routes::{Matcher, RouteKey};
use crate::shapes::{self, RouteAuth};
use crate::text::{Host, Method, UpstreamName};

use super::limits::{Amount, Limits, Spot};
use super::operations::Operations;
use super::placed::{LimitId, Place};

/// A route as it is in force.
#[derive(Clone, Debug)]
pub struct RouteInForce {
    number: u32,
    name: Box<str>,
    pattern: Box<str>,
    upstream: u32,
    pub(crate) operation: Option<u32>,
    is_open: bool,
    pub(crate) cost: Option<u64>,
    /// Its own limit, then its upstream's.
    pub(crate) limits: Box<[LimitId]>,
}

impl RouteInForce {
    /// Its number, in the order of the file.
    pub fn number(&self) -> usize {
        self.number as usize
    }

    /// Methods, hosts and path, which no other route has: `POST /v1/chat`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its path as it is written.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The number of its upstream, in the order of the file.
    pub fn upstream(&self) -> usize {
        self.upstream as usize
    }

    /// Whether it asks for no key.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// The cost it states.
    pub fn cost(&self) -> Option<u64> {
        self.cost
    }

    /// Whether neither limits nor quotas nor backpressure are for it.
    pub fn is_free(&self) -> bool {
        self.cost == Some(0)
    }
}

/// All routes with their limits, and what finds them.
pub(crate) fn gather(
    file: &shapes::File,
    operations: &Operations<'_>,
    limits: &mut Limits<'_, '_>,
) -> (Vec<RouteInForce>, Matcher) {
    let of_upstreams: Vec<Option<LimitId>> = file
        .upstreams
        .iter()
        .map(|(name, upstream)| {
            let path = Path::root().key("upstreams").key(name.as_str().to_owned());
            let spot =
                Spot::new(Place::Upstream, format!("upstream:{name}"), path.key("rate_limit"));
            limits.add(spot, upstream.rate_limit.as_ref()?)
        })
        .collect();
    let mut matcher = Matcher::new();
    let mut routes = Vec::with_capacity(file.routes.len());
    for (index, route) in file.routes.iter().enumerate() {
        let path = Path::root().key("routes").index(index);
        let faults = &mut limits.faults;
        if !faults.doubts(&path, "methods") && !faults.doubts(&path, "hosts") {
            tell_twins(&mut matcher, route, index, limits);
        }
        let name = name(route);
        let upstream = file.upstreams.get_index_of(&route.upstream);
        if upstream.is_none() {
            let known = file.upstreams.keys().map(UpstreamName::as_str);
            let path = path.clone().key("upstream");
            limits.faults.unknown(&path, "upstream", route.upstream.as_str(), known);
        }
        let cost = route.rate_limit.as_ref().and_then(|limit| limit.cost);
        let own = route.rate_limit.as_ref().and_then(|limit| {
            let amount = Amount::written(limit.sustained.as_ref()?, &limit.terms);
            let spot = Spot::new(Place::Route, format!("route:{name}"), path.key("rate_limit"));
            limits.place(spot, amount, &limit.terms, cost.unwrap_or(1))
        });
        let of_upstream = upstream.and_then(|number| of_upstreams[number]);
        routes.push(RouteInForce {
            number: index as u32,
            name: name.into(),
            pattern: route.path.as_str().into(),
            upstream: upstream.unwrap_or_default() as u32,
            operation: route
                .operation
                .as_ref()
                .and_then(|operation| operations.number(operation))
                .map(|number| number as u32),
            is_open: route.auth == Some(RouteAuth::None),
            cost,
            limits: own.into_iter().chain(of_upstream).collect(),
        });
    }
    (routes, matcher)
}

fn tell_twins(
    matcher: &mut Matcher,
    route: &shapes::Route,
    index: usize,
    limits: &mut Limits<'_, '_>,
) {
    let methods = route.methods.as_deref().unwrap_or_default();
    let methods: Vec<&str> = methods.iter().map(Method::as_str).collect();
    let hosts = route.hosts.as_deref().unwrap_or_default();
    let hosts: Vec<&str> = hosts.iter().map(Host::as_str).collect();
    let key = RouteKey { path: route.path.as_str(), methods: &methods, hosts: &hosts };
    if let Err(taken) = matcher.add(index, key) {
        let routes = Path::root().key("routes");
        let line = limits.faults.line_of(&routes.clone().index(taken.by));
        limits.faults.error(
            &routes.index(index).key("path"),
            format!("the route in line {line} is for the same requests"),
            "give them different paths, methods or hosts, or leave one out",
        );
    }
}

/// What no other route is called: no two are for the same methods, hosts and path.
fn name(route: &shapes::Route) -> String {
    let mut name = String::new();
    if let Some(methods) = &route.methods {
        let methods: Vec<&str> = methods.iter().map(Method::as_str).collect();
        name += &methods.join(",");
        name.push(' ');
    }
    if let Some(hosts) = &route.hosts {
        let hosts: Vec<&str> = hosts.iter().map(Host::as_str).collect();
        name += &hosts.join(",");
    }
    name += route.path.as_str();
    name
}
