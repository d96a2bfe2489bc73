//! The most specific route for a request.
//!
//! Routes are laid into a tree of segments. A search goes down it, exact segments before `{param}` before a
//! trailing `*`, and comes back up where no route is for the request's host and method. Every node is seen once at
//! most. A slash at the end of a path changes nothing: servers disagree about it, and it must not reach another
//! route. So `/v1/*` is for `/v1` too. Where no route of a path names HEAD, it is whatever GET is: servers do the same work for both.

use std::fmt;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::spelling::{matched, normalise};

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
    /// From every node by every exact segment, in one table: a search touches little memory. Who chooses the
    /// segments that are looked up does not choose those that are in it, so the hash needs no secret.
    edges: HashTable<Edge>,
}

#[derive(Clone, Debug)]
struct Edge {
    from: u32,
    to: u32,
    segment: Box<str>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    param: Option<usize>,
    /// Routes that end here.
    here: Vec<Candidate>,
    /// Routes that end here with a `*`.
    below: Vec<Candidate>,
}

#[derive(Clone, Debug)]
struct Candidate {
    route: u32,
    /// The usual methods it is for, a bit each.
    usual: u16,
    /// Other methods it is for. If it is for neither, it is for all.
    others: Box<[Box<str>]>,
    hosts: Box<[Box<str>]>,
}

/// What is looked for.
#[derive(Clone, Copy)]
struct Request<'r> {
    host: &'r str,
    method: &'r str,
    bit: u16,
    /// The method that it is as good as, where nobody names its own.
    like: u16,
}

/// Methods that are known by a bit, so that comparing them touches no memory.
const USUAL: [&str; 9] =
    ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE"];

fn bit(method: &str) -> u16 {
    USUAL.iter().position(|usual| *usual == method).map_or(0, |at| 1 << at)
}

impl Candidate {
    fn is_for(&self, request: Request<'_>) -> bool {
        let is_host = |known: &str| known.eq_ignore_ascii_case(request.host);
        (self.hosts.is_empty() || self.hosts.iter().any(|known| is_host(known)))
            && (self.is_for_all_methods()
                || self.usual & (request.bit | request.like) != 0
                || self.others.iter().any(|known| **known == *request.method))
    }

    fn is_for_all_methods(&self) -> bool {
        self.usual == 0 && self.others.is_empty()
    }

    /// Routes for some hosts come before those for all, then those for some methods.
    fn rank(&self) -> (bool, bool) {
        (self.hosts.is_empty(), self.is_for_all_methods())
    }

    fn meets(&self, other: &Candidate) -> bool {
        let share = |a: &[Box<str>], b: &[Box<str>]| a.iter().any(|x| b.contains(x));
        self.rank() == other.rank()
            && (self.hosts.is_empty() || share(&self.hosts, &other.hosts))
            && (self.is_for_all_methods()
                || self.usual & other.usual != 0
                || share(&self.others, &other.others))
    }
}

impl Default for Matcher {
    fn default() -> Matcher {
        Matcher { nodes: vec![Node::default()], edges: HashTable::new() }
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
        let others = key.methods.iter().filter(|method| bit(method) == 0);
        let new = Candidate {
            route: route as u32,
            usual: key.methods.iter().fold(0, |bits, method| bits | bit(method)),
            others: others.map(|method| (*method).into()).collect(),
            hosts: key.hosts.iter().map(|host| host.to_ascii_lowercase().into()).collect(),
        };
        let node = &mut self.nodes[node];
        let there = if is_wild { &mut node.below } else { &mut node.here };
        if let Some(other) = there.iter().find(|other| other.meets(&new)) {
            return Err(Taken { by: other.route as usize });
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
            let segment = &matched(&normal)[1..];
            self.exact(node, segment).unwrap_or_else(|| {
                let edge = Edge { from: node as u32, to: new as u32, segment: segment.into() };
                let again = |edge: &Edge| hash(edge.from, &edge.segment);
                self.edges.insert_unique(hash(edge.from, segment), edge, again);
                new
            })
        };
        if found == new {
            self.nodes.push(Node::default());
        }
        found
    }

    #[inline]
    fn exact(&self, node: usize, segment: &str) -> Option<usize> {
        let from = node as u32;
        let is_it = |edge: &Edge| edge.from == from && *edge.segment == *segment;
        self.edges.find(hash(from, segment), is_it).map(|edge| edge.to as usize)
    }

    /// The number of the most specific route for a request, whose path is [normalised](normalise).
    pub fn find(&self, host: &str, method: &str, path: &str) -> Option<usize> {
        self.find_as_spelled(host, method, &matched(path))
    }

    /// The same by a path as it is spelled, which is how some routers choose what they run.
    pub fn find_as_spelled(&self, host: &str, method: &str, path: &str) -> Option<usize> {
        let like = if method == "HEAD" { bit("GET") } else { 0 };
        let request = Request { host, method, bit: bit(method), like };
        self.search(0, path.strip_prefix('/')?, request)
    }

    fn search(&self, at: usize, rest: &str, request: Request<'_>) -> Option<usize> {
        let node = &self.nodes[at];
        let first = |candidates: &[Candidate]| {
            let mut all = candidates.iter().filter(|one| one.is_for(request));
            let found = match request.like {
                0 => all.next(),
                _ => all.min_by_key(|one| (one.rank(), one.usual & request.bit == 0)),
            };
            found.map(|one| one.route as usize)
        };
        if rest.is_empty() {
            return first(&node.here).or_else(|| first(&node.below));
        }
        let (segment, behind) = rest.split_once('/').unwrap_or((rest, ""));
        let exact = self.exact(at, segment);
        let deeper = |child: usize| self.search(child, behind, request);
        exact
            .and_then(deeper)
            .or_else(|| node.param.and_then(deeper))
            .or_else(|| first(&node.below))
    }
}

const HASH: FixedState = FixedState::with_seed(0);

#[inline]
fn hash(from: u32, segment: &str) -> u64 {
    HASH.hash_one((from, segment))
}
