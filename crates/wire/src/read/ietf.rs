//! The IETF's structured fields, of the present draft and those before it that are in use.
//!
//! | draft | `RateLimit-Policy` | `RateLimit` |
//! |---|---|---|
//! | 08 and later | `"name";q=100;w=10` | `"name";r=47;t=6` |
//! | 07 | `100;w=10` | `limit=100, remaining=47, reset=6` |
//!
//! Drafts before had three fields, which are read with their `X-` siblings.

use std::time::Duration;

use http::HeaderMap;
use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parameters, Parser};

use super::value::plausible;
use super::{MOST_LIMITS, Seen, joined, short};
use crate::names;

/// What both fields say, joined by name. Without `RateLimit` there is nothing that changes, and nothing is
/// read. A malformed field counts as absent.
pub(super) fn read(headers: &HeaderMap) -> Vec<Seen> {
    let Some(text) = joined(headers, &names::RATELIMIT) else { return Vec::new() };
    let policy = joined(headers, &names::RATELIMIT_POLICY).unwrap_or_default();
    let policies: List = Parser::new(&policy).parse().unwrap_or_default();
    if let Ok(standing) = Parser::new(&text).parse::<List>()
        && let named = named(&standing)
        && !named.is_empty()
    {
        return named.into_iter().map(|seen| with_policy(seen, &policies)).collect();
    }
    let dictionary = Parser::new(&text).parse::<Dictionary>();
    dictionary.ok().and_then(|d| one(&d, &policies)).into_iter().collect()
}

/// Draft 08 and later: each limit that has a name and an `r`.
fn named(standing: &List) -> Vec<Seen> {
    let items = standing.iter().filter_map(item).filter_map(|item| {
        let name = item_name(item)?;
        let remaining = count(&item.params, "r")?;
        let reset_after = seconds(&item.params, "t");
        Some(Seen { name, remaining: Some(remaining), reset_after, ..Seen::default() })
    });
    items.take(MOST_LIMITS).collect()
}

fn with_policy(mut seen: Seen, policies: &List) -> Seen {
    let of = |item: &&Item| item_name(item).as_deref() == Some(&*seen.name);
    if let Some(policy) = policies.iter().filter_map(item).find(of) {
        seen.limit = count(&policy.params, "q");
        seen.window = window(policy);
    }
    seen
}

/// Draft 07: a dictionary that speaks of one limit.
fn one(standing: &Dictionary, policies: &List) -> Option<Seen> {
    let member = |name: &str| match standing.get(name)? {
        ListEntry::Item(item) => integer(&item.bare_item),
        ListEntry::InnerList(_) => None,
    };
    let remaining = member("remaining")?;
    let limit = member("limit");
    let figure = |item: &&Item| limit.is_some() && integer(&item.bare_item) == limit;
    let policy = policies.iter().filter_map(item).find(figure);
    Some(Seen {
        name: String::new(),
        limit,
        remaining: Some(remaining),
        reset_after: member("reset").and_then(|secs| plausible(secs as f64)),
        window: policy.and_then(window),
        is_resource: false,
    })
}

/// In one of no length nothing would ever be limited.
fn window(policy: &Item) -> Option<Duration> {
    seconds(&policy.params, "w").filter(|window| !window.is_zero())
}

fn item(entry: &ListEntry) -> Option<&Item> {
    if let ListEntry::Item(item) = entry { Some(item) } else { None }
}

/// A string; some servers write a token.
fn item_name(item: &Item) -> Option<String> {
    match &item.bare_item {
        BareItem::String(name) => Some(short(name.as_str())),
        BareItem::Token(name) => Some(short(name.as_str())),
        _ => None,
    }
}

fn count(params: &Parameters, name: &str) -> Option<u64> {
    integer(params.get(name)?)
}

fn seconds(params: &Parameters, name: &str) -> Option<Duration> {
    plausible(integer(params.get(name)?)? as f64)
}

/// A number that is not below zero: the draft knows no other.
fn integer(item: &BareItem) -> Option<u64> {
    match item {
        BareItem::Integer(integer) => u64::try_from(i64::from(*integer)).ok(),
        _ => None,
    }
}
