//! One binary for all tests of the control plane: a real listener, a real database, a real gate.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub
)]

mod client;
mod concurrency;
mod config;
mod contract;
mod grpc;
mod guard;
mod keys;
mod limits;
mod node;
mod objects;
mod secrets;
mod usage;

pub use client::{Answer, Ask};
pub use node::{NOW, Node, TOKEN};
