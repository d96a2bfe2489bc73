//! Who is counted, in words: the names of counters in Redis and in explanations.

use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr};

use sha2::{Digest, Sha256};

use crate::compile::{Counted, PlacedLimit, Policy};

/// The network an address is counted by: of IPv6 its /64, which one household or host has to itself; an IPv4 address
/// written as IPv6 is the IPv4 address.
///
/// ```
/// use tollgate_policy::counted_address;
///
/// let counted = |text: &str| counted_address(text.parse().unwrap()).to_string();
/// assert_eq!(counted("203.0.113.7"), "203.0.113.7");
/// assert_eq!(counted("::ffff:203.0.113.7"), "203.0.113.7");
/// assert_eq!(counted("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
/// ```
#[inline]
pub fn counted_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(bits))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Who holds a key inside a tenant: a user, or the key itself where it names none; or who calls without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder<'a> {
    /// A user by name.
    User(&'a str),
    /// A key by its id.
    Key(&'a str),
    /// Nobody with a key, at this address.
    Address(IpAddr),
}

/// Who one request is counted as, in each scope.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The id of its tenant.
    pub tenant: &'a str,
    /// Who holds its key.
    pub holder: Holder<'a>,
    /// Its address, where it is known.
    pub ip: Option<IpAddr>,
    /// The name of its route, where it has one.
    pub route: Option<&'a str>,
}

impl Policy {
    /// The name of the counter that a caller is charged to under a limit:
    /// `<prefix>:ratelimit:<scope>:<limit>/<identifier>:<window>`.
    pub fn counter_key(&self, limit: &PlacedLimit, caller: &Caller<'_>) -> String {
        let name = self.counter_name(limit, caller);
        format!("{}:ratelimit:{name}", self.settings().redis.prefix)
    }

    /// The same without what all begin with, which may be another in another file: `<scope>:<limit>/<identifier>:<window>`.
    ///
    /// No two counters have one name. Names are kept beside balances that outlive the process, so they never change either.
    pub fn counter_name(&self, limit: &PlacedLimit, caller: &Caller<'_>) -> String {
        let mut key = String::new();
        escape(&mut key, limit.counter());
        key.push('/');
        match (limit.counted(), caller.holder) {
            (Counted::Everybody, _) => key.push_str("all"),
            (Counted::Node(node), _) => {
                escape(&mut key, self.tenants().all()[node as usize].id());
            }
            (Counted::Tenant, _) => escape(&mut key, caller.tenant),
            // A tenant's id has neither `/` nor `:`, so no user is taken for a key.
            (Counted::User, Holder::User(user)) => {
                escape(&mut key, caller.tenant);
                key.push('/');
                push_user(&mut key, user, limit.counter());
            }
            (Counted::User, Holder::Key(id)) => {
                escape(&mut key, caller.tenant);
                key.push_str(":key:");
                escape(&mut key, id);
            }
            (Counted::User, Holder::Address(address)) => {
                escape(&mut key, caller.tenant);
                key.push_str(":ip:");
                push_address(&mut key, Some(address));
            }
            (Counted::Ip, _) => push_address(&mut key, caller.ip),
            (Counted::Route, _) => escape(&mut key, caller.route.unwrap_or("<route>")),
        }
        key.push(':');
        key.push_str(limit.limit().span().name());
        key
    }
}

fn push_address(key: &mut String, address: Option<IpAddr>) {
    match address.map(counted_address) {
        Some(IpAddr::V6(network)) => key.push_str(&format!("{network}/64")),
        Some(v4) => key.push_str(&v4.to_string()),
        None => key.push_str("<ip>"),
    }
}

/// The longest user that is written as it is. Those of a file and of the API are no longer; a program that embeds the gate may take
/// them from anywhere, and what a caller sends must not become a name of megabytes.
const LONGEST_USER: usize = 128;

/// A name is read from its first `/` on where the limit has none, and a user may have as many as it likes. Routes do have some: of
/// their limits it is read from its end, so there a user has no `/` and no `:`. Otherwise `b/c` of tenant `acme` under `/v1` would be `c`
/// of tenant `b` under `/v1/acme`.
fn push_user(key: &mut String, user: &str, counter: &str) {
    if user.len() > LONGEST_USER {
        // No escaped text has a `%s`, so nobody can be called what another's hash is.
        key.push_str("%sha256-");
        for byte in &Sha256::digest(user)[..16] {
            let _ = write!(key, "{byte:02x}");
        }
        return;
    }
    if !counter.contains('/') {
        return escape(key, user);
    }
    for character in user.chars() {
        match character {
            '/' => key.push_str("%2F"),
            ':' => key.push_str("%3A"),
            other => escape_one(key, other),
        }
    }
}

fn escape(key: &mut String, text: &str) {
    text.chars().for_each(|character| escape_one(key, character));
}

/// Braces would choose the slot of a cluster, and so would let a caller put all its counters on one node.
fn escape_one(key: &mut String, character: char) {
    match character {
        '{' => key.push_str("%7B"),
        '}' => key.push_str("%7D"),
        '%' => key.push_str("%25"),
        other => key.push(other),
    }
}
