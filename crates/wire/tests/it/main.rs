//! One binary for all tests of what callers see.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]

mod dialects;
mod grpc;
mod headers;
mod properties;
mod refusals;
mod retries;

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate_core::{Limit, Rate, Scope, Standing, Time};
use tollgate_wire::Line;

/// 2027-01-15T08:00:00Z
const NOW: Time = Time::from_secs(1_800_000_000);

fn standing(limit: u64, remaining: u64, reset_millis: u64) -> Standing {
    Standing { limit, remaining, reset_after: Duration::from_millis(reset_millis) }
}

/// A line of a token bucket with so many a second and such a burst.
fn per_second(rate: u64, burst: u64, remaining: u64) -> Line<'static> {
    let limit = Limit::token_bucket(Rate::per_second(rate)).burst(burst).build().unwrap();
    let missing = (burst - remaining) * 1_000 / rate;
    Line::of(&limit, Scope::User, standing(burst, remaining, missing)).source("plan:free")
}

fn headers(rows: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in rows {
        let name: HeaderName = name.parse().unwrap();
        map.append(name, HeaderValue::from_str(value).unwrap());
    }
    map
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}
