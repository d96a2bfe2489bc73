//! One binary for all tests of the gateway's transport: real sockets at both ends.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]

mod again;
mod bounds;
mod caller;
mod claims;
mod connecting;
mod drain;
mod early_answers;
mod floods;
mod forwarding;
mod hang_up;
mod health;
mod http2;
mod http2_bodies;
mod hygiene;
mod law;
mod not_taken;
#[allow(dead_code, reason = "it has what the counters' tests need as well")]
#[path = "../../../redis/tests/it/ports.rs"]
mod ports;
mod recorded;
mod retries;
mod slow_readers;
mod streaming;
mod support;
mod switching;
mod tls;
mod to_http2;
mod unread;
mod upgrades;
mod uploads;
mod upstreams;
