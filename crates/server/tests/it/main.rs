//! The layer around services, as their callers and the services themselves see it.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]

mod callers;
mod conformance;
mod elsewhere;
mod examples;
mod grpc;
#[allow(dead_code, reason = "it has what the counters' tests need as well")]
#[path = "../../../redis/tests/it/ports.rs"]
mod ports;
mod reload;
mod service;
mod slots;
mod strategies;
mod support;
