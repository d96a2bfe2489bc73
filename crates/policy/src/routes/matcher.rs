//! The most specific route for a request.
//!
//! Routes are laid into a tree of segments. A search goes down it, exact segments before `{param}` before a
//! trailing `*`, and comes back up where no route is for the request's host and method. Every node is seen once at
//! most. A slash at the end of a path changes nothing: servers disagree about it, and it must not reach another
//! route. So `/v1/*` is for `/v1` too.

use std::collections::HashMap;
use std::fmt;

use super::spelling::normalise;

/// What a route is for.
#[derive(Clone, Copy, Debug)]
pub struct RouteKey<'r> {
    /// Exact segments, `{param}`, a trailing `*`.
    pub path: &'r str,
    /// The methods it is for; all if there are none.
    pub methods: &'r [&'r str],
    /// The hosts it is for, without port; all if there are none.
    pub hosts: &'r [&'r str],
}

/// Another route is for the same requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its number.
    pub by: usize,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route number {} is for the same requests", self.by + 1)
    }
}

impl std::error::Error for Taken {}

/// Finds the route of a request by host, method and normalised path.
#[derive(Clone, Debug)]
pub struct Matcher {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    exact: HashMap<Box<str>, usize>,
    param: Option<usize>,
    /// Routes that end here.
    here: Vec<Candidate>,
    /// Routes that end here with a `*`.
    below: Vec<Candidate>,
}

#[derive(Clone, Debug)]
struct Candidate {
    route: usize,
    methods: Box<[Box<str>]>,
    hosts: Box<[Box<str>]>,
}

impl Candidate {
    fn is_for(&self, host: &str, method: &str) -> bool {
        let is_host = |known: &str| known.eq_ignore_ascii_case(host);
        (self.hosts.is_empty() || self.hosts.iter().any(|known| is_host(known)))
            && (self.methods.is_empty() || self.methods.iter().any(|known| **known == *method))
    }

    /// Routes for some hosts come before those for all, then those for some methods.
    fn rank(&self) -> (bool, bool) {
        (self.hosts.is_empty(), self.methods.is_empty())
    }

    fn meets(&self, other: &Candidate) -> bool {
        let share = |a: &[Box<str>], b: &[Box<str>]| a.iter().any(|x| b.contains(x));
        self.rank() == other.rank()
            && (self.hosts.is_empty() || share(&self.hosts, &other.hosts))
            && (self.methods.is_empty() || share(&self.methods, &other.methods))
    }
}

impl Default for Matcher {
    fn default() -> Matcher {
        Matcher { nodes: vec![Node::default()] }
    }
}

impl Matcher {
    /// No routes yet.
    pub fn new() -> Matcher {
        Matcher::default()
    }

    /// Adds the route with this number.
    pub fn add(&mut self, route: usize, key: RouteKey<'_>) -> Result<(), Taken> {
        let mut node = 0;
        let mut is_wild = false;
        for segment in key.path.split('/').filter(|segment| !segment.is_empty()) {
            if segment == "*" {
                is_wild = true;
                break;
            }
            node = self.child(node, segment);
        }
        let owned = |texts: &[&str], lower: bool| {
            let text =
                |text: &&str| if lower { text.to_ascii_lowercase() } else { (*text).to_owned() };
            texts.iter().map(|one| text(one).into()).collect()
        };
        let new =
            Candidate { route, methods: owned(key.methods, false), hosts: owned(key.hosts, true) };
        let node = &mut self.nodes[node];
        let there = if is_wild { &mut node.below } else { &mut node.here };
        if let Some(other) = there.iter().find(|other| other.meets(&new)) {
            return Err(Taken { by: other.route });
        }
        there.push(new);
        there.sort_by_key(Candidate::rank);
        Ok(())
    }

    fn child(&mut self, node: usize, segment: &str) -> usize {
        let new = self.nodes.len();
        let found = if segment.starts_with('{') {
            *self.nodes[node].param.get_or_insert(new)
        } else {
            // Written in whichever way, it stands for the one spelling of it.
            let spelled = format!("/{segment}");
            let normal = normalise(&spelled).unwrap_or_else(|_| spelled.as_str().into());
            *self.nodes[node].exact.entry(normal[1..].into()).or_insert(new)
        };
        if found == new {
            self.nodes.push(Node::default());
        }
        found
    }

    /// The number of the most specific route for a request, whose path is [normalised](normalise).
    pub fn find(&self, host: &str, method: &str, path: &str) -> Option<usize> {
        self.search(0, path.strip_prefix('/')?, host, method)
    }

    fn search(&self, node: usize, rest: &str, host: &str, method: &str) -> Option<usize> {
        let node = &self.nodes[node];
        let first = |candidates: &[Candidate]| {
            candidates.iter().find(|one| one.is_for(host, method)).map(|one| one.route)
        };
        if rest.is_empty() {
            return first(&node.here).or_else(|| first(&node.below));
        }
        let (segment, behind) = rest.split_once('/').unwrap_or((rest, ""));
        let exact = node.exact.get(segment).copied();
        let deeper = |child: usize| self.search(child, behind, host, method);
        exact
            .and_then(deeper)
            .or_else(|| node.param.and_then(deeper))
            .or_else(|| first(&node.below))
    }
}
