//! The command as a person uses it.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]

mod commands;
mod deploy;
mod keys;
mod law;
mod run_time;
mod support;
mod told;
