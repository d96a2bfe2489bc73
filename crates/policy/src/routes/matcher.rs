//! The most specific route for a request.
//!
//! Routes are laid into a tree of segments. A search goes down it, exact segments before `{param}` before a
//! trailing `*`, and comes back up where no route is for the request's host and method. Every node is seen once at
//! most. A slash at the end of a path changes nothing: servers disagree about it, and it must not reach another
//! route. So `/v1/*` is for `/v1` too.

use std::fmt;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

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
            let segment = &normal[1..];
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
        self.search(0, path.strip_prefix('/')?, host, method)
    }

    fn search(&self, at: usize, rest: &str, host: &str, method: &str) -> Option<usize> {
        let node = &self.nodes[at];
        let first = |candidates: &[Candidate]| {
            candidates.iter().find(|one| one.is_for(host, method)).map(|one| one.route)
        };
        if rest.is_empty() {
            return first(&node.here).or_else(|| first(&node.below));
        }
        let (segment, behind) = rest.split_once('/').unwrap_or((rest, ""));
        let exact = self.exact(at, segment);
        let deeper = |child: usize| self.search(child, behind, host, method);
        exact
            .and_then(deeper)
            .or_else(|| node.param.and_then(deeper))
            .or_else(|| first(&node.below))
    }
}

#[inline]
fn hash(from: u32, segment: &str) -> u64 {
    FixedState::with_seed(u64::from(from)).hash_one(segment)
}
