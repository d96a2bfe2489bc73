//! One binary for all tests of the gateway's transport: real sockets at both ends.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]

mod bounds;
mod caller;
mod drain;
mod floods;
mod forwarding;
mod hang_up;
mod http2;
mod http2_bodies;
mod hygiene;
mod law;
mod retries;
mod streaming;
mod support;
mod tls;
mod upgrades;
mod upstreams;
