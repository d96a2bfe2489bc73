//! The command as a person uses it.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]
// Processes are waited for in real time.
#![allow(clippy::disallowed_methods)]

mod certificates;
mod cli;
mod commands;
mod control;
mod declared_keys;
mod deploy;
mod doctor;
#[allow(dead_code, reason = "it has what the counters' tests need as well")]
#[path = "../../../redis/tests/it/groups.rs"]
mod groups;
mod grpc;
#[path = "../../../storage/tests/it/integrity.rs"]
mod integrity;
mod keys;
mod law;
#[allow(dead_code, reason = "it has what the counters' tests need as well")]
#[path = "../../../redis/tests/it/ports.rs"]
mod ports;
mod quotas;
mod rotated_keys;
mod run_time;
mod secrets;
#[allow(dead_code, unused, reason = "it has what the counters' tests need as well")]
#[path = "../../../redis/tests/it/servers.rs"]
mod servers;
mod shared_store;
mod sharing;
mod sharing_outages;
mod storage;
mod strategies;
mod support;
mod told;
mod usage;
