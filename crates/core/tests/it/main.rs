//! One binary for all tests of the core: laws every algorithm keeps, each against a slow exact model.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]

mod bad_input;
mod give_back;
mod laws;
mod models;
mod quotas;
mod reconfigure;
mod records;
mod traces;
