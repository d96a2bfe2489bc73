//! One binary for all tests of the client, through what it offers to others.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]

mod dialects;
mod fifty;
mod grpc;
mod hopeless;
mod odd;
mod pacer;
mod pacers;
mod readiness;
#[cfg(feature = "reqwest")]
mod reqwest;
mod scarce;
mod service;
mod streams;
mod units;

use http::{HeaderMap, HeaderName};

fn headers(rows: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in rows {
        map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    map
}
