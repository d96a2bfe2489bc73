//! One binary for all tests of the engine.

#![cfg(not(tollgate_loom))]
#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]

mod absorbed;
mod allocations;
mod bounded;
mod chains;
mod concurrency;
mod queue;
mod reconfigure;
mod three_tier;
