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
mod run_time;
mod strategies;
mod support;
mod told;
mod usage;
