//! The command as a person uses it.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]
// Processes are waited for in real time.
#![allow(clippy::disallowed_methods)]

mod commands;
mod control;
mod deploy;
mod grpc;
mod keys;
mod law;
mod quotas;
mod run_time;
#[path = "../../../redis/tests/it/servers.rs"]
#[allow(dead_code, unused_imports)]
mod servers;
mod sharing;
mod sharing_outages;
mod strategies;
mod support;
mod told;
mod usage;
